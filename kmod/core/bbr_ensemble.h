/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A flow of BBR version 1 or 3 that follows an ensemble: struct bbr1_flow or bbr3_flow. It
 * consists of the algorithm's state, the epoch clock (ensemble_flow.h) and the parameter set in
 * force.
 *
 *   axes    throughput level (PQSA eq. 1), least RTT of the connection
 *   delay   RTT sample - least RTT. BBR's own RTTmin contains the queue while PROBE_RTT drains it.
 *
 * Epoch 0 lasts until the pipe has been full. The gains of a row apply from the next ACK on. If a
 * row has another time between the probes of version 3, this applies from the next probe on.
 */
#ifndef CCA_BBR_ENSEMBLE_H
#define CCA_BBR_ENSEMBLE_H

#include "bbr1.h"
#include "bbr3.h"
#include "ensemble_recording.h"

/* The two versions have the same axes. */
enum bbr_axis {
#define CCA_ONLY CCA_ID_bbr
#define CCA_AXIS(algorithm, name, meaning) BBR_AXIS_##name,
#include "params.def"
};

/*
 * The flow of a version NAME whose algorithm in params.def has this id:
 *
 *   NAME_flow_init()        hash: any number, fixed per flow
 *   NAME_axis_value()       the flow's value on the axis with this number in params.def
 *   NAME_flow_on_ack()      table, defaults: read only at the end of an epoch
 *   NAME_flow_on_event()
 *   NAME_put_outcome()      the part of a record after its input: decision, mode, epoch and
 *                           parameter set
 *
 * The functions of ENS_FLOW_FUNCTIONS() are among them.
 */
#define BBR_FLOW(name, id) \
struct name##_flow { \
	struct name##_state bbr; \
	struct ens_flow ens; \
	struct name##_params params;	/* in force */ \
	u32 min_rtt_us;			/* of the connection; 0: unknown */ \
}; \
\
CCA_FN void name##_flow_init(struct name##_flow *f, const struct name##_params *defaults, \
			     const struct cca_start *start, u8 delay_class, u32 hash, \
			     struct cca_decision *d) \
{ \
	f->params = *defaults; \
	f->min_rtt_us = 0; \
	ens_note_rtt(&f->min_rtt_us, start->rtt_us); \
	ens_flow_init(&f->ens, start, delay_class, hash); \
	name##_init(&f->bbr, &f->params, start, hash, d); \
} \
\
CCA_FN u64 name##_axis_value(const struct name##_flow *f, u32 axis) \
{ \
	return axis == BBR_AXIS_min_rtt_us ? f->min_rtt_us : f->ens.clock.measured_bytes_per_s; \
} \
\
ENS_FLOW_FUNCTIONS(name, ENS_NOTHING) \
\
CCA_FN void name##_flow_on_ack(struct name##_flow *f, const struct name##_params *defaults, \
			       const struct ens_table *table, const struct cca_ack *ack, \
			       struct cca_decision *d) \
{ \
	name##_on_ack(&f->bbr, &f->params, ack, d); \
	ens_note_rtt(&f->min_rtt_us, ack->rtt_us); \
	if (ens_flow_on_ack(&f->ens, ack, ens_queueing_delay_us(f->min_rtt_us, ack->rtt_us), \
			    !f->bbr.full)) \
		name##_flow_end_epoch(f, defaults, table, ack->now_us); \
} \
\
CCA_FN void name##_flow_on_event(struct name##_flow *f, const struct cca_event *ev, \
				 struct cca_decision *d) \
{ \
	ens_flow_on_event(&f->ens, ev); \
	name##_on_event(&f->bbr, &f->params, ev, d); \
} \
\
CCA_FN void name##_put_outcome(struct rec_record *r, const struct name##_flow *f, \
			       const struct cca_decision *d) \
{ \
	rec_put_decision(r, d); \
	r->mode = f->bbr.mode; \
	ens_flow_put_outcome(r, &f->ens, &f->params, id); \
}

BBR_FLOW(bbr1, CCA_ID_bbr)
BBR_FLOW(bbr3, CCA_ID_bbr3)

CCA_FN void bbr3_flow_on_loss(struct bbr3_flow *f, const struct cca_loss *loss)
{
	bbr3_on_loss(&f->bbr, &f->params, loss);
}

#endif /* CCA_BBR_ENSEMBLE_H */
