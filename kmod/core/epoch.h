/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The epoch clock of a flow. It measures the flow's throughput, and selects the row of
 * the ensemble at the end of each epoch (PQSA section III-B). The algorithm then supplies
 * the values on the axes of the table; V_j is one of them. The epsilon rule below applies
 * to tables with delay classes, and to algorithms that report queueing delays.
 *
 *   V_j = (bytes acknowledged in the last gamma P of epoch j - 1) / gamma P (eq. 1, 6)
 *   L_j = min(V_j / omega, N - 1)                                           (eq. 2)
 *
 *   Epoch 0 is the flow's first slow start. Where ACKs arrive in bunches, slow start may end
 *   before V can be measured. Epoch 0 then lasts until it can. It ends after 30 s at the latest.
 *   At the end of a later epoch j, q_j is the class's percentile of the queueing delay in
 *   that epoch, and Q is the class's target:
 *     q_j > (1 + epsilon) Q    look up the row of L_{j+1}
 *     q_j < (1 - epsilon) Q    take the row above it: the link was not filled
 *     otherwise                keep the row
 *
 * The value of q_j is never computed. The shares of samples at or below the two limits
 * answer both comparisons exactly.
 *
 * DEVIATION: the paper prints the second condition as (Q - q)/Q < epsilon, which holds
 * nearly always. Its text says > epsilon, as here.
 * DEVIATION: "the row above" is counted from the level that the flow measured, not from
 * the row in force. The k-th raise in a row takes the row k levels above the measured
 * level. If the link becomes slower, the flow thus leaves the rows of the faster link. A
 * row may itself make a flow too slow, which then measures a level below that of its link.
 * Such a flow still climbs by one row per epoch.
 * DEVIATION: epsilon 0 switches the rule off: every epoch looks up its level.
 *
 * While the application limits the flow, its throughput says nothing about the path. This
 * time is excluded: the estimate restarts after it. An estimate is complete if it covers
 * gamma P. If it is not complete at the end of the epoch, the epoch's newest complete one
 * counts. An epoch without a complete estimate keeps its row.
 */
#ifndef CCA_EPOCH_H
#define CCA_EPOCH_H

#include "ensemble.h"

#define ENS_DEFAULT_EPOCH_MS 30000u
#define ENS_DEFAULT_ESTIMATE_MS 250u
#define ENS_NO_STATE 0xffffffffu
#define ENS_PERCENT 100u

#define ENS_NO_DELAY 0xffffffffu	/* the algorithm reports no queueing delay */

/* Values on the axes of a table. is_new: they were measured in the epoch that ends. */
struct ens_values {
	u64 axis[ENS_MAX_AXES];
	bool is_new;
};

/* How the flow's state, which selects its row, changed at the end of the epoch. */
enum ens_epoch_end {
	ENS_WAITED,		/* the epoch continues */
	ENS_LOOKED_UP,		/* the state is that of the measured level */
	ENS_RAISED,		/* the state is above the measured level, by `raises` levels */
	ENS_KEPT,		/* the state is that of the previous epoch */
};

struct ens_clock {
	struct cca_rate_window acked;	/* over gamma P */
	u64 epoch_start_us;
	u64 measured_bytes_per_s;	/* V at the end of the last epoch that had one; 0: none */
	u64 whole_bytes_per_s;		/* newest complete estimate of this epoch, 0: none */
	u64 generation;			/* of the table at the last end of an epoch */
	u32 epoch;			/* 0: slow start */
	u32 state;			/* ENS_NO_STATE: none looked up yet */
	u32 epoch_us, estimate_us;	/* P, gamma P: at most 2^32 us */
	u32 target_us, target_percentile;	/* Q of the class; 0: no class */
	u32 high_us, low_us;		/* (1 + epsilon) Q, (1 - epsilon) Q */
	u32 percentile;			/* 0: the epsilon rule is off */
	u32 samples, within_high, within_low;
	u32 mss_bytes;
	u8 raises;			/* in a row, at most ENS_MAX_LEVELS */
	u8 delay_class;
};

