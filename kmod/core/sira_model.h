/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * SIRA's model of the path (sira.h): d and D, the link's rate, outages, and what was sent, beside
 * the sliding window (sira_window.h).
 */
#ifndef CCA_SIRA_MODEL_H
#define CCA_SIRA_MODEL_H

#include "sira_window.h"

#define SIRA_MIN_CWND_PKTS 4u
#define SIRA_TIMEOUT_CWND_PKTS 2u
#define SIRA_DELAYED_ACK_PKTS 2u
#define SIRA_MAX_RESIDUALS 8u		/* the largest L_U */
#define SIRA_PROBE_SHARE 8u
#define SIRA_DRAIN_ROUNDS 2u
#define SIRA_MAX_ELAPSED_US (1u << 30)	/* of intervals that end at one ACK */
#define SIRA_OUTAGE_US 1000000u

enum sira_mode {
	SIRA_STARTUP,
	SIRA_COMPENSATE,
	SIRA_REDUCE,
	SIRA_DRAIN,
};

/* One u32 for each parameter of SIRA in params.def. */
struct sira_params {
#define CCA_ONLY CCA_ID_sira
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) u32 name;
#include "params.def"
};

/* What eq. 2 and 3 send less what was sent, in 1/M^2 packet. One of the two is 0. */
struct sira_balance {
	u64 behind, ahead;
};

struct sira_state {
	struct sira_balance sending;	/* in COMPENSATE */
	struct sira_balance unsent;	/* the u_i of the last REDUCE */
	u64 interval_start_us;
	u64 rate_bytes_per_s;
	u64 acked_sent_us;		/* when the newest packet that arrived was sent */
	u64 first_sn_us;		/* end of the first interval that sn_i are left of */
	u64 min_rtt_at_us;		/* when d was last within T/2 of D */
	u64 trip_start_us;
	u64 drain_end_us;
	u64 marked_until_us;		/* ECN: a mark before this belongs to the last one */
	u64 next_probe_us;
	u64 newest_us;			/* of the newest ACK, or of the end of a silence */
	u64 outage_end_us;		/* first ACK after an outage */
	u64 startup_end_us;		/* first ACK after a startup that was filled; else 0 */
	u32 interval_us;		/* Delta */
	u32 open_pkts;			/* ACKs in the interval that has not ended */
	u32 sent_pkts, lost_pkts;	/* of the connection; may wrap */
	u32 allowance;			/* lost packets that may count as ACKs, in 1/1000 */
	u32 srtt_us_q3;			/* d; 0: no sample yet */
	u32 trip_rtt_us, last_trip_rtt_us;	/* the greatest of this round trip and the last */
	u32 min_rtt_us;			/* D; 0: no sample yet */
	u32 least_rtt_us;		/* of all samples; 0: none yet */
	u32 drain_min_rtt_us, drain_least_rtt_us;	/* D and least_rtt_us of this time */
	u32 sn_count;			/* sn_i that are not acknowledged */
	u32 unsent_count;		/* intervals in `unsent` */
	u32 once_pkts;			/* given back in this interval only */
	u32 residual_pkts[SIRA_MAX_RESIDUALS];	/* U_n */
	u32 residuals, next_residual;	/* so many before this place, which is free-running */
	u32 link_pkts_q8;		/* ACKs of a window while there was a queue; 0: unknown */
	u32 link_intervals;		/* that this is the mean over, at most M */
	u32 round_intervals, round_empty, round_short;
	u32 mss_bytes;
	u32 cwnd_pkts;
	u8 mode;			/* enum sira_mode */
	u8 restart : 1;			/* the next ACK begins an interval */
	u8 at_floor : 1;
	u8 outage : 1;			/* no RTT of a packet sent after the outage yet */
	u8 lossy : 1;			/* in this round trip more was lost than is allowed */
	struct sira_window window;	/* last, because it needs no memset */
};

/* --- rates and counts ------------------------------------------------------------- */

CCA_FN u32 sira_rtt_us(const struct sira_state *s)
{
	return s->srtt_us_q3 >> 3;
}

/* d - D. */
CCA_FN u32 sira_delay_us(const struct sira_state *s)
{
	u32 rtt_us = sira_rtt_us(s);

	return rtt_us > s->min_rtt_us && s->min_rtt_us ? rtt_us - s->min_rtt_us : 0;
}

