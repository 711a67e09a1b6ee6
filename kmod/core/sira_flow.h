/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A SIRA flow that follows an ensemble. It consists of the algorithm's state, the epoch clock
 * (ensemble_flow.h) and the parameter set in force. The ensemble has one axis, the throughput.
 *
 * Epoch 0 is the flow's startup and its first window (sira.h, eq. 2), which uses the host's own
 * parameters.
 */
#ifndef CCA_SIRA_FLOW_H
#define CCA_SIRA_FLOW_H

#include "ensemble_recording.h"
#include "sira.h"
#include "tracking.h"

struct sira_flow {
	struct sira_state sira;
	struct ens_flow ens;
	struct sira_params params;	/* in force */
	struct tracking tracking;	/* of delay_threshold_us */
};

CCA_FN void sira_flow_init(struct sira_flow *f, const struct sira_params *defaults,
			   const struct cca_start *start, u8 delay_class, u32 hash,
			   struct cca_decision *d)
{
	f->params = *defaults;
	ens_flow_init(&f->ens, start, delay_class, hash);
	tracking_restart(&f->tracking, &f->ens.clock);
	sira_init(&f->sira, &f->params, start, d);
}

/* The flow's value on its only axis, the throughput. */
CCA_FN u64 sira_axis_value(const struct sira_flow *f, u32 axis)
{
	return axis ? 0 : f->ens.clock.measured_bytes_per_s;
}

TRACKING_FUNCTIONS(sira, delay_threshold_us)
ENS_FLOW_FUNCTIONS(sira, sira_flow_took_row)

/* table, defaults: read only at the end of an epoch. */
CCA_FN void sira_flow_on_ack(struct sira_flow *f, const struct sira_params *defaults,
			     const struct ens_table *table, const struct cca_ack *ack,
			     struct cca_decision *d)
{
	u32 delay_us;

	sira_on_ack(&f->sira, &f->params, ack, d);
	delay_us = sira_queueing_delay_us(&f->sira, ack->rtt_us);
	if (!f->sira.outage)
		sira_flow_track(f, ack, delay_us);
	if (!ens_flow_on_ack(&f->ens, ack, delay_us, sira_window_is_first(&f->sira.window)))
		return;
	sira_flow_end_epoch(f, defaults, table, ack->now_us);
}

CCA_FN void sira_flow_on_event(struct sira_flow *f, const struct cca_event *ev,
			       struct cca_decision *d)
{
	ens_flow_on_event(&f->ens, ev);
	sira_on_event(&f->sira, &f->params, ev, d);
}

/* The part of a record after its input: decision, mode, epoch and parameter set. */
CCA_FN void sira_put_outcome(struct rec_record *r, const struct sira_flow *f,
			     const struct cca_decision *d)
{
	rec_put_decision(r, d);
	r->mode = f->sira.mode;
	ens_flow_put_outcome(r, &f->ens, &f->params, CCA_ID_sira);
}

#endif /* CCA_SIRA_FLOW_H */
