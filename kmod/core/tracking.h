/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Tracking: a flow moves a delay parameter of its row towards its class's target.
 *
 * A row is right for the links that it was learnt on, not for the link of every flow. The
 * flow itself sees which share of its packets comes late, that is, with a queueing delay
 * above 31/32 of the target Q of its class. (The rest is for packets that no step can make
 * up for, such as those before the first step.) The class allows the share a (5 % for the
 * 95th percentile).
 *
 * Not every delay is due to a queue. A radio may hold data, and an uplink may hold ACKs.
 * No smaller T shortens these delays. If they counted, T would fall to its bound on such a
 * path, and leave up to half of the link unused. The time is therefore divided into parts of
 * TRACKING_PART_US. A queue hardly changes in so short a time, so the least delay of a part
 * is about that of the queue. It counts as the delay of all packets of the part.
 *
 * In each step, with n packets of which l came late,
 *
 *   m   is the number of packets that the flow has in a time of that length on average
 *   x = gain (a n - l) / m
 *   x >= 0    scale = scale (1 + x)
 *   x < 0     scale = scale / (1 - x)
 *
 * and the parameter is that of the row times `scale`, which stays within two bounds. The
 * rule is the online form of a quantile regression (Gibbs and Candes 2021, section 2,
 * "adaptive conformal inference"). The steps add up: log(scale) is about gain / m times
 * (a N - L), for N packets of which L came late since tracking began. As the scale is
 * bounded, L / N approaches a, whatever the link does, unless the scale stays at a bound.
 * Steps count by their packets, because a percentile does.
 *
 * A step ends after its interval, and not before it has TRACKING_LEAST_PKTS packets. The
 * first interval is TRACKING_FIRST_US, so that a short flow profits. Each is twice the one
 * before it, up to TRACKING_LAST_US. In one step the scale at most doubles or halves.
 *
 * Packets that were sent while the application limited the flow do not count, nor does the
 * time before their ACKs. In GR packets that an outage delayed do not count either, because
 * their delay is not the queue's. The scale remains when the row changes, and is 1 again
 * with a new table or class. Without a table, or with a gain of 0, there is no tracking.
 */
#ifndef CCA_TRACKING_H
#define CCA_TRACKING_H

#include "epoch.h"

#define TRACKING_ONE 65536u		/* a scale of 1 */
#define TRACKING_FIRST_US 1000000u
#define TRACKING_LAST_US 8000000u
#define TRACKING_LEAST_PKTS 20u
#define TRACKING_PART_US 16000u
#define TRACKING_MEMORY_US 600000000u	/* m forgets half of the past after this time */
#define TRACKING_PERMILLE 1000u

struct tracking_params {
	u32 gain_permille;		/* 0: off; at most 10000 */
	u32 least_pct, most_pct;	/* bounds of the scale */
};

struct tracking {
	u64 step_start_us;
	u64 past_us, past_pkts;		/* of the steps that m is the mean of */
	u64 generation;			/* of the table that `scale` is for */
	u32 interval_us;		/* of this step */
	u32 pkts, late_pkts;		/* in this step */
	u64 part_start_us;
	u32 part_pkts;			/* not yet among `pkts` */
	u32 part_delay_us;		/* the least of this part */
	u32 scale;
	u32 row_value;			/* of the tracked parameter */
	u8 delay_class;			/* that `scale` is for */
};

CCA_FN void tracking_start_step(struct tracking *t, u64 now_us)
{
	t->step_start_us = now_us;
	t->pkts = 0;
	t->late_pkts = 0;
}

CCA_FN void tracking_restart(struct tracking *t, const struct ens_clock *c)
{
	t->generation = c->generation;
	t->delay_class = c->delay_class;
	t->scale = TRACKING_ONE;
	t->interval_us = TRACKING_FIRST_US;
	t->past_us = 0;
	t->past_pkts = 0;
	t->part_start_us = c->epoch_start_us;
	t->part_pkts = 0;
	tracking_start_step(t, c->epoch_start_us);
}

/* The value of the tracked parameter to use, between the bounds of its range. */
CCA_FN u32 tracking_value(const struct tracking *t, u32 min, u32 max)
{
	u64 value = ((u64)t->row_value * t->scale) / TRACKING_ONE;

	return (u32)cca_min_u64(cca_max_u64(value, min), max);
}

/* The flow's row is new. row_value: its value of the tracked parameter. */
CCA_FN void tracking_take_row(struct tracking *t, const struct tracking_params *p,
			     const struct ens_clock *c, u32 row_value)
{
	t->row_value = row_value;
	if (!p->gain_permille || !c->target_us || t->generation != c->generation ||
	    t->delay_class != c->delay_class)
		tracking_restart(t, c);
}