/*
 * The queueing delay in an RTT sample; 0 if it has none. It is what exceeds the least sample, which
 * is below D if the path delays packets by different times.
 */
CCA_FN u32 sira_queueing_delay_us(const struct sira_state *s, u32 rtt_us)
{
	return rtt_us > s->least_rtt_us && s->least_rtt_us ? rtt_us - s->least_rtt_us : 0;
}

/* M Delta: at most 511 x 2^15 us. At least 1. */
CCA_FN u32 sira_window_us(const struct sira_state *s)
{
	return cca_max_u32(s->window.intervals * s->interval_us, 1);
}

CCA_FN u64 sira_floor_bytes_per_s(const struct sira_state *s)
{
	u32 span_us = s->min_rtt_us ? s->min_rtt_us : sira_window_us(s);

	/* At least 1 byte/s, because a rate of 0 means "not paced". */
	return cca_max_u64(cca_rate_bytes_per_s(1, s->mss_bytes, span_us), 1);
}

/* Eq. 8: the packets in the queue. Overflow: a total below 2^35 x 2^26 us. */
CCA_FN u32 sira_queue_pkts(const struct sira_state *s)
{
	u64 pkts = cca_div(sira_window_total(&s->window) *
			   sira_delay_us(s),
			   (u64)sira_window_us(s) * s->window.intervals);

	return pkts > 1 ? (u32)cca_min_u64(pkts - 1, CCA_MAX_PKTS) : 0;
}

/* The rate of packets over a time. parts: in 1/M packet. Overflow: 2^36 x 2^16 bytes, as M > 1. */
CCA_FN u64 sira_rate(const struct sira_state *s, u64 parts, u32 span_us)
{
	u64 bytes = cca_div(cca_min_u64(parts, 1ull << 36) * s->mss_bytes, s->window.intervals);

	/* 2^40 bytes x 10^6 us/s. */
	return cca_min_u64(cca_div(cca_min_u64(bytes, 1ull << 40) * CCA_USEC_PER_SEC, span_us),
			   CCA_MAX_RATE_BYTES_PER_S);
}

/* R_i of eq. 2 and 3. */
CCA_FN u64 sira_bandwidth(const struct sira_state *s)
{
	return sira_rate(s, sira_window_total(&s->window) +
			 (u64)s->once_pkts * s->window.intervals, sira_window_us(s));
}

/* R_i, and what was sent too little or too much over the time of the window or of a round trip. */
CCA_FN u64 sira_corrected_bandwidth(const struct sira_state *s)
{
	u32 span_us = cca_max_u32(sira_window_us(s), sira_rtt_us(s)), m = s->window.intervals;
	u64 less = sira_rate(s, cca_div(s->sending.ahead, m), span_us);
	u64 rate = sira_bandwidth(s);

	rate = rate - cca_min_u64(rate, less) +
	       sira_rate(s, cca_div(s->sending.behind, m), span_us);
	return cca_min_u64(rate, CCA_MAX_RATE_BYTES_PER_S);
}

/* 1/M^2 packet as whole packets, rounded down. M is at least 1. */
CCA_FN u64 sira_whole_pkts(const struct sira_state *s, u64 parts)
{
	return cca_div(parts, (u64)s->window.intervals * s->window.intervals);
}

CCA_FN u64 sira_parts(const struct sira_state *s, u64 pkts)
{
	return pkts * s->window.intervals * s->window.intervals;
}

/* The packets of the window, rounded down: at most 2^26. */
CCA_FN u32 sira_window_pkts(const struct sira_state *s)
{
	return (u32)cca_div(sira_window_total(&s->window), s->window.intervals);
}

CCA_FN void sira_weigh(struct sira_balance *b, u64 due, u64 sent)
{
	/* An ACK adds less than 2^44 to a side, so no connection has as many as overflow it. */
	b->behind += due;
	b->ahead += sent;
	due = cca_min_u64(b->behind, b->ahead);
	b->behind -= due;
	b->ahead -= due;
}

CCA_FN void sira_balance_reset(struct sira_balance *b)
{
	b->behind = 0;
	b->ahead = 0;
}

CCA_FN void sira_forget_sn(struct sira_state *s)
{
	s->sn_count = 0;
	s->unsent_count = 0;
	sira_balance_reset(&s->unsent);
}