CCA_FN void ens_clock_start_epoch(struct ens_clock *c, u64 now_us)
{
	c->epoch_start_us = now_us;
	c->whole_bytes_per_s = 0;
	c->samples = 0;
	c->within_high = 0;
	c->within_low = 0;
}

CCA_FN void ens_clock_init(struct ens_clock *c, const struct cca_start *start, u8 delay_class)
{
	cca_rate_reset(&c->acked, start->now_us, start->delivered_pkts);
	c->measured_bytes_per_s = 0;
	c->generation = 0;
	c->epoch = 0;
	c->state = ENS_NO_STATE;
	c->epoch_us = ENS_DEFAULT_EPOCH_MS * CCA_USEC_PER_MSEC;
	c->estimate_us = ENS_DEFAULT_ESTIMATE_MS * CCA_USEC_PER_MSEC;
	c->target_us = 0;
	c->target_percentile = 0;
	c->high_us = 0;
	c->low_us = 0;
	c->percentile = 0;
	c->raises = 0;
	c->mss_bytes = start->mss_bytes;
	c->delay_class = delay_class;
	ens_clock_start_epoch(c, start->now_us);
}

/* Copies the table's times and the class's limits for the epoch that begins. */
CCA_FN void ens_clock_take(struct ens_clock *c, const struct ens_table *t)
{
	const struct ens_class *k;
	u32 epsilon = t->epsilon_pct;
	c->epoch_us = t->epoch_ms * CCA_USEC_PER_MSEC;
	c->estimate_us = t->estimate_ms * CCA_USEC_PER_MSEC;
	c->generation = t->generation;
	c->target_us = 0;
	c->target_percentile = 0;
	c->percentile = 0;
	if (!t->n_classes)
		return;
	k = &t->classes[cca_min_u32(cca_min_u32(c->delay_class, t->n_classes - 1),
				    ENS_MAX_CLASSES - 1)];
	c->target_us = k->queueing_delay_us;
	c->target_percentile = k->percentile;
	/* 6e7 us x (100 + 1000) / 100 < 2^32. */
	c->high_us = (u32)cca_div((u64)c->target_us * (ENS_PERCENT + epsilon), ENS_PERCENT);
	c->low_us = epsilon < ENS_PERCENT ?
		(u32)cca_div((u64)c->target_us * (ENS_PERCENT - epsilon), ENS_PERCENT) : 0;
	c->percentile = epsilon ? k->percentile : 0;
}

CCA_FN bool ens_clock_is_whole(const struct ens_clock *c)
{
	return cca_rate_span_us(&c->acked) >= c->estimate_us;
}

/* queueing_delay_us: that of the ACK's RTT sample, or ENS_NO_DELAY. */
CCA_FN void ens_clock_on_ack(struct ens_clock *c, const struct cca_ack *ack,
			     u32 queueing_delay_us)
{
	c->mss_bytes = ack->mss_bytes;
	if (ack->app_limited) {
		if (ens_clock_is_whole(c))
			c->whole_bytes_per_s = cca_rate_of(&c->acked, c->mss_bytes);
		cca_rate_reset(&c->acked, ack->now_us, ack->delivered_pkts - ack->acked_pkts);
	}
	cca_rate_add(&c->acked, ack->now_us, ack->delivered_pkts, c->estimate_us,
		     c->estimate_us);
	if (ack->app_limited || !ack->rtt_us || queueing_delay_us == ENS_NO_DELAY ||
	    c->samples == CCA_MAX_PKTS)
		return;
	c->samples++;
	c->within_high += queueing_delay_us <= c->high_us;
	c->within_low += queueing_delay_us <= c->low_us;
}

/* The flow sends again after a gap. The next estimate begins with the first ACK after the gap. */
CCA_FN void ens_clock_on_restart(struct ens_clock *c)
{
	if (ens_clock_is_whole(c))
		c->whole_bytes_per_s = cca_rate_of(&c->acked, c->mss_bytes);
	cca_rate_close(&c->acked);
}

