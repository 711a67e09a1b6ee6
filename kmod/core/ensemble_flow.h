/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The state of a flow that follows an ensemble, in addition to its algorithm's: the
 * epoch clock, and whether the flow is held back. All hosts use this code, so that all
 * select the same rows.
 *
 * A flow uses the host's own parameters until its first slow start is over. It also uses
 * them without a table, or if it is held back. The epoch clock runs for these flows, too.
 * So the results of held-back flows can be counted by network state. At the end of each
 * epoch the table decides anew whether the flow is held back. The flow's hash is fixed,
 * so the answer changes only with the table's hold_back_permille.
 *
 * A flow takes a new table at the end of its epoch. If the table is urgent, or was
 * cleared, the host recalls the rows. Each flow then ends its epoch at its next ACK or
 * transmission.
 */
#ifndef CCA_ENSEMBLE_FLOW_H
#define CCA_ENSEMBLE_FLOW_H

#include "epoch.h"

struct ens_flow {
	struct ens_clock clock;
	u32 hash;			/* any fixed number; decides who is held back */
	u8 epoch_end;			/* enum ens_epoch_end of the last ACK */
	bool held_back;			/* by the table at the last end of an epoch */
};

CCA_FN void ens_flow_init(struct ens_flow *f, const struct cca_start *start, u8 delay_class,
			  u32 hash)
{
	f->epoch_end = ENS_WAITED;
	f->hash = hash;
	f->held_back = false;
	ens_clock_init(&f->clock, start, delay_class);
}

/*
 * The least RTT of the connection, and the delay above it, for algorithms that forget their own
 * minimum RTT: CUBIC does after a timeout, and BBR when it is old. min_rtt_us: 0 is unknown.
 */
CCA_FN void ens_note_rtt(u32 *min_rtt_us, u32 rtt_us)
{
	if (rtt_us && (!*min_rtt_us || rtt_us < *min_rtt_us))
		*min_rtt_us = cca_min_u32(rtt_us, CCA_MAX_RTT_US);
}

CCA_FN u32 ens_queueing_delay_us(u32 min_rtt_us, u32 rtt_us)
{
	return min_rtt_us && rtt_us > min_rtt_us ? rtt_us - min_rtt_us : 0;
}

/* Takes effect when the next epoch begins. */
CCA_FN void ens_flow_set_class(struct ens_flow *f, u8 delay_class)
{
	f->clock.delay_class = delay_class;
}

/*
 * Call this after the algorithm's own function for an ACK. If it returns true, the epoch is
 * over, and ens_flow_end_epoch() must follow.
 */
CCA_FN bool ens_flow_on_ack(struct ens_flow *f, const struct cca_ack *ack, u32 queueing_delay_us,
			    bool in_slow_start)
{
	ens_clock_on_ack(&f->clock, ack, queueing_delay_us);
	f->epoch_end = ENS_WAITED;
	return ens_clock_is_due(&f->clock, ack->now_us, in_slow_start);
}

/*
 * Ends the epoch. table: the one in force, NULL for none. values: on its axes. params: the
 * host's current parameters; those that the ensemble covers are overwritten.
 */
CCA_FN void ens_flow_end_epoch(struct ens_flow *f, const struct ens_table *table, u64 now_us,
			  const struct ens_values *values, void *params)
{
	f->epoch_end = (u8)ens_clock_end_epoch(&f->clock, table, now_us, values);
	f->held_back = table && ens_held_back(table, f->hash);
	if (table && !f->held_back && f->clock.state != ENS_NO_STATE)
		ens_take_row(table, f->clock.state, f->clock.delay_class, params);
}

/*
 * The host recalls rows. Returns whether this flow must look up its row again in `table`
 * (NULL for none). It need not if its row is from this table, or in its first slow start,
 * which has no row. Sets the flow's epoch_end to ENS_WAITED.
 */
CCA_FN bool ens_flow_is_recalled(struct ens_flow *f, const struct ens_table *table)
{
	const struct ens_clock *c = &f->clock;

	f->epoch_end = ENS_WAITED;
	if (!c->epoch)
		return false;
	if (!table)
		return c->state != ENS_NO_STATE;
	return c->state == ENS_NO_STATE || c->generation != table->generation;
}

CCA_FN void ens_flow_on_event(struct ens_flow *f, const struct cca_event *ev)
{
	if (ev->kind == CCA_TRANSFER_STARTED || ev->kind == CCA_IDLE_RESTART)
		ens_clock_on_restart(&f->clock);
}

/*
 * The end of an epoch, for an algorithm NAME whose struct NAME_flow has the parts `ens` and
 * `params`, and whose NAME_axis_value(flow, number) is the flow's value on an axis of params.def:
 *
 *   NAME_flow_end_epoch()   looks up the parameters of the next epoch
 *   NAME_flow_recall()      the same if the host has recalled the flow's row. The host calls this
 *                           before it passes on an ACK, or before a transmission
 *
 * took_row(flow): called when `params` are those of the next epoch. ENS_NOTHING does nothing.
 * table: the one in force, NULL for none. defaults: the host's current parameters. They apply to a
 * flow without a table, and to parameters that the ensemble does not cover.
 */
#define ENS_NOTHING(flow) ((void)(flow))
#define ENS_FLOW_FUNCTIONS(name, took_row) \
CCA_FN void name##_flow_end_epoch(struct name##_flow *f, const struct name##_params *defaults, \
				  const struct ens_table *table, u64 now_us) \
{ \
	struct ens_values values; \
\
	values.is_new = ens_clock_measured(&f->ens.clock); \
	ENS_SET_AXES(&values, table, name##_axis_value, f); \
	f->params = *defaults; \
	ens_flow_end_epoch(&f->ens, table, now_us, &values, &f->params); \
	took_row(f); \
} \
\
CCA_FN void name##_flow_recall(struct name##_flow *f, const struct name##_params *defaults, \
			       const struct ens_table *table, u64 now_us) \
{ \
	if (ens_flow_is_recalled(&f->ens, table)) \
		name##_flow_end_epoch(f, defaults, table, now_us); \
}

#endif /* CCA_ENSEMBLE_FLOW_H */
