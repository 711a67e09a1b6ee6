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
 *     H1         sn_i, the last packet of an interval i of REDUCE, is acknowledged, and the queue
 *                has l < L_q packets (eq. 8): L_u of the u_j count as ACKs      (eq. 9)
 *     H2         after the last sn_i, the queue was empty in more than 2/3 of the intervals of a
 *                round trip: what H1 left of the u_j is spread over the window  (eq. 10, 11)
 *   DRAIN        D is old: half of R_i for two round trips
 *
 * With compensation 0, SIRA has STARTUP and COMPENSATE, and neither H1 nor H2. With 1 it lacks H2.
 *
 * The paper's proxy sets the rate by a timer, and controls the sending itself. The core receives
 * ACKs only, and hosts may send more or less than the rate. Two sums make up for this:
 *
 *   rate    In COMPENSATE, R_i Delta - sigma_i is added up, whatever its cause. The rate also
 *           carries this sum, over the time of the window or of a round trip. Otherwise a rate that
 *           lasts for the 20 to 40 ms between two bunches of ACKs would be 4 % wrong each time, and
 *           the flow would die or overrun: nothing else in SIRA moves the rate back.
 *   cwnd    is the packets in flight, and those that SIRA would send if no ACK came any more. So
 *           it bounds what is sent in an outage as R_i does, which falls to 0 in the paper.
 *
 * The paper leaves these points open. Our choices:
 *   sn      DEVIATION: sn_i are times, not sequence numbers. sn_i is acknowledged with the first
 *           packet that was sent after interval i ended. That is the same without reordering, and
 *           the set of the sn_i is then two numbers.
 *           If several are acknowledged at once, each counts. Those that are acknowledged in REDUCE
 *           are dropped, and a new state REDUCE drops all.
 *   u       DEVIATION: the set of the u_i is their sum and their number. H1 gives back the mean of
 *           L_u of them instead of the first L_u. The sums are equal when all is given back, and
 *           a flow needs 1 KiB less.
 *           Negative u_i cancel positive ones. Packets leave in pairs, so every other u_i would be
 *           too large if negative ones did not count.
 *   t_k     DEVIATION: the transmission time of a packet is the mean time between packets of the
 *           window, S / R, in eq. 8. A single gap between ACKs shows how the path bunches them.
 *           Then l = (d - D) / t - 1, rounded down, and at least 0. l is also defined without sn_i,
 *           as H2 needs it. d is the smoothed one, as eq. 4 defines d_k.
 *   eq. 9   DEVIATION: it raises the rate of one interval, and thus sends u / M. The text adds u to
 *           the window as normal ACKs, and thus sends u. The text counts here (credit_stays).
 *   H2      Adding U / M to each c_j until U more was sent is the same as adding U to one interval:
 *           both raise the rate by U / (M Delta) for M intervals.
 *           The rest of the u_i becomes a U_n when the last sn_i is acknowledged, not only when
 *           REDUCE begins again. Otherwise H2 could not use it.
 *           The queue is empty where l is 0. `j >= min(0, i - M)` in eq. 10 is read as max.
 *   REDUCE  DEVIATION: the queue must also have l > 0 packets. A slow link takes longer than T for
 *           the two packets of a delayed ACK, and the rate would fall without end.
 *   bound   DEVIATION: data is given back until R_i is the rate at which ACKs come while there is a
 *           queue, which is the link's. Without this bound each state REDUCE leaves more data than
 *           the one before it where T is large, and the queue swings up to 1 s.
 *   probing DEVIATION: SIRA never exceeds the rate of its ACKs. A loss, or X below the link's rate,
 *           would cost throughput for ever. If d was at most D + T/2, or the queue empty, in more
 *           than 2/3 of the intervals of a round trip, and H2 has nothing to give back, the rate
 *           rises by 1/8, or by one packet per window: once in a quarter of the window, because
 *           its effect lasts for a whole one. After losses it does not rise for a window.
 *           With the parameter probing 0 there is no bound, either.
 *   d       DEVIATION: d is at most the greatest RTT of this round trip and the one before it. On a
 *           slow link few ACKs come, and eq. 4 alone would show a queue for more than ten round
 *           trips after it has emptied. The flow would reduce its rate all this time.
 *   D       DEVIATION: if no d within T/2 of D was seen for min_rtt_window_ms, SIRA-H takes D anew,
 *           in DRAIN. Otherwise a path that becomes longer keeps SIRA-H in REDUCE for ever.
 *   floor   DEVIATION: the rate is at least one packet per D, because R_i = 0 would last for ever.
 *   loss    DEVIATION: lost packets count as ACKs, up to loss_allowance_permille of the delivered
 *           ones, because loss of a radio link is no sign of congestion. Beyond that they do not
 *           count, and the rate falls by as many packets.
 *   outage  An RTT that contains a time of SIRA_OUTAGE_US without ACKs does not count in d.
 *   timeout The sender may have two packets in flight until the next ACK. What was in flight is
 *           lost to the rate. An undo needs nothing, because the window remains.
 *   app     While the application limits the flow, and in a silence and the round trip after it,
 *           the window does not move: ACKs say nothing about the path.
 *   ECN     A mark halves the window, at most once in a round trip.
 */
