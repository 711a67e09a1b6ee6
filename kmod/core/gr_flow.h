/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A GR flow that follows an ensemble. It consists of the algorithm's state, the epoch
 * clock (ensemble_flow.h) and the parameter set in force. The ensemble has one axis,
 * the throughput level (PQSA eq. 1).
 *
 * Epoch 0 is the flow's first slow start, which uses the host's own parameters. A later
 * slow start, after a timeout, belongs to the epoch in which it happens.
 */
#ifndef CCA_GR_FLOW_H
#define CCA_GR_FLOW_H

#include "ensemble_flow.h"
#include "gr.h"
#include "tracking.h"

enum gr_axis {
#define CCA_ONLY CCA_ID_gr
#define CCA_AXIS(algorithm, name, meaning) GR_AXIS_##name,
#include "params.def"
};

struct gr_flow {
	struct gr_state gr;
	struct ens_flow ens;
	struct gr_params params;	/* in force */
	struct tracking tracking;	/* of delay_threshold_us */
};

CCA_FN void gr_flow_init(struct gr_flow *f, const struct gr_params *defaults,
			 const struct cca_start *start, u8 delay_class, u32 hash,
			 struct cca_decision *d)
{
	f->params = *defaults;
	ens_flow_init(&f->ens, start, delay_class, hash);
	tracking_restart(&f->tracking, &f->ens.clock);
	gr_init(&f->gr, &f->params, start, d);
}

/* The flow's value on the axis with this number in params.def. */
CCA_FN u64 gr_axis_value(const struct gr_flow *f, u32 axis)
{
	return axis == GR_AXIS_throughput_bytes_per_s ? f->ens.clock.measured_bytes_per_s : 0;
}

TRACKING_FUNCTIONS(gr, delay_threshold_us)
ENS_FLOW_FUNCTIONS(gr, gr_flow_took_row)

/* table, defaults: read only at the end of an epoch. */
CCA_FN void gr_flow_on_ack(struct gr_flow *f, const struct gr_params *defaults,
			   const struct ens_table *table, const struct cca_ack *ack,
			   struct cca_decision *d)
{
	u32 delay_us;

	gr_on_ack(&f->gr, &f->params, ack, d);
	delay_us = gr_queueing_delay_us(&f->gr, ack->rtt_us);
	if (!f->gr.outage)
		gr_flow_track(f, ack, delay_us);
	if (!ens_flow_on_ack(&f->ens, ack, delay_us, f->gr.mode == GR_SLOW_START))
		return;
	gr_flow_end_epoch(f, defaults, table, ack->now_us);
}

CCA_FN void gr_flow_on_event(struct gr_flow *f, const struct cca_event *ev,
			     struct cca_decision *d)
{
	ens_flow_on_event(&f->ens, ev);
	gr_on_event(&f->gr, &f->params, ev, d);
}

#endif /* CCA_GR_FLOW_H */
