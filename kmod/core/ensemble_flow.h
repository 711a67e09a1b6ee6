/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What a flow that follows an ensemble has beside its algorithm: its epoch clock,
 * and whether it is held back. Every host drives this, so that the choice of rows
 * is the same everywhere.
 *
 * Until the first slow start is over, without a table, and for flows held back, a
 * flow is on the host's own parameters; the clock runs all the same, so that what
 * held back flows meet can be told by state. Who is held back is asked anew of the
 * table at each turn: the flow's hash stays, so it changes with the share alone.
 *
 * A flow takes a new table at the end of its epoch. A host whose table is urgent, or was
 * cleared, recalls the rows: each flow then ends its epoch at its next ACK or transmission.
 */
#ifndef CCA_ENSEMBLE_FLOW_H
#define CCA_ENSEMBLE_FLOW_H

#include "epoch.h"

struct ens_flow {
	struct ens_clock clock;
	u32 hash;			/* any, fixed: decides whether the flow is held back */
	u8 turn;			/* enum ens_turn of the last ACK */
	bool held_back;			/* by the table of the last turn */
};

CCA_FN void ens_flow_init(struct ens_flow *f, const struct cca_start *start, u8 delay_class,
			  u32 hash)
{
	f->turn = ENS_WAITED;
	f->hash = hash;
	f->held_back = false;
	ens_clock_init(&f->clock, start, delay_class);
}

/* Takes effect when the next epoch begins. */
CCA_FN void ens_flow_set_class(struct ens_flow *f, u8 delay_class)
{
	f->clock.delay_class = delay_class;
}

/* Behind the algorithm's own; true: the epoch is over, and a turn is due. */
CCA_FN bool ens_flow_on_ack(struct ens_flow *f, const struct cca_ack *ack, u32 queueing_delay_us,
			    bool in_slow_start)
{
	ens_clock_on_ack(&f->clock, ack, queueing_delay_us);
	f->turn = ENS_WAITED;
	return ens_clock_is_due(&f->clock, ack->now_us, in_slow_start);
}

/*
 * table: the one in force, NULL for none. values: on its axes. params: the host's present
 * ones; those that the ensemble covers are overwritten.
 */
CCA_FN void ens_flow_turn(struct ens_flow *f, const struct ens_table *table, u64 now_us,
			  const struct ens_values *values, void *params)
{
	f->turn = (u8)ens_clock_turn(&f->clock, table, now_us, values);
	f->held_back = table && ens_held_back(table, f->hash);
	if (table && !f->held_back && f->clock.state != ENS_NO_STATE)
		ens_take_row(table, f->clock.state, f->clock.delay_class, params);
}

/*
 * Rows are recalled: must this flow look its row up anew in `table`, NULL for none? Not
 * where it has looked one up in this very table, and not in its first slow start, which is
 * on no row. false: the flow's turn is ENS_WAITED.
 */
CCA_FN bool ens_flow_is_recalled(struct ens_flow *f, const struct ens_table *table)
{
	const struct ens_clock *c = &f->clock;

	f->turn = ENS_WAITED;
	if (!c->epoch)
		return false;
	if (!table)
		return c->state != ENS_NO_STATE;
	return c->state == ENS_NO_STATE || c->generation != table->generation;
}

/* The same for an algorithm whose first axis is the throughput measured. */
CCA_FN void ens_flow_throughput_turn(struct ens_flow *f, const struct ens_table *table, u64 now_us,
				     u64 second_value, void *params)
{
	struct ens_values values = ens_clock_values(&f->clock, second_value);

	ens_flow_turn(f, table, now_us, &values, params);
}

CCA_FN void ens_flow_on_event(struct ens_flow *f, const struct cca_event *ev)
{
	if (ev->kind == CCA_TRANSFER_STARTED || ev->kind == CCA_IDLE_RESTART)
		ens_clock_on_restart(&f->clock);
}

#endif /* CCA_ENSEMBLE_FLOW_H */
