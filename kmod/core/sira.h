/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * SIRA and SIRA-H: Liu, Wang, Lee, Chen, Zhang, "Adaptive Rate Control over Mobile Data Networks
 * with Heuristic Rate Compensations". SIRA sends at the rate at which ACKs came over a sliding
 * window. SIRA-H also sends less while the delay is above a threshold, and gives the data that it
 * did not send back when the queue is short.
 *
 *   R_i     rate of SIRA in interval i of length Delta (sira_window.h)          (eq. 1, 2, 3)
 *   d       smoothed RTT, d_k = 0.875 d_{k-1} + 0.125 (r_k - s_k)               (eq. 4)
 *   D       minimum of d                                                        (eq. 5)
 *   T       target queueing delay;  S: the size of a packet
 *
 * States, by d at the end of each interval:
 *
 *   STARTUP      sends at X until the first ACK
 *   REDUCE       "delay adaptation", d > T + D: the rate is R_i (T + D) / d     (eq. 6)
 *                u_i = R_i Delta - sigma_i was not sent in interval i           (eq. 7)
 *   COMPENSATE   "rate compensation", d <= T + D: the rate is R_i
 *     H1         sn_i, the last packet of an interval i of REDUCE, is acknowledged, and found a
 *                queue of l < L_q packets: the first L_u of the u_j count as acknowledged (eq. 9)
 *     H2         after the last sn_i, the queue was empty in more than 2/3 of the intervals of a
 *                round trip: what H1 left of the u_j is spread over the window  (eq. 10, 11)
 *   DRAIN        D is old: half of R_i for two round trips
 *
 * With compensation 0, SIRA has STARTUP and COMPENSATE, and neither H1 nor H2.
 *
 * The paper's proxy sets the rate by a timer, and controls the sending itself. The core receives
 * ACKs only, and hosts may send more or less than the rate. Therefore sums are kept:
 *
 *   sigma   packets sent. Each packet sent is then delivered, lost or in flight.
 *   COMPENSATE   R_i Delta - sigma_i, of whatever cause, counts as ACKs (or as missing ACKs) of
 *                the next interval. Otherwise a rate that lasts for the 20 to 40 ms between two
 *                bunches of ACKs would be 4 % wrong each time, and the flow would die or overrun.
 *   cwnd    is the packets in flight, and those that SIRA would send if no ACK came any more.
 *
 * The paper leaves these points open. Our choices:
 *   sigma   DEVIATION: sn_i are times, not sequence numbers. sn_i is acknowledged with the first
 *           packet that was sent after interval i ended. That is the same without reordering, and
 *           the set of the sn_i is then two numbers.
 *   u       DEVIATION: the set of the u_i is their sum and their number. H1 gives back the mean of
 *           L_u of them instead of the first L_u. The sums are equal when all is given back, and
 *           a flow needs 1 KiB less.
 *           Negative u_i cancel later positive ones. Packets leave in pairs, so every other u_i
 *           would be too large if negative ones did not count.
 *   t_k     DEVIATION: the transmission time of a packet is the mean time between packets of the
 *           window, S / R, in eq. 8. A single gap between ACKs shows how the path bunches them.
 *           Then l = (d - D) / t - 1, rounded down, and at least 0. l is also defined without sn_i,
 *           as H2 needs it. d is the smoothed one, as eq. 4 defines d_k.
 *   H1      If several sn_i are acknowledged at once, each counts. sn_i that are acknowledged in
 *           REDUCE are dropped. A new state REDUCE drops all.
 *           DEVIATION: eq. 9 raises the rate of one interval, and thus sends u / M. The text adds u
 *           to the window as normal ACKs, and thus sends u. The text counts here (credit_stays).
 *   H2      Adding U / M to each c_j until U more was sent is the same as adding U to one interval:
 *           both raise the rate by U / (M Delta) for M intervals.
 *           The rest of the u_i becomes a U_n when the last sn_i is acknowledged, not only when
 *           REDUCE begins again. Otherwise H2 could not use it.
 *           The queue is empty where l is 0. `j >= min(0, i - M)` in eq. 10 is read as max.
 *   D       DEVIATION: if no d within T/2 of D was seen for min_rtt_window_ms, SIRA-H takes D anew, in
 *           DRAIN. Otherwise a path that becomes longer keeps SIRA-H in REDUCE for ever.
 *   floor   DEVIATION: the rate is at least one packet per D, because R_i = 0 would last for ever.
 *   probing DEVIATION: SIRA never exceeds the rate of its ACKs. A loss, or X below the link's rate,
 *           would cost throughput for ever. If d was at most D + T/2 in more than 2/3 of the
 *           intervals of a round trip, and H2 has nothing to give back, the rate rises by 1/8, or by
 *           one packet per window.
 *   loss    DEVIATION: lost packets count as ACKed, up to loss_allowance_permille of the delivered
 *           ones, because loss of a radio link is no sign of congestion. Beyond that they do not
 *           count, and the rate falls by as many packets.
 *   timeout The sender may have two packets in flight until the next ACK. What was in flight is lost
 *           to the rate, so it falls by as much. An undo needs nothing, because the window remains.
 *   app     While the application limits the flow, and in a silence and the round trip after it, the
 *           window does not move: ACKs say nothing about the path.
 *   ECN     A mark halves the window, at most once in a round trip.
 */