/* Moves the scale. Overflow: 2^31 x 10^4 x 2^16 < 2^61; 2^30 packets x 2^31 us. */
CCA_FN void tracking_step(struct tracking *t, const struct tracking_params *p,
			  u32 percentile, u32 elapsed_us)
{
	u32 allowed = (ENS_PERCENT - percentile) * t->pkts, late = ENS_PERCENT * t->late_pkts;
	u32 difference = late > allowed ? late - allowed : allowed - late;
	u64 usual_pkts, change;
	u32 scale;

	t->past_us += elapsed_us;
	t->past_pkts += t->pkts;
	if (t->past_us > TRACKING_MEMORY_US) {
		t->past_us /= 2;
		t->past_pkts /= 2;
	}
	usual_pkts = cca_max_u64(cca_div(t->past_pkts * elapsed_us, t->past_us), 1);
	change = cca_div((u64)difference * p->gain_permille * TRACKING_ONE,
			 usual_pkts * ENS_PERCENT * TRACKING_PERMILLE);
	change = cca_min_u64(change, TRACKING_ONE);
	if (late > allowed)
		scale = (u32)cca_div((u64)t->scale * TRACKING_ONE, TRACKING_ONE + change);
	else
		scale = t->scale + (u32)((t->scale * change + TRACKING_ONE - 1) / TRACKING_ONE);
	t->scale = cca_clamp_u32(scale, p->least_pct * TRACKING_ONE / ENS_PERCENT,
				 p->most_pct * TRACKING_ONE / ENS_PERCENT);
	t->interval_us = cca_min_u32(2 * t->interval_us, TRACKING_LAST_US);
}

/* Counts the packets of the part in the step. */
CCA_FN void tracking_end_part(struct tracking *t, u32 target_us)
{
	u32 pkts = cca_min_u32(t->part_pkts, CCA_MAX_PKTS - t->pkts);

	t->pkts += pkts;
	if (t->part_delay_us > target_us - target_us / 32)
		t->late_pkts += pkts;
	t->part_pkts = 0;
}

/* Counts the packets of an ACK in its part. Returns whether it is the first ACK of a new part. */
CCA_FN bool tracking_count(struct tracking *t, const struct cca_ack *ack, u32 delay_us,
			   u32 target_us)
{
	bool is_new = cca_elapsed_us(ack->now_us, t->part_start_us) >= TRACKING_PART_US;

	if (is_new) {
		tracking_end_part(t, target_us);
		t->part_start_us = ack->now_us;
	}
	if (!t->part_pkts || delay_us < t->part_delay_us)
		t->part_delay_us = delay_us;
	t->part_pkts += cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS - t->part_pkts);
	return is_new;
}

/*
 * Counts the packets of an ACK that the clock has not received yet. queueing_delay_us: of its
 * RTT sample. Returns whether a step ended, after which tracking_value() may be new.
 */
CCA_FN bool tracking_on_ack(struct tracking *t, const struct tracking_params *p,
			    const struct ens_clock *c, const struct cca_ack *ack,
			    u32 queueing_delay_us)
{
	u64 elapsed_us;

	if (!p->gain_permille || !c->target_us)
		return false;
	/* The newest ACK may have come before the step began: the host recalls rows at any time. */
	if (ack->app_limited)
		t->step_start_us = cca_min_u64(ack->now_us, t->step_start_us +
					       cca_elapsed_us(ack->now_us, c->acked.newest_us));
	if (ack->app_limited || !ack->rtt_us)
		return false;
	if (!tracking_count(t, ack, queueing_delay_us, c->target_us))
		return false;
	elapsed_us = cca_elapsed_us(ack->now_us, t->step_start_us);
	if (elapsed_us < t->interval_us || t->pkts < TRACKING_LEAST_PKTS)
		return false;
	tracking_step(t, p, c->target_percentile, (u32)cca_min_u64(elapsed_us, 1u << 31));
	tracking_start_step(t, ack->now_us);
	return true;
}

/*
 * For an algorithm NAME whose struct NAME_flow has the parts `ens`, `params` and `tracking`, and
 * whose parameter of this name is tracked:
 *
 *   NAME_flow_track()       call this with each ACK, before the end of an epoch
 *   NAME_flow_took_row()    for ENS_FLOW_FUNCTIONS
 */
#define TRACKING_FUNCTIONS(name, parameter) \
CCA_FN struct tracking_params name##_tracking(const struct name##_flow *f) \
{ \
	struct tracking_params p = { \
		f->params.tracking_gain_permille, \
		f->params.tracking_least_pct, \
		f->params.tracking_most_pct, \
	}; \
\
	return p; \
} \
\
CCA_FN void name##_flow_use_tracked(struct name##_flow *f) \
{ \
	f->params.parameter = tracking_value(&f->tracking, CCA_MIN_##name##_##parameter, \
					     CCA_MAX_##name##_##parameter); \
} \
\
CCA_FN void name##_flow_track(struct name##_flow *f, const struct cca_ack *ack, u32 delay_us) \
{ \
	struct tracking_params p = name##_tracking(f); \
\
	if (tracking_on_ack(&f->tracking, &p, &f->ens.clock, ack, delay_us)) \
		name##_flow_use_tracked(f); \
} \
\
CCA_FN void name##_flow_took_row(struct name##_flow *f) \
{ \
	struct tracking_params p = name##_tracking(f); \
\
	tracking_take_row(&f->tracking, &p, &f->ens.clock, f->params.parameter); \
	name##_flow_use_tracked(f); \
}

#endif /* CCA_TRACKING_H */