/*
 * Eq. 1: V, or 0 without an estimate. Epoch 0 may be shorter than gamma P. Eq. 6 then
 * uses the time since its start.
 */
CCA_FN u64 ens_clock_measure(const struct ens_clock *c)
{
	if (ens_clock_is_whole(c) || (!c->epoch && !c->whole_bytes_per_s))
		return cca_rate_of(&c->acked, c->mss_bytes);
	return c->whole_bytes_per_s;
}

/* Whether the share of samples within a limit reaches the percentile. 2^24 x 100 fits. */
CCA_FN bool ens_clock_holds(const struct ens_clock *c, u32 within)
{
	return within * ENS_PERCENT >= c->samples * c->percentile;
}

/* The epsilon rule, for a flow whose state is from the same table. */
CCA_FN enum ens_epoch_end ens_clock_judge(const struct ens_clock *c)
{
	if (!c->percentile || !c->samples || !ens_clock_holds(c, c->within_high))
		return ENS_LOOKED_UP;
	return ens_clock_holds(c, c->within_low) ? ENS_RAISED : ENS_KEPT;
}

/*
 * Epoch 0 ends after slow start once V can be measured, or after ENS_DEFAULT_EPOCH_MS. Later
 * epochs end after P.
 */
CCA_FN bool ens_clock_is_due(const struct ens_clock *c, u64 now_us, bool in_slow_start)
{
	if (!c->epoch && !in_slow_start && ens_clock_measure(c))
		return true;
	return cca_elapsed_us(now_us, c->epoch_start_us) >= c->epoch_us;
}

/*
 * Measures the throughput of the epoch that ends, and returns whether there was an estimate.
 * Without one, measured_bytes_per_s stays that of an epoch before.
 */
CCA_FN bool ens_clock_measured(struct ens_clock *c)
{
	u64 measured = ens_clock_measure(c);

	if (measured)
		c->measured_bytes_per_s = measured;
	return measured != 0;
}

/*
 * Sets the values of a flow on the axes of a table (NULL for none). value(flow, number) is the
 * algorithm's function for the axis with this number in params.def. The second value is 0 if the
 * table has one axis.
 */
#define ENS_SET_AXES(values, table, value, flow) do { \
	(values)->axis[0] = value(flow, (table) ? (table)->axis[0].number : 0); \
	(values)->axis[1] = (table) && (table)->n_axes > 1 ? \
			    value(flow, (table)->axis[1].number) : 0; \
} while (0)

/*
 * Ends the epoch and selects the state of the next one. Without a table (NULL) there is no
 * state, but the measurement continues.
 */
CCA_FN enum ens_epoch_end ens_clock_end_epoch(struct ens_clock *c, const struct ens_table *t,
				    u64 now_us, const struct ens_values *values)
{
	enum ens_epoch_end epoch_end = ENS_LOOKED_UP;
	u32 level;

	if (!t || (!values->is_new && c->state == ENS_NO_STATE)) {
		epoch_end = ENS_KEPT;
	} else {
		if (c->state != ENS_NO_STATE && c->generation == t->generation)
			epoch_end = values->is_new ? ens_clock_judge(c) : ENS_KEPT;
		level = ens_level(&t->axis[0], values->axis[0]);
		if (epoch_end == ENS_RAISED)
			c->raises = (u8)cca_min_u32(c->raises + 1u, ENS_MAX_LEVELS);
		else if (epoch_end == ENS_LOOKED_UP)
			c->raises = 0;
		if (epoch_end != ENS_KEPT)
			c->state = ens_state(t, level + c->raises, values->axis[1]);
	}
	if (t) {
		ens_clock_take(c, t);	/* the table's times also apply without a state */
	} else {
		c->state = ENS_NO_STATE;
		c->target_us = 0;
	}
	c->epoch++;
	ens_clock_start_epoch(c, now_us);
	return epoch_end;
}

#endif /* CCA_EPOCH_H */
