/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A flow of BBR version 3 that follows an ensemble. It consists of the algorithm's state, the
 * epoch clock (ensemble_flow.h) and the parameter set in force.
 *
 *   axes    throughput level (PQSA eq. 1), least RTT of the connection
 *   delay   RTT sample - least RTT. BBR's own RTTmin contains the queue while PROBE_RTT drains it.
 *
 * Epoch 0 lasts until the pipe has been full. If a row has another time between probes, this
 * applies from the next probe on.
 */
#ifndef CCA_BBR3_ENSEMBLE_H
#define CCA_BBR3_ENSEMBLE_H

#include "bbr3.h"
#include "ensemble_recording.h"

enum bbr3_axis {
#define CCA_ONLY CCA_ID_bbr3
#define CCA_AXIS(algorithm, name, meaning) BBR3_AXIS_##name,
#include "params.def"
};

struct bbr3_flow {
	struct bbr3_state bbr;
	struct ens_flow ens;
	struct bbr3_params params;	/* in force */
	u32 min_rtt_us;			/* of the connection; 0: unknown */
};

/* hash: any number, fixed per flow. */
CCA_FN void bbr3_flow_init(struct bbr3_flow *f, const struct bbr3_params *defaults,
			   const struct cca_start *start, u8 delay_class, u32 hash,
			   struct cca_decision *d)
{
	f->params = *defaults;
	f->min_rtt_us = 0;
	ens_note_rtt(&f->min_rtt_us, start->rtt_us);
	ens_flow_init(&f->ens, start, delay_class, hash);
	bbr3_init(&f->bbr, &f->params, start, hash, d);
}

/* The flow's value on the axis with this number in params.def. */
CCA_FN u64 bbr3_axis_value(const struct bbr3_flow *f, u32 axis)
{
	return axis == BBR3_AXIS_min_rtt_us ? f->min_rtt_us : f->ens.clock.measured_bytes_per_s;
}

ENS_FLOW_FUNCTIONS(bbr3, ENS_NOTHING)

CCA_FN void bbr3_flow_on_loss(struct bbr3_flow *f, const struct cca_loss *loss)
{
	bbr3_on_loss(&f->bbr, &f->params, loss);
}

/* table, defaults: read only at the end of an epoch. */
CCA_FN void bbr3_flow_on_ack(struct bbr3_flow *f, const struct bbr3_params *defaults,
			     const struct ens_table *table, const struct cca_ack *ack,
			     struct cca_decision *d)
{
	bbr3_on_ack(&f->bbr, &f->params, ack, d);
	ens_note_rtt(&f->min_rtt_us, ack->rtt_us);
	if (ens_flow_on_ack(&f->ens, ack, ens_queueing_delay_us(f->min_rtt_us, ack->rtt_us),
			    !f->bbr.full))
		bbr3_flow_end_epoch(f, defaults, table, ack->now_us);
}

CCA_FN void bbr3_flow_on_event(struct bbr3_flow *f, const struct cca_event *ev,
			       struct cca_decision *d)
{
	ens_flow_on_event(&f->ens, ev);
	bbr3_on_event(&f->bbr, &f->params, ev, d);
}

/* The part of a record after its input: decision, mode, epoch and parameter set. */
CCA_FN void bbr3_put_outcome(struct rec_record *r, const struct bbr3_flow *f,
			     const struct cca_decision *d)
{
	rec_put_decision(r, d);
	r->mode = f->bbr.mode;
	ens_flow_put_outcome(r, &f->ens, &f->params, CCA_ID_bbr3);
}

#endif /* CCA_BBR3_ENSEMBLE_H */
