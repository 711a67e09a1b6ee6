/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A ROCCET flow that follows an ensemble. It consists of the algorithm's state, the epoch
 * clock (ensemble_flow.h) and the parameter set in force.
 *
 *   axes    throughput level (PQSA eq. 1), minimum RTT (RTT_min of ROCCET 2025, eq. 2)
 *   delay   RTT sample - minimum RTT
 *
 * Epoch 0 is the flow's initial slow start. A later slow start, after a timeout, belongs
 * to the epoch in which it happens.
 */
#ifndef CCA_ROCCET_FLOW_H
#define CCA_ROCCET_FLOW_H

#include "ensemble_flow.h"
#include "roccet.h"
#include "tracking.h"

enum roccet_axis {
#define CCA_ONLY CCA_ID_roccet
#define CCA_AXIS(algorithm, name, meaning) ROCCET_AXIS_##name,
#include "params.def"
};

struct roccet_flow {
	struct roccet_state roccet;
	struct ens_flow ens;
	struct roccet_params params;	/* in force */
	struct tracking tracking;	/* of srrtt_bound_pct */
};

/* The queueing delay in an RTT sample (RTT - RTT_min); 0 if it has none. */
CCA_FN u32 roccet_queueing_delay_us(const struct roccet_state *s, u32 rtt_us)
{
	return rtt_us > s->min_rtt_us && s->min_rtt_us ? rtt_us - s->min_rtt_us : 0;
}

CCA_FN void roccet_flow_init(struct roccet_flow *f, const struct roccet_params *defaults,
			     const struct cca_start *start, u8 delay_class, u32 hash)
{
	f->params = *defaults;
	ens_flow_init(&f->ens, start, delay_class, hash);
	tracking_restart(&f->tracking, &f->ens.clock);
	roccet_init(&f->roccet, &f->params, start);
}

/* The flow's value on the axis with this number in params.def. */
CCA_FN u64 roccet_axis_value(const struct roccet_flow *f, u32 axis)
{
	return axis == ROCCET_AXIS_min_rtt_us ? f->roccet.min_rtt_us :
						f->ens.clock.measured_bytes_per_s;
}

TRACKING_FUNCTIONS(roccet, srrtt_bound_pct)
ENS_FLOW_FUNCTIONS(roccet, roccet_flow_took_row)

/* table, defaults: read only at the end of an epoch. */
CCA_FN void roccet_flow_on_ack(struct roccet_flow *f, const struct roccet_params *defaults,
			       const struct ens_table *table, const struct cca_ack *ack,
			       struct cca_window *w)
{
	u32 delay_us;

	roccet_on_ack(&f->roccet, &f->params, ack, w);
	delay_us = roccet_queueing_delay_us(&f->roccet, ack->rtt_us);
	roccet_flow_track(f, ack, delay_us);
	if (!ens_flow_on_ack(&f->ens, ack, delay_us, !f->roccet.launched))
		return;
	roccet_flow_end_epoch(f, defaults, table, ack->now_us);
}

CCA_FN void roccet_flow_grow(struct roccet_flow *f, struct cca_window *w, u32 acked_pkts)
{
	roccet_grow(&f->roccet, &f->params, w, acked_pkts);
}

CCA_FN u32 roccet_flow_ssthresh(struct roccet_flow *f, struct cca_window *w)
{
	return roccet_ssthresh(&f->roccet, &f->params, w);
}

CCA_FN u32 roccet_flow_undo(struct roccet_flow *f, const struct cca_window *w)
{
	return roccet_undo(&f->roccet, w);
}

CCA_FN void roccet_flow_on_event(struct roccet_flow *f, const struct cca_event *ev)
{
	ens_flow_on_event(&f->ens, ev);
	roccet_on_event(&f->roccet, ev);
}

#endif /* CCA_ROCCET_FLOW_H */