#ifndef CCA_SIRA_H
#define CCA_SIRA_H

#include "params.h"
#include "sira_window.h"

#define SIRA_MIN_CWND_PKTS 4u
#define SIRA_TIMEOUT_CWND_PKTS 2u
#define SIRA_DELAYED_ACK_PKTS 2u
#define SIRA_MAX_RESIDUALS 8u		/* the largest L_U */
#define SIRA_PROBE_SHARE 8u
#define SIRA_DRAIN_ROUNDS 2u
#define SIRA_MAX_ELAPSED_US (1u << 30)	/* of intervals that end at one ACK */

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
	u64 drain_end_us;
	u64 marked_until_us;		/* ECN: a mark before this belongs to the last one */
	u64 next_probe_us;
	u32 interval_us;		/* Delta */
	u32 open_pkts;			/* ACKs in the interval that has not ended */
	u32 sent_pkts, lost_pkts;	/* of the connection; may wrap */
	u32 allowance;			/* lost packets that may count as ACKs, in 1/1000 */
	u32 srtt_us_q3;			/* d; 0: no sample yet */
	u32 min_rtt_us;			/* D; 0: no sample yet */
	u32 drain_min_rtt_us;
	u32 sn_count;			/* sn_i that are not acknowledged */
	u32 unsent_count;		/* intervals in `unsent` */
	u32 once_pkts;			/* given back in this interval only */
	u32 residual_pkts[SIRA_MAX_RESIDUALS];	/* U_n */
	u32 residuals, next_residual;	/* the newest `residuals` before this place; free-running */
	u32 link_pkts_q8;		/* ACKs of a window while there was a queue; 0: unknown */
	u32 link_intervals;		/* that this is the mean over, at most M */
	u32 round_intervals, round_empty, round_short;
	u32 mss_bytes;
	u32 cwnd_pkts;
	u8 mode;			/* enum sira_mode */
	u8 restart : 1;			/* the next ACK begins an interval */
	u8 at_floor : 1;
	u8 lossy : 1;			/* in this round trip more was lost than is allowed */
	struct sira_window window;	/* last, because it needs no memset */
};

/* --- helpers ------------------------------------------------------------------ */

CCA_FN u32 sira_rtt_us(const struct sira_state *s)
{
	return s->srtt_us_q3 >> 3;
}

/* The queueing delay in an RTT sample; 0 if it has none. */
CCA_FN u32 sira_queueing_delay_us(const struct sira_state *s, u32 rtt_us)
{
	return rtt_us > s->min_rtt_us && s->min_rtt_us ? rtt_us - s->min_rtt_us : 0;
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
			   sira_queueing_delay_us(s, sira_rtt_us(s)),
			   (u64)sira_window_us(s) * s->window.intervals);

	return pkts > 1 ? (u32)cca_min_u64(pkts - 1, CCA_MAX_PKTS) : 0;
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