/* The window has this rate in all of its intervals. Overflow: 2^37 bytes/s x 2^24 us. */
CCA_FN void sira_refill(struct sira_state *s, u32 intervals, u32 interval_us, u64 rate)
{
	u64 span_us = (u64)intervals * interval_us;
	u64 bytes = cca_div(cca_min_u64(rate, CCA_MAX_RATE_BYTES_PER_S) * span_us,
			    CCA_USEC_PER_SEC);

	s->interval_us = interval_us;
	sira_window_fill(&s->window, intervals,
			 cca_div(bytes + s->mss_bytes / 2, s->mss_bytes));
	sira_balance_reset(&s->sending);
	sira_forget_sn(s);
}

/* --- d and D, outages ------------------------------------------------------------- */

/* Notes an outage, which is a time without ACKs. */
CCA_FN void sira_note_outage(struct sira_state *s, const struct sira_params *p,
			     const struct cca_ack *ack)
{
	u64 usual_us = cca_max_u64((u64)s->min_rtt_us + p->delay_threshold_us, sira_rtt_us(s));
	u64 outage_us = cca_max_u64(2 * usual_us, SIRA_OUTAGE_US);

	if (cca_elapsed_us(ack->now_us, s->newest_us) > outage_us &&
	    (!ack->rtt_us || ack->rtt_us > outage_us)) {
		s->outage = 1;
		s->outage_end_us = ack->now_us;
	}
	s->newest_us = ack->now_us;
}

/* The greatest RTT of this round trip and the one before it. */
CCA_FN u32 sira_recent_rtt_us(struct sira_state *s, u32 rtt_us, u64 now_us)
{
	if (s->acked_sent_us >= s->trip_start_us) {
		s->trip_start_us = now_us;
		s->last_trip_rtt_us = s->trip_rtt_us;
		s->trip_rtt_us = 0;
	}
	s->trip_rtt_us = cca_max_u32(s->trip_rtt_us, rtt_us);
	return cca_max_u32(s->trip_rtt_us, s->last_trip_rtt_us);
}

CCA_FN void sira_sample_rtt(struct sira_state *s, const struct sira_params *p,
			    const struct cca_ack *ack)
{
	u32 rtt_us = cca_min_u32(ack->rtt_us, CCA_MAX_RTT_US);

	if (!rtt_us)
		return;
	s->acked_sent_us = cca_elapsed_us(ack->now_us, rtt_us);
	if (s->outage && s->acked_sent_us < s->outage_end_us)
		return;
	s->outage = 0;
	if (s->srtt_us_q3)
		s->srtt_us_q3 += rtt_us - (s->srtt_us_q3 >> 3);
	else
		s->srtt_us_q3 = rtt_us << 3;
	s->srtt_us_q3 = cca_min_u32(s->srtt_us_q3, sira_recent_rtt_us(s, rtt_us, ack->now_us) << 3);
	if (!s->least_rtt_us || rtt_us < s->least_rtt_us)
		s->least_rtt_us = rtt_us;
	if (!s->drain_least_rtt_us || rtt_us < s->drain_least_rtt_us)
		s->drain_least_rtt_us = rtt_us;
	rtt_us = cca_max_u32(sira_rtt_us(s), 1);
	if (!s->min_rtt_us || rtt_us < s->min_rtt_us)
		s->min_rtt_us = rtt_us;
	if (rtt_us - s->min_rtt_us <= p->delay_threshold_us / 2)
		s->min_rtt_at_us = ack->now_us;
	if (!s->drain_min_rtt_us || rtt_us < s->drain_min_rtt_us)
		s->drain_min_rtt_us = rtt_us;
}

CCA_FN bool sira_min_rtt_is_old(const struct sira_state *s, const struct sira_params *p,
				u64 now_us)
{
	return p->compensation && s->min_rtt_us &&
	       cca_elapsed_us(now_us, s->min_rtt_at_us) >
	       (u64)p->min_rtt_window_ms * CCA_USEC_PER_MSEC;
}

/* --- what was acknowledged, lost and sent ------------------------------------------ */

/*
 * Measures the link's rate: while there is a queue, ACKs come at this rate. A mean over as many
 * intervals as the window has. Overflow: 2^24 packets x 2^9 x 2^8; the quotient is at most 2^32.
 */