#ifndef CCA_SIRA_H
#define CCA_SIRA_H

#include "sira_model.h"

/* --- the states --------------------------------------------------------------------- */

CCA_FN void sira_start_round(struct sira_state *s)
{
	s->round_intervals = 0;
	s->round_empty = 0;
	s->round_short = 0;
	s->lossy = 0;
}

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
	s->drain_least_rtt_us = 0;
	s->drain_end_us = now_us + (u64)SIRA_DRAIN_ROUNDS * sira_rtt_us(s);
}

CCA_FN void sira_end_drain(struct sira_state *s, u64 now_us)
{
	if (s->drain_min_rtt_us) {
		s->min_rtt_us = s->drain_min_rtt_us;
		s->least_rtt_us = s->drain_least_rtt_us;
	}
	s->min_rtt_at_us = now_us;
	s->mode = SIRA_COMPENSATE;
}

/* The state of the next interval. */
CCA_FN void sira_take_state(struct sira_state *s, const struct sira_params *p, u64 now_us)
{
	bool is_late = p->compensation && sira_queue_pkts(s) &&
		       sira_delay_us(s) > p->delay_threshold_us;

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

/* --- H1 and H2, probing ---------------------------------------------------------------- */

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

/* Raises the rate, where the round trip that has ended shows that it is too low. */
CCA_FN void sira_probe(struct sira_state *s, u64 now_us)
{
	if (sira_window_is_first(&s->window) || now_us < s->next_probe_us)
		return;
	s->next_probe_us = now_us + sira_window_us(s) / 4;
	sira_window_add(&s->window, cca_max_u32(sira_window_pkts(s) / SIRA_PROBE_SHARE, 1));
}

/* Counts the intervals that have ended, and decides at the end of each round trip. */
CCA_FN void sira_end_round(struct sira_state *s, const struct sira_params *p, u32 intervals,
			   u64 now_us)
{
	bool is_empty = !sira_queue_pkts(s);
	bool is_short = is_empty || sira_delay_us(s) <= p->delay_threshold_us / 2;
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
	if (is_short && p->probing)
		sira_probe(s, now_us);
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

/* --- intervals and decisions ------------------------------------------------------------- */

CCA_FN void sira_take_rate(struct sira_state *s, const struct sira_params *p)
{
	u64 floor = sira_floor_bytes_per_s(s), rate;
	u64 target_us = cca_min_u64((u64)s->min_rtt_us + p->delay_threshold_us, CCA_MAX_RTT_US);

	/* Eq. 6. Overflow: 2^37 x 2^26. d is above T + D. */
	if (s->mode == SIRA_REDUCE)
		rate = cca_div(sira_bandwidth(s) * target_us, cca_max_u32(sira_rtt_us(s), 1));
	else if (s->mode == SIRA_DRAIN)
		rate = sira_bandwidth(s) / 2;
	else
		rate = sira_corrected_bandwidth(s);
	s->at_floor = rate <= floor;
	s->rate_bytes_per_s = cca_max_u64(rate, floor);
}

/* The window has another length from here on, at the same rate. */
CCA_FN void sira_resize(struct sira_state *s, const struct sira_params *p)
{
	if (s->window.intervals != p->window_intervals || s->interval_us != p->update_interval_us)
		sira_refill(s, p->window_intervals, p->update_interval_us, sira_bandwidth(s));
}

CCA_FN void sira_end_intervals(struct sira_state *s, const struct sira_params *p,
			       const struct cca_ack *ack, bool app_limited)
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
	if (app_limited) {
		sira_skip(s, ack);
	} else {
		sira_move_window(s, p, ack, count);
		s->interval_start_us += (u64)count * s->interval_us;
	}
	sira_resize(s, p);
	sira_take_state(s, p, ack->now_us);
	if (!app_limited)
		sira_compensate(s, p, count, ack->now_us);
	sira_take_rate(s, p);
}

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
	/* Eq. 5: D is a minimum of smoothed RTTs of data, and that of the handshake is neither. */
	s->least_rtt_us = cca_min_u32(start->rtt_us, CCA_MAX_RTT_US);
	s->min_rtt_at_us = start->now_us;
	s->newest_us = start->now_us;
	s->sent_pkts = start->delivered_pkts;
	s->rate_bytes_per_s = p->initial_bytes_per_s;
	sira_refill(s, p->window_intervals, p->update_interval_us, s->rate_bytes_per_s);
	sira_decide(s, p, s->window.imagined_pkts, d);
}

CCA_FN void sira_on_ack(struct sira_state *s, const struct sira_params *p,
			const struct cca_ack *ack, struct cca_decision *d)
{
	bool app_limited = sira_is_app_limited(s, ack);
	u32 lost_pkts = sira_count_lost(s, p, ack);

	s->mss_bytes = cca_clamp_u32(ack->mss_bytes, 1, CCA_MAX_MSS_BYTES);
	if (s->mode == SIRA_STARTUP)
		sira_end_startup(s, p, ack);
	else
		sira_end_intervals(s, p, ack, app_limited);
	sira_note_outage(s, p, ack);
	sira_sample_rtt(s, p, ack);
	if (!app_limited)
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
		s->newest_us = ev->now_us;
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
