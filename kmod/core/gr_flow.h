/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A flow under GR that follows an ensemble: the algorithm, its epoch clock, and
 * the parameter set that the flow is on. Every host drives this, so that the
 * choice of rows is the same everywhere.
 *
 * During slow start, without a table, and for flows held back, the set is the
 * host's own (`parameters`); the clock runs all the same, so that what held
 * back flows meet can be told by state. Who is held back is asked anew of the
 * table at each turn: the flow's hash stays, so it changes with the share alone.
 */
#ifndef CCA_GR_FLOW_H
#define CCA_GR_FLOW_H

#include "epoch.h"
#include "gr.h"

struct gr_flow {
	struct gr_state gr;
	struct ens_clock clock;
	struct gr_params params;	/* in force */
	u32 hash;			/* any, fixed: decides whether the flow is held back */
	u8 turn;			/* enum ens_turn of the last ACK */
	bool held_back;			/* by the table of the last turn */
};

CCA_FN void gr_flow_init(struct gr_flow *f, const struct gr_params *defaults,
			 const struct cca_start *start, u8 delay_class, u32 hash,
			 struct cca_decision *d)
{
	f->params = *defaults;
	f->turn = ENS_WAITED;
	f->hash = hash;
	f->held_back = false;
	ens_clock_init(&f->clock, start, delay_class);
	gr_init(&f->gr, &f->params, start, d);
}

/* Takes effect when the next epoch begins. */
CCA_FN void gr_flow_set_class(struct gr_flow *f, u8 delay_class)
{
	f->clock.delay_class = delay_class;
}

/*
 * defaults: the host's parameters now, for a flow whose table was taken away.
 * They also give a flow what no ensemble covers, from its next epoch on.
 */
CCA_FN void gr_flow_turn(struct gr_flow *f, const struct gr_params *defaults,
			 const struct ens_table *t, u64 now_us)
{
	f->turn = (u8)ens_clock_turn(&f->clock, t, now_us, 0);
	f->held_back = t && ens_held_back(t, f->hash);
	f->params = *defaults;
	if (t && !f->held_back && f->clock.state != ENS_NO_STATE)
		ens_take_row(t, f->clock.state, f->clock.delay_class, &f->params);
}

/* table: the one in force, NULL for none; it is read at the end of an epoch only. */
CCA_FN void gr_flow_on_ack(struct gr_flow *f, const struct gr_params *defaults,
			   const struct ens_table *table, const struct cca_ack *ack,
			   struct cca_decision *d)
{
	gr_on_ack(&f->gr, &f->params, ack, d);
	ens_clock_on_ack(&f->clock, ack, gr_queueing_delay_us(&f->gr, ack->rtt_us));
	f->turn = ENS_WAITED;
	if (ens_clock_is_due(&f->clock, ack->now_us, f->gr.mode == GR_SLOW_START))
		gr_flow_turn(f, defaults, table, ack->now_us);
}

CCA_FN void gr_flow_on_event(struct gr_flow *f, const struct cca_event *ev,
			     struct cca_decision *d)
{
	if (ev->kind == CCA_TRANSFER_STARTED || ev->kind == CCA_IDLE_RESTART)
		ens_clock_on_restart(&f->clock);
	gr_on_event(&f->gr, &f->params, ev, d);
}

#endif /* CCA_GR_FLOW_H */