CCA_FN void sira_measure_link(struct sira_state *s, const struct sira_params *p, u32 pkts,
			      u32 count)
{
	u32 m = s->window.intervals, n = cca_min_u32(count, m);
	u64 now_q8 = cca_div(((u64)pkts * m) << 8, cca_max_u32(count, 1)), old_q8 = s->link_pkts_q8;

	if (!s->min_rtt_us || sira_delay_us(s) <= p->delay_threshold_us / 2)
		return;
	s->link_intervals = cca_min_u32(s->link_intervals + n, m);
	old_q8 = old_q8 * (s->link_intervals - n) + now_q8 * n;
	s->link_pkts_q8 = (u32)cca_min_u64(cca_div(old_q8, s->link_intervals), 1u << 31);
}

/* Lost packets that count as ACKs. Overflow: 2^24 x 1000. */
CCA_FN u32 sira_count_lost(struct sira_state *s, const struct sira_params *p,
			   const struct cca_ack *ack)
{
	u64 most = 1000ull * cca_min_u32(ack->lost_pkts, CCA_MAX_PKTS);
	u64 allowance = s->allowance + (u64)cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS) *
			p->loss_allowance_permille;
	u32 pkts = (u32)cca_div(cca_min_u64(allowance, most), 1000);

	s->allowance = (u32)cca_min_u64(allowance - 1000ull * pkts, SIRA_SLOTS * 1000u);
	s->lost_pkts += ack->lost_pkts;
	if (pkts < ack->lost_pkts)
		s->lossy = 1;
	return pkts;
}

/* The packets sent since the last call; 0 if the host has taken some for lost meanwhile. */
CCA_FN u32 sira_take_sent(struct sira_state *s, const struct cca_ack *ack)
{
	u32 sent_pkts = ack->delivered_pkts + s->lost_pkts + ack->inflight_pkts;
	u32 new_pkts = cca_reached(sent_pkts, s->sent_pkts) ? sent_pkts - s->sent_pkts : 0;

	s->sent_pkts = sent_pkts;
	return cca_min_u32(new_pkts, CCA_MAX_PKTS);
}

/* Eq. 1 to 3 and 7, over the intervals that have ended. */
CCA_FN void sira_move_window(struct sira_state *s, const struct sira_params *p,
			     const struct cca_ack *ack, u32 count)
{
	u64 sent = sira_parts(s, sira_take_sent(s, ack));
	u32 pkts = s->open_pkts;
	u64 due = sira_window_end(&s->window, pkts, count);

	s->open_pkts = 0;
	sira_measure_link(s, p, pkts, count);
	if (s->mode == SIRA_REDUCE) {
		if (!s->sn_count)
			s->first_sn_us = s->interval_start_us + s->interval_us;
		s->sn_count += count;
		s->unsent_count += count;
		sira_weigh(&s->unsent, due, sent);
	} else {
		sira_weigh(&s->sending, due, sent);
		if (s->at_floor)
			s->sending.ahead = 0;	/* what the floor sends more shall raise the rate */
	}
}

/* STARTUP ends. Overflow: 2^24 packets x 2^16 bytes x 10^6 us/s; 2^30 bytes/s x 2^26 us. */
CCA_FN void sira_end_startup(struct sira_state *s, const struct sira_params *p,
			     const struct cca_ack *ack)
{
	u64 elapsed_us = cca_elapsed_us(ack->now_us, s->newest_us);
	u64 sent = (u64)sira_take_sent(s, ack) * s->mss_bytes * CCA_USEC_PER_SEC;

	if (2 * sent >= p->initial_bytes_per_s * cca_min_u64(elapsed_us, CCA_MAX_RTT_US))
		s->startup_end_us = ack->now_us;
	s->mode = SIRA_COMPENSATE;
	s->interval_start_us = ack->now_us;
}

/*
 * Whether the application limited the flow. A host may say so of the whole first flight, because
 * the connection had no data before it. For that flight it counts how much was sent.
 */
CCA_FN bool sira_is_app_limited(const struct sira_state *s, const struct cca_ack *ack)
{
	return ack->app_limited &&
	       cca_elapsed_us(ack->now_us, ack->rtt_us) >= s->startup_end_us;
}

/* The time of intervals in which no ACK tells anything. */
CCA_FN void sira_skip(struct sira_state *s, const struct cca_ack *ack)
{
	sira_take_sent(s, ack);
	s->open_pkts = 0;
	s->interval_start_us = ack->now_us;
}

#endif /* CCA_SIRA_MODEL_H */
