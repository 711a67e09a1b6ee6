/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A flow of BBR version 1 that follows an ensemble. It consists of the algorithm's state, the
 * epoch clock (ensemble_flow.h) and the parameter set in force.
 *
 *   axes    throughput level (PQSA eq. 1), least RTT of the connection
 *   delay   RTT sample - least RTT. BBR's own RTTmin contains the queue while PROBE_RTT drains it.
 *
 * Epoch 0 lasts until the pipe has been full. The gains of a row apply from the next ACK on.
 */
#ifndef CCA_BBR1_ENSEMBLE_H
#define CCA_BBR1_ENSEMBLE_H

#include "bbr1.h"
#include "ensemble_recording.h"

enum bbr1_axis {
#define CCA_ONLY CCA_ID_bbr
#define CCA_AXIS(algorithm, name, meaning) BBR1_AXIS_##name,
#include "params.def"
};

struct bbr1_flow {
	struct bbr1_state bbr;
	struct ens_flow ens;
	struct bbr1_params params;	/* in force */
	u32 min_rtt_us;			/* of the connection; 0: unknown */
};

/* hash: any number, fixed per flow. */
CCA_FN void bbr1_flow_init(struct bbr1_flow *f, const struct bbr1_params *defaults,
			   const struct cca_start *start, u8 delay_class, u32 hash,
			   struct cca_decision *d)
{
	f->params = *defaults;
	f->min_rtt_us = 0;
	ens_note_rtt(&f->min_rtt_us, start->rtt_us);
	ens_flow_init(&f->ens, start, delay_class, hash);
	bbr1_init(&f->bbr, &f->params, start, hash, d);
}

/* The flow's value on the axis with this number in params.def. */
CCA_FN u64 bbr1_axis_value(const struct bbr1_flow *f, u32 axis)
{
	return axis == BBR1_AXIS_min_rtt_us ? f->min_rtt_us : f->ens.clock.measured_bytes_per_s;
}

ENS_FLOW_FUNCTIONS(bbr1, ENS_NOTHING)

/* table, defaults: read only at the end of an epoch. */
CCA_FN void bbr1_flow_on_ack(struct bbr1_flow *f, const struct bbr1_params *defaults,
			     const struct ens_table *table, const struct cca_ack *ack,
			     struct cca_decision *d)
{
	bbr1_on_ack(&f->bbr, &f->params, ack, d);
	ens_note_rtt(&f->min_rtt_us, ack->rtt_us);
	if (ens_flow_on_ack(&f->ens, ack, ens_queueing_delay_us(f->min_rtt_us, ack->rtt_us),
			    !f->bbr.full))
		bbr1_flow_end_epoch(f, defaults, table, ack->now_us);
}

CCA_FN void bbr1_flow_on_event(struct bbr1_flow *f, const struct cca_event *ev,
			       struct cca_decision *d)
{
	ens_flow_on_event(&f->ens, ev);
	bbr1_on_event(&f->bbr, &f->params, ev, d);
}

/* The part of a record after its input: decision, mode, epoch and parameter set. */
CCA_FN void bbr1_put_outcome(struct rec_record *r, const struct bbr1_flow *f,
			     const struct cca_decision *d)
{
	rec_put_decision(r, d);
	r->mode = f->bbr.mode;
	ens_flow_put_outcome(r, &f->ens, &f->params, CCA_ID_bbr);
}

#endif /* CCA_BBR1_ENSEMBLE_H */
