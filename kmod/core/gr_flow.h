/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A flow under GR that follows an ensemble: the algorithm, what a flow has beside
 * it (ensemble_flow.h), and the parameter set that it is on. The ensemble has one
 * axis, the throughput level (PQSA eq. 1).
 *
 * Epoch 0 is the flow's slow start, which is on the host's own parameters. A later
 * one, behind a timeout, is of the epoch that it falls into.
 */
#ifndef CCA_GR_FLOW_H
#define CCA_GR_FLOW_H

#include "ensemble_flow.h"
#include "gr.h"

struct gr_flow {
	struct gr_state gr;
	struct ens_flow ens;
	struct gr_params params;	/* in force */
};

CCA_FN void gr_flow_init(struct gr_flow *f, const struct gr_params *defaults,
			 const struct cca_start *start, u8 delay_class, u32 hash,
			 struct cca_decision *d)
{
	f->params = *defaults;
	ens_flow_init(&f->ens, start, delay_class, hash);
	gr_init(&f->gr, &f->params, start, d);
}

/*
 * table: the one in force, NULL for none. defaults: the host's parameters now, for a
 * flow whose table was taken away, and for what no ensemble covers. Both are read at
 * the end of an epoch only, or where rows are recalled.
 */
CCA_FN void gr_flow_on_ack(struct gr_flow *f, const struct gr_params *defaults,
			   const struct ens_table *table, const struct cca_ack *ack,
			   struct cca_decision *d)
{
	u32 delay_us;

	gr_on_ack(&f->gr, &f->params, ack, d);
	delay_us = gr_queueing_delay_us(&f->gr, ack->rtt_us);
	if (!ens_flow_on_ack(&f->ens, ack, delay_us, f->gr.mode == GR_SLOW_START))
		return;
	f->params = *defaults;
	ens_flow_throughput_turn(&f->ens, table, ack->now_us, 0, &f->params);
}

/* Rows are recalled (ensemble_flow.h): ahead of an ACK, or of a transmission. */
CCA_FN void gr_flow_recall(struct gr_flow *f, const struct gr_params *defaults,
			   const struct ens_table *table, u64 now_us)
{
	if (!ens_flow_is_recalled(&f->ens, table))
		return;
	f->params = *defaults;
	ens_flow_throughput_turn(&f->ens, table, now_us, 0, &f->params);
}

CCA_FN void gr_flow_on_event(struct gr_flow *f, const struct cca_event *ev,
			     struct cca_decision *d)
{
	ens_flow_on_event(&f->ens, ev);
	gr_on_event(&f->gr, &f->params, ev, d);
}

#endif /* CCA_GR_FLOW_H */