CCA_FN void sira_start_round(struct sira_state *s)
{
	s->round_intervals = 0;
	s->round_empty = 0;
	s->round_short = 0;
	s->lossy = 0;
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

/* R_i of eq. 2 and 3. Overflow: 2^35 x 2^16 bytes; then 2^40 bytes x 10^6 us/s. */
CCA_FN u64 sira_bandwidth(const struct sira_state *s)
{
	u64 pkts = sira_window_total(&s->window) + (u64)s->once_pkts * s->window.intervals;
	u64 bytes = cca_div(pkts * s->mss_bytes, s->window.intervals);

	bytes = cca_min_u64(bytes, 1ull << 40);
	return cca_min_u64(cca_div(bytes * CCA_USEC_PER_SEC, sira_window_us(s)),
			   CCA_MAX_RATE_BYTES_PER_S);
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

/* --- d and D -------------------------------------------------------------------- */

CCA_FN void sira_sample_rtt(struct sira_state *s, const struct sira_params *p,
			    const struct cca_ack *ack)
{
	u32 rtt_us = cca_min_u32(ack->rtt_us, CCA_MAX_RTT_US);

	if (!rtt_us)
		return;
	s->acked_sent_us = ack->now_us - rtt_us;
	if (s->srtt_us_q3)
		s->srtt_us_q3 += rtt_us - (s->srtt_us_q3 >> 3);
	else
		s->srtt_us_q3 = rtt_us << 3;
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

/* --- the states --------------------------------------------------------------------- */

/* What H1 has not given back becomes the newest U_n. */
CCA_FN void sira_keep_residual(struct sira_state *s, const struct sira_params *p)
{
	u32 pkts = (u32)cca_min_u64(sira_whole_pkts(s, s->unsent.behind), CCA_MAX_PKTS);

	sira_forget_sn(s);
	if (!pkts)
		return;
	s->residual_pkts[s->next_residual++ & (SIRA_MAX_RESIDUALS - 1)] = pkts;
	s->residuals = cca_min_u32(s->residuals + 1, p->residuals);
}

CCA_FN void sira_drain(struct sira_state *s, u64 now_us)
{
	s->mode = SIRA_DRAIN;
	s->drain_min_rtt_us = 0;
	s->drain_end_us = now_us + (u64)SIRA_DRAIN_ROUNDS * sira_rtt_us(s);
}

CCA_FN void sira_end_drain(struct sira_state *s, u64 now_us)
{
	if (s->drain_min_rtt_us)
		s->min_rtt_us = s->drain_min_rtt_us;
	s->min_rtt_at_us = now_us;
	s->mode = SIRA_COMPENSATE;
}

/* The state of the next interval. */
CCA_FN void sira_take_state(struct sira_state *s, const struct sira_params *p, u64 now_us)
{
	bool is_late = p->compensation && sira_queue_pkts(s) &&
		       sira_queueing_delay_us(s, sira_rtt_us(s)) > p->delay_threshold_us;

	if (s->mode == SIRA_DRAIN && now_us >= s->drain_end_us)
		sira_end_drain(s, now_us);
	else if (s->mode != SIRA_DRAIN && sira_min_rtt_is_old(s, p, now_us))
		sira_drain(s, now_us);
	if (s->mode == SIRA_DRAIN)
		return;
	if (is_late && s->mode == SIRA_COMPENSATE) {
		sira_keep_residual(s, p);
		sira_start_round(s);
	}
	s->mode = is_late ? SIRA_REDUCE : SIRA_COMPENSATE;
}

/* --- H1 and H2 ------------------------------------------------------------------------ */

/* The sn_i that are acknowledged now. Delta is at least 1. */
CCA_FN u32 sira_take_sn(struct sira_state *s)
{
	u32 interval_us = cca_max_u32(s->interval_us, 1), count;

	if (!s->sn_count || s->acked_sent_us < s->first_sn_us)
		return 0;
	count = (u32)cca_min_u64(cca_div(s->acked_sent_us - s->first_sn_us, interval_us) + 1,
				 s->sn_count);
	s->sn_count -= count;
	s->first_sn_us += (u64)count * interval_us;
	return count;
}

/*
 * Measures the link's rate: while there is a queue, ACKs come at this rate. A mean over as many
 * intervals as the window has. Overflow: 2^24 packets x 2^9 x 2^8; the quotient is at most 2^32.
 */
CCA_FN void sira_measure_link(struct sira_state *s, const struct sira_params *p, u32 pkts,
			      u32 count)
{
	u32 m = s->window.intervals, n = cca_min_u32(count, m);
	u64 now_q8 = cca_div(((u64)pkts * m) << 8, cca_max_u32(count, 1)), old_q8 = s->link_pkts_q8;

	if (!s->min_rtt_us || sira_queueing_delay_us(s, sira_rtt_us(s)) <= p->delay_threshold_us / 2)
		return;
	s->link_intervals = cca_min_u32(s->link_intervals + n, m);
	old_q8 = old_q8 * (s->link_intervals - n) + now_q8 * n;
	s->link_pkts_q8 = (u32)cca_min_u64(cca_div(old_q8, s->link_intervals), 1u << 31);
}

/* Data that is given back raises the rate at most to the link's. */
CCA_FN u64 sira_bound(const struct sira_state *s, const struct sira_params *p, u64 pkts)
{
	u32 link_pkts = s->link_pkts_q8 >> 8;

	if (!p->probing || !s->link_intervals)
		return pkts;
	return cca_min_u64(pkts, link_pkts - cca_min_u32(sira_window_pkts(s), link_pkts));
}

/*
 * H1, eq. 9: for `count` of the sn_i. Overflow: 2^31 intervals x L_u of at most 64; the quotient is
 * at most `behind`, as the factor is at most the divisor.
 */
CCA_FN void sira_give_back(struct sira_state *s, const struct sira_params *p, u32 count)
{
	u64 due = s->unsent.behind;
	u32 intervals, pkts;

	intervals = (u32)cca_min_u64((u64)count * p->compensated_intervals, s->unsent_count);
	if (!intervals || sira_queue_pkts(s) >= p->queue_threshold_pkts)
		return;
	if (intervals < s->unsent_count)
		due = cca_div(due, s->unsent_count) * intervals;
	s->unsent_count -= intervals;
	pkts = (u32)cca_min_u64(sira_bound(s, p, sira_whole_pkts(s, due)), SIRA_SLOT_PKTS);
	if (p->credit_stays)
		pkts = sira_window_add(&s->window, pkts);
	else
		s->once_pkts = pkts;
	sira_weigh(&s->unsent, 0, sira_parts(s, pkts));
}

/* H2, eq. 10. Returns whether there was data to give back. */
CCA_FN bool sira_give_residuals(struct sira_state *s, const struct sira_params *p)
{
	u64 pkts = 0;
	u32 i;

	if (p->compensation < 2 || !s->residuals)
		return false;
	for (i = 0; i < SIRA_MAX_RESIDUALS && i < s->residuals; i++)
		pkts += s->residual_pkts[(s->next_residual - 1 - i) & (SIRA_MAX_RESIDUALS - 1)];
	s->residuals = 0;
	sira_window_add(&s->window, sira_bound(s, p, pkts));
	return true;
}

/* Counts the intervals that have ended, and decides at the end of each round trip. */
CCA_FN void sira_end_round(struct sira_state *s, const struct sira_params *p, u32 intervals,
			   u64 now_us)
{
	bool is_empty = !sira_queue_pkts(s);
	bool is_short = sira_queueing_delay_us(s, sira_rtt_us(s)) <= p->delay_threshold_us / 2;
	bool lossy = s->lossy;

	s->round_intervals += intervals;
	s->round_empty += is_empty ? intervals : 0;
	s->round_short += is_short ? intervals : 0;
	if ((u64)s->round_intervals * s->interval_us < sira_rtt_us(s))
		return;
	is_empty = 3ull * s->round_empty > 2ull * s->round_intervals;
	is_short = 3ull * s->round_short > 2ull * s->round_intervals;
	sira_start_round(s);
	if (is_empty && sira_give_residuals(s, p))
		return;
	if (lossy)
		s->next_probe_us = now_us + sira_window_us(s);
	if (!is_short || !p->probing || sira_window_is_first(&s->window) || now_us < s->next_probe_us)
		return;
	s->next_probe_us = now_us + sira_window_us(s) / 4;
	sira_window_add(&s->window,
				cca_max_u32(sira_window_pkts(s) / SIRA_PROBE_SHARE, 1));
}

CCA_FN void sira_compensate(struct sira_state *s, const struct sira_params *p, u32 intervals,
			    u64 now_us)
{
	u32 count = sira_take_sn(s);

	s->once_pkts = 0;
	if (s->mode != SIRA_COMPENSATE)
		return;
	if (count) {
		sira_give_back(s, p, count);
		if (!s->sn_count)
			sira_keep_residual(s, p);
	} else if (!s->sn_count && s->min_rtt_us) {
		sira_end_round(s, p, intervals, now_us);
	}
}

/* --- intervals -------------------------------------------------------------------------- */

/* The packets sent since the last call; 0 if the host has taken some for lost meanwhile. */
CCA_FN u32 sira_take_sent(struct sira_state *s, const struct cca_ack *ack)
{
	u32 sent_pkts = ack->delivered_pkts + s->lost_pkts + ack->inflight_pkts;
	u32 new_pkts = cca_reached(sent_pkts, s->sent_pkts) ? sent_pkts - s->sent_pkts : 0;

	s->sent_pkts = sent_pkts;
	return cca_min_u32(new_pkts, CCA_MAX_PKTS);
}

/*
 * The ACKs of the interval that ends, with what was sent too little or too much. While the rate is
 * the floor, more is sent than the window says, and this shall raise the rate.
 */
CCA_FN u32 sira_settle(struct sira_state *s)
{
	u32 pkts = s->open_pkts, more;

	s->open_pkts = 0;
	more = (u32)cca_min_u64(sira_whole_pkts(s, s->sending.behind), CCA_MAX_PKTS);
	sira_weigh(&s->sending, 0, sira_parts(s, more));
	pkts += more;
	more = (u32)cca_min_u64(sira_whole_pkts(s, s->sending.ahead), pkts);
	sira_weigh(&s->sending, sira_parts(s, more), 0);
	return pkts - more;
}

/* Eq. 1 to 3 and 7, over the intervals that have ended. */
CCA_FN void sira_move_window(struct sira_state *s, const struct sira_params *p, const struct cca_ack *ack, u32 count)
{
	u64 sent = sira_parts(s, sira_take_sent(s, ack));
	u32 pkts = s->open_pkts;
	u64 due = sira_window_end(&s->window, sira_settle(s), count);

	sira_measure_link(s, p, pkts, count);

	if (s->mode == SIRA_REDUCE) {
		if (!s->sn_count)
			s->first_sn_us = s->interval_start_us + s->interval_us;
		s->sn_count += count;
		s->unsent_count += count;
		sira_weigh(&s->unsent, due, sent);
	} else if (!s->at_floor) {
		sira_weigh(&s->sending, due, sent);
	}
}

CCA_FN void sira_take_rate(struct sira_state *s, const struct sira_params *p)
{
	u64 rate = sira_bandwidth(s), floor = sira_floor_bytes_per_s(s);
	u64 target_us = (u64)s->min_rtt_us + p->delay_threshold_us;

	/* Eq. 6. Overflow: 2^37 x 2^26. d is above T + D. */
	if (s->mode == SIRA_REDUCE)
		rate = cca_div(rate * cca_min_u64(target_us, CCA_MAX_RTT_US),
			       cca_max_u32(sira_rtt_us(s), 1));
	if (s->mode == SIRA_DRAIN)
		rate /= 2;
	s->at_floor = rate <= floor;
	s->rate_bytes_per_s = cca_max_u64(rate, floor);
}

/* The window has another length from here on, at the same rate. */
CCA_FN void sira_resize(struct sira_state *s, const struct sira_params *p)
{
	if (s->window.intervals != p->window_intervals || s->interval_us != p->update_interval_us)
		sira_refill(s, p->window_intervals, p->update_interval_us, sira_bandwidth(s));
}

/* The time of intervals in which no ACK tells anything. */
CCA_FN void sira_skip(struct sira_state *s, const struct cca_ack *ack)
{
	sira_take_sent(s, ack);
	s->open_pkts = 0;
	s->interval_start_us = ack->now_us;
}

CCA_FN void sira_end_intervals(struct sira_state *s, const struct sira_params *p,
			       const struct cca_ack *ack)
{
	u32 elapsed_us = (u32)cca_min_u64(cca_elapsed_us(ack->now_us, s->interval_start_us),
					  SIRA_MAX_ELAPSED_US);
	u32 count = (u32)cca_div(elapsed_us, s->interval_us);

	if (ack->now_us < s->interval_start_us || elapsed_us == SIRA_MAX_ELAPSED_US)
		s->restart = 1;
	if (s->restart) {
		s->restart = 0;
		sira_forget_sn(s);
		sira_start_round(s);
		sira_skip(s, ack);
		return;
	}
	if (!count)
		return;
	if (ack->app_limited) {
		sira_skip(s, ack);
	} else {
		sira_move_window(s, p, ack, count);
		s->interval_start_us += (u64)count * s->interval_us;
	}
	sira_resize(s, p);
	sira_take_state(s, p, ack->now_us);
	if (!ack->app_limited)
		sira_compensate(s, p, count, ack->now_us);
	sira_take_rate(s, p);
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

/* --- decisions ---------------------------------------------------------------------------- */

CCA_FN void sira_decide(struct sira_state *s, const struct sira_params *p, u32 inflight_pkts,
			struct cca_decision *d)
{
	u64 target_us = (u64)s->min_rtt_us + p->delay_threshold_us;
	u64 due_pkts = sira_whole_pkts(s, s->window.due + s->sending.behind) + s->open_pkts;
	u64 pkts = cca_min_u32(inflight_pkts, CCA_MAX_PKTS) + due_pkts + SIRA_DELAYED_ACK_PKTS;

	pkts = cca_max_u64(pkts, cca_pkts_at_rate(s->rate_bytes_per_s, target_us, s->mss_bytes));
	pkts = cca_max_u64(pkts, SIRA_MIN_CWND_PKTS);
	s->cwnd_pkts = (u32)cca_min_u64(pkts, CCA_MAX_PKTS);
	d->cwnd_pkts = s->cwnd_pkts;
	d->pacing_bytes_per_s = s->rate_bytes_per_s;
}

CCA_FN void sira_start_intervals(struct sira_state *s, const struct cca_ack *ack)
{
	s->mode = SIRA_COMPENSATE;
	sira_skip(s, ack);
}

CCA_FN void sira_on_ecn(struct sira_state *s, const struct sira_params *p, u64 now_us)
{
	if (now_us < s->marked_until_us)
		return;
	s->marked_until_us = now_us + cca_max_u32(sira_rtt_us(s), s->interval_us);
	sira_refill(s, s->window.intervals, s->interval_us, sira_bandwidth(s) / 2);
	sira_take_rate(s, p);
}

/* --- entry points --------------------------------------------------------------------------- */

CCA_FN void sira_init(struct sira_state *s, const struct sira_params *p,
		      const struct cca_start *start, struct cca_decision *d)
{
	__builtin_memset(s, 0, __builtin_offsetof(struct sira_state, window));
	s->mode = SIRA_STARTUP;
	s->mss_bytes = cca_clamp_u32(start->mss_bytes, 1, CCA_MAX_MSS_BYTES);
	s->min_rtt_us = cca_min_u32(start->rtt_us, CCA_MAX_RTT_US);
	s->srtt_us_q3 = s->min_rtt_us << 3;
	s->min_rtt_at_us = start->now_us;
	s->rate_bytes_per_s = p->initial_bytes_per_s;
	sira_refill(s, p->window_intervals, p->update_interval_us, s->rate_bytes_per_s);
	sira_decide(s, p, s->window.imagined_pkts, d);
}

CCA_FN void sira_on_ack(struct sira_state *s, const struct sira_params *p,
			const struct cca_ack *ack, struct cca_decision *d)
{
	u32 lost_pkts = sira_count_lost(s, p, ack);

	s->mss_bytes = cca_clamp_u32(ack->mss_bytes, 1, CCA_MAX_MSS_BYTES);
	if (s->mode == SIRA_STARTUP)
		sira_start_intervals(s, ack);
	else
		sira_end_intervals(s, p, ack);
	sira_sample_rtt(s, p, ack);
	if (!ack->app_limited)
		s->open_pkts = cca_min_u32(s->open_pkts + lost_pkts +
					   cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS),
					   CCA_MAX_PKTS);
	sira_decide(s, p, ack->inflight_pkts, d);
}

CCA_FN void sira_on_event(struct sira_state *s, const struct sira_params *p,
			  const struct cca_event *ev, struct cca_decision *d)
{
	switch (ev->kind) {
	case CCA_TIMEOUT:
		s->residuals = 0;
		s->restart = s->mode != SIRA_STARTUP;
		sira_balance_reset(&s->sending);
		sira_forget_sn(s);
		d->cwnd_pkts = s->cwnd_pkts = SIRA_TIMEOUT_CWND_PKTS;
		return;
	case CCA_TRANSFER_STARTED:
	case CCA_IDLE_RESTART:
		s->restart = s->mode != SIRA_STARTUP;
		break;
	case CCA_ECN:
		sira_on_ecn(s, p, ev->now_us);
		break;
	case CCA_UNDO:
	case CCA_RECOVERY_ENTERED:
	case CCA_RECOVERY_LEFT:
		break;
	}
	sira_decide(s, p, ev->inflight_pkts, d);
}

#endif /* CCA_SIRA_H */
