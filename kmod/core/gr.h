/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * GR: the generalised delay-based rate controller of PQSA, section III-A.
 *
 *   B        bandwidth: the rate of ACKed packets over the last W
 *   RTT      mean RTT over the last interval Delta;  RTTmin: the minimum RTT
 *   T        queueing-delay threshold
 *
 * At the end of every interval Delta:
 *
 *   RTT > RTTmin + T                 rate = B (RTTmin + T) / RTT
 *   RTT < RTTmin + T/2               rate = B (1 + (RTTmin + T/2 - RTT) / RTT)
 *                                         = B (RTTmin + T/2) / RTT
 *   otherwise                        rate stays
 *
 * States:
 *                 delay rose, or loss              RTTmin is old
 *   SLOW_START ------------------------> CRUISE ------------------> DRAIN
 *        ^                                | ^                         |
 *        +------------ timeout -----------+ +----- queue emptied -----+
 *
 * The paper leaves these points open. Our choices:
 *   W       starts and ends with a burst of ACKs, so that B has no bias (cca.h,
 *           cca_rate_window). A burst after a gap lasts at most W or RTTmin / 4.
 *   RTT     is the mean of the samples in the interval, so it does not depend on which
 *           sample came last. An interval continues until it has a sample.
 *   share   By the rule, all flows that share a queue multiply their rates by the same
 *           factor, or keep them between T/2 and T. Unequal shares therefore stay unequal.
 *           With g = share_gain_pct / 100 above 0, T grows by g (RTTmin + T) / sqrt(w),
 *           and the rate between the thresholds grows at this pace, too. w is the packets
 *           that B carries in RTTmin + T, so that each flow adds g sqrt(w) packets in a
 *           round trip. This is a larger share of a small window. With the same RTT, only
 *           equal rates stay as they are.
 *   floor   The rate is at least one packet per RTTmin. Otherwise B and the rate could
 *           fall to 0 in an outage, and no ACK would ever return to raise them.
 *   cwnd    limits the packets that accumulate in an outage. It is cwnd_gain_pct of the
 *           packets that the rate carries in RTTmin + T, plus two for the delayed ACK.
 *           The rule itself never needs more than the rate carries in RTTmin + T.
 *   slow    DEVIATION: of HyStart's two rules GR omits the one for ACK trains, because
 *   start   GR paces, and pacing spreads the train.
 *           DEVIATION: any loss ends slow start once an RTT is known. (In CRUISE a loss
 *           counts only from a threshold on, see below.) GR then continues at B, not at
 *           half a window.
 *   RTTmin  If no RTT within 1/16 of RTTmin was measured for min_rtt_window_ms, the path
 *           may have changed. GR then sends at half of B for two round trips, and takes
 *           the minimum RTT of that time as RTTmin. The round trips are counted by
 *           packets, because an RTT may be far longer than the path.
 *   loss    The paper does not react to loss. Here a timeout restarts slow start. If
 *           loss_hold_permille of a round trip is lost, the buffer is shorter than T/2,
 *           and the rule alone would overrun it without end. The rate may then not exceed
 *           B in the next round trip. This holds without an RTT sample, too, because
 *           retransmissions give none and recovery may last for seconds.
 *   ECN     GR reacts to a mark as RFC 3168 requires, once per window of data. The rate
 *           is at most half of B until the packets in flight at the mark are delivered
 *           or lost. B is then measured anew. A mark ends slow start. A lost packet may
 *           be due to the radio link, but a mark always comes from a queue.
 *   app     If the application does not fill the rate, B is too small. B then lowers the
 *           rate only if the delay exceeds the threshold. As in Linux, slow start does not
 *           grow a window of which less than half was used.
 *   silence An idle time does not count in B, nor does the round trip after it. The first
 *           ACK after the idle time opens W and Delta anew.
 *   outage  is a time without ACKs that is longer than GR_OUTAGE_US and than twice the
 *           larger of RTTmin + T and the last RTT. An RTT that contains it is no queueing
 *           delay, and the rule omits it. Until the first RTT of a packet that was sent
 *           later, the rate may not exceed B, and W begins after the outage. In this time
 *           GR_OUTAGE_PKTS new packets may be sent in each round trip, whatever cwnd is.
 *           They show whether the outage lost the last packets of a window. Otherwise GR
 *           would wait for Linux's probe of a lost tail, which comes after two smoothed
 *           RTTs, and these contain the outage.
 *   undo    If a timeout proves spurious, GR restores the mode, cwnd and rate from before
 *           it, in any mode. Of several timeouts in a row it undoes the one with the
 *           largest cwnd.
 */
#ifndef CCA_GR_H
#define CCA_GR_H

#include "gr_model.h"

/* --- slow start: as in HyStart it ends when the delay rises -------------- */

CCA_FN bool gr_delay_rose(const struct gr_state *s)
{
	u32 slack_us = cca_clamp_u32(s->min_rtt_us / 8, GR_HYSTART_MIN_US, GR_HYSTART_MAX_US);

	return s->round_samples == GR_HYSTART_SAMPLES &&
	       s->round_min_rtt_us >= s->min_rtt_us + slack_us;
}

CCA_FN void gr_cruise(struct gr_state *s, const struct gr_params *p, u64 now_us)
{
	u64 bandwidth = cca_rate_of(&s->bandwidth, s->mss_bytes);

	s->mode = GR_CRUISE;
	s->undo_cwnd_pkts = 0;		/* an undo would restore an outdated state */
	s->rate_bytes_per_s = bandwidth ? cca_max_u64(bandwidth, gr_floor_bytes_per_s(s)) :
					  gr_slow_start_rate(s);
	s->cwnd_pkts = gr_cwnd_for(s, p, s->rate_bytes_per_s);
	gr_start_interval(s, now_us);
}

/* Whether at least half of the window was in flight before this ACK. */
CCA_FN bool gr_window_was_used(const struct gr_state *s, const struct cca_ack *ack)
{
	u64 flight_pkts = (u64)ack->inflight_pkts + ack->acked_pkts + ack->lost_pkts;

	return 2 * flight_pkts >= s->cwnd_pkts;
}

CCA_FN void gr_grow_exponentially(struct gr_state *s, const struct gr_params *p,
				  const struct cca_ack *ack)
{
	if (gr_knows_rtt(s) && (ack->lost_pkts || gr_delay_rose(s))) {
		gr_cruise(s, p, ack->now_us);
		return;
	}
	if (gr_window_was_used(s, ack))
		s->cwnd_pkts = cca_min_u32(s->cwnd_pkts +
					   cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS),
					   CCA_MAX_PKTS);
	s->rate_bytes_per_s = gr_slow_start_rate(s);
}

/* --- drain: measure the minimum RTT again -------------------------------- */

CCA_FN bool gr_min_rtt_is_old(const struct gr_state *s, const struct gr_params *p, u64 now_us)
{
	u64 window_us = (u64)p->min_rtt_window_ms * CCA_USEC_PER_MSEC;

	return gr_knows_rtt(s) && cca_elapsed_us(now_us, s->min_rtt_at_us) > window_us;
}

CCA_FN void gr_start_drain(struct gr_state *s, const struct gr_params *p)
{
	u64 bandwidth = cca_rate_of(&s->bandwidth, s->mss_bytes);

	s->mode = GR_DRAIN;
	s->drain_rounds = 0;
	s->drain_min_rtt_us = 0;
	s->rate_bytes_per_s = cca_max_u64(bandwidth / 2, gr_floor_bytes_per_s(s));
	s->cwnd_pkts = cca_min_u32(s->cwnd_pkts, gr_cwnd_for(s, p, s->rate_bytes_per_s));
}

CCA_FN void gr_end_drain(struct gr_state *s, const struct gr_params *p, u64 now_us)
{
	u64 bandwidth = cca_rate_of(&s->bandwidth, s->mss_bytes), rate = s->rate_bytes_per_s;

	if (s->drain_min_rtt_us)
		s->min_rtt_us = s->drain_min_rtt_us;
	s->min_rtt_at_us = now_us;
	/* DRAIN had halved the rate, and with it B. The path carries twice that, or twice B. */
	if (bandwidth)
		rate = cca_min_u64(rate, cca_max_u64(bandwidth, gr_floor_bytes_per_s(s)));
	s->mode = GR_CRUISE;
	s->rate_bytes_per_s = cca_min_u64(2 * rate, CCA_MAX_RATE_BYTES_PER_S);
	s->cwnd_pkts = gr_cwnd_for(s, p, s->rate_bytes_per_s);
	gr_start_interval(s, now_us);
}

/* The first round trip of DRAIN begins with this ACK, which reports the packets in flight. */
CCA_FN void gr_drain(struct gr_state *s, const struct gr_params *p, const struct cca_ack *ack,
		     bool round_ended)
{
	if (s->mode != GR_DRAIN)
		return;
	if (!s->drain_rounds)
		gr_start_round(s, ack->delivered_pkts, ack->inflight_pkts);
	else if (!round_ended)
		return;
	/* The rounds that have begun are one more than those that have ended. */
	if (s->drain_rounds++ == GR_DRAIN_ROUNDS)
		gr_end_drain(s, p, ack->now_us);
}

/* --- the rule of section III-A -------------------------------------------- */

/*
 * The square root, rounded down. value: at most CCA_MAX_PKTS. The function has no branches,
 * because BPF's verifier would follow each of their combinations.
 */
CCA_FN u32 gr_square_root(u64 value)
{
	u32 root = 0, bit, exceeds;
	u64 next;

	for (bit = 1u << 12; bit; bit >>= 1) {
		next = root + bit;
		exceeds = (u32)((value - next * next) >> 63);
		root += bit & (exceeds - 1);
	}
	return root;
}

/*
 * The delay that share_gain_pct of the square root of the window adds to the threshold, at
 * most T/2. Overflow: 2^27 x 400.
 */
CCA_FN u32 gr_share_us(const struct gr_state *s, const struct gr_params *p, u64 bandwidth)
{
	u64 span_us = (u64)s->min_rtt_us + p->delay_threshold_us;
	u32 root, share_us;

	if (!p->share_gain_pct || s->hold)
		return 0;
	root = gr_square_root(cca_pkts_at_rate(bandwidth, span_us, s->mss_bytes));
	share_us = (u32)cca_div(span_us * p->share_gain_pct, 100 * cca_max_u32(root, 1));
	return cca_min_u32(share_us, p->delay_threshold_us / 2);
}

/* The rate between the thresholds, after elapsed_us: it grows by share_us / RTT in each RTT. */
CCA_FN u64 gr_grown_rate(const struct gr_state *s, u32 share_us, u64 rtt_us, u64 elapsed_us)
{
	u64 growth = gr_scale(s->rate_bytes_per_s, share_us, rtt_us);

	elapsed_us = cca_min_u64(elapsed_us, cca_min_u64(rtt_us, CCA_MAX_RTT_US));
	return s->rate_bytes_per_s + gr_scale(growth, (u32)elapsed_us, rtt_us);
}

CCA_FN u64 gr_next_rate(const struct gr_state *s, const struct gr_params *p,
			u64 bandwidth, u64 rtt_us, bool app_limited, u64 elapsed_us)
{
	u32 share_us = gr_share_us(s, p, bandwidth);
	u32 upper_us = s->min_rtt_us + p->delay_threshold_us + share_us;
	u32 lower_us = s->min_rtt_us + p->delay_threshold_us / 2;
	u64 rate;

	if (rtt_us > upper_us)
		return gr_scale(bandwidth, upper_us, rtt_us);
	if (rtt_us < lower_us) {
		rate = s->hold ? bandwidth : gr_scale(bandwidth, lower_us + share_us, rtt_us);
		return app_limited ? cca_max_u64(rate, s->rate_bytes_per_s) : rate;
	}
	if (s->hold)
		return cca_min_u64(s->rate_bytes_per_s, bandwidth);
	if (app_limited || !share_us)
		return s->rate_bytes_per_s;
	return gr_grown_rate(s, share_us, rtt_us, elapsed_us);
}

CCA_FN void gr_take_rate(struct gr_state *s, const struct gr_params *p, u64 rate)
{
	rate = cca_max_u64(rate, gr_floor_bytes_per_s(s));
	s->rate_bytes_per_s = cca_min_u64(rate, CCA_MAX_RATE_BYTES_PER_S);
	s->cwnd_pkts = gr_cwnd_for(s, p, s->rate_bytes_per_s);
}

CCA_FN void gr_adapt(struct gr_state *s, const struct gr_params *p, const struct cca_ack *ack)
{
	u64 bandwidth = cca_rate_of(&s->bandwidth, s->mss_bytes);
	u64 elapsed_us = cca_elapsed_us(ack->now_us, s->interval_start_us);
	u64 rtt_us;

	if (!bandwidth || elapsed_us < p->adaptation_interval_us)
		return;
	if (!s->interval_samples) {
		if (s->hold || s->outage)
			gr_take_rate(s, p, cca_min_u64(s->rate_bytes_per_s, bandwidth));
		return;
	}
	rtt_us = cca_div(s->interval_rtt_us, s->interval_samples);
	gr_start_interval(s, ack->now_us);
	if (gr_min_rtt_is_old(s, p, ack->now_us)) {
		gr_start_drain(s, p);
		return;
	}
	gr_take_rate(s, p, gr_next_rate(s, p, bandwidth, rtt_us, ack->app_limited, elapsed_us));
}

/* --- ECN marks -------------------------------------------------------------- */

CCA_FN void gr_on_ecn(struct gr_state *s, const struct gr_params *p, u64 now_us)
{
	u64 bandwidth = cca_rate_of(&s->bandwidth, s->mss_bytes);

	/* Several marks in the same window of data count as one. */
	if (s->marked_rate_bytes_per_s)
		return;
	/* Without an RTT there is no rate to halve. */
	if (!gr_knows_rtt(s)) {
		s->cwnd_pkts = cca_max_u32(s->cwnd_pkts / 2, GR_MIN_CWND_PKTS);
		return;
	}
	if (s->mode == GR_SLOW_START)
		gr_cruise(s, p, now_us);
	if (bandwidth)
		s->rate_bytes_per_s = cca_min_u64(s->rate_bytes_per_s, bandwidth);
	gr_take_rate(s, p, s->rate_bytes_per_s / 2);
	s->marked_rate_bytes_per_s = s->rate_bytes_per_s;
	s->marked_round = 0;
}

/* The mark's round trip begins with the next ACK, which reports the packets in flight. */
CCA_FN void gr_keep_marked_rate(struct gr_state *s, const struct gr_params *p,
				const struct cca_ack *ack, bool round_ended)
{
	if (!s->marked_rate_bytes_per_s)
		return;
	gr_take_rate(s, p, cca_min_u64(s->rate_bytes_per_s, s->marked_rate_bytes_per_s));
	if (!s->marked_round) {
		gr_start_round(s, ack->delivered_pkts, ack->inflight_pkts);
		s->marked_round = 1;
	} else if (round_ended) {
		s->marked_rate_bytes_per_s = 0;
		cca_rate_close(&s->bandwidth);
	}
}

/* The cwnd that allows GR_OUTAGE_PKTS packets to be sent in a round trip after an outage. */
CCA_FN u32 gr_outage_cwnd_pkts(const struct gr_state *s, const struct cca_ack *ack)
{
	u32 inflight_pkts = cca_min_u32(ack->inflight_pkts, CCA_MAX_PKTS - GR_OUTAGE_PKTS);
	/* The round trip began when so many packets were delivered, lost or in flight. */
	u32 sent_pkts = ack->delivered_pkts + s->round_lost_pkts + inflight_pkts -
			s->round_end_pkts;

	return inflight_pkts + GR_OUTAGE_PKTS - cca_min_u32(sent_pkts, GR_OUTAGE_PKTS);
}

/* --- entry points ---------------------------------------------------------- */

CCA_FN void gr_init(struct gr_state *s, const struct gr_params *p,
		    const struct cca_start *start, struct cca_decision *d)
{
	(void)p;
	__builtin_memset(s, 0, sizeof(*s));
	cca_rate_reset(&s->bandwidth, start->now_us, start->delivered_pkts);
	s->mode = GR_SLOW_START;
	s->mss_bytes = cca_clamp_u32(start->mss_bytes, 1, CCA_MAX_MSS_BYTES);
	s->min_rtt_us = cca_min_u32(start->rtt_us, CCA_MAX_RTT_US);
	s->min_rtt_at_us = start->now_us;
	s->newest_rtt_us = s->min_rtt_us;
	s->cwnd_pkts = cca_clamp_u32(start->cwnd_pkts, GR_MIN_CWND_PKTS, CCA_MAX_PKTS);
	s->rate_bytes_per_s = gr_slow_start_rate(s);
	gr_start_round(s, start->delivered_pkts, s->cwnd_pkts);
	gr_start_interval(s, start->now_us);
	gr_decide(s, d);
}

CCA_FN void gr_on_ack(struct gr_state *s, const struct gr_params *p,
		      const struct cca_ack *ack, struct cca_decision *d)
{
	bool round_ended;

	gr_update_model(s, p, ack);
	if (s->mode == GR_SLOW_START)
		gr_grow_exponentially(s, p, ack);
	else if (s->mode == GR_CRUISE)
		gr_adapt(s, p, ack);
	round_ended = gr_count_round(s, p, ack);
	gr_drain(s, p, ack, round_ended);
	gr_keep_marked_rate(s, p, ack, round_ended);
	gr_decide(s, d);
	if (s->outage && !s->marked_rate_bytes_per_s)
		d->cwnd_pkts = cca_max_u32(d->cwnd_pkts, gr_outage_cwnd_pkts(s, ack));
}

CCA_FN void gr_on_timeout(struct gr_state *s, const struct cca_event *ev)
{
	if (s->mode != GR_SLOW_START || s->cwnd_pkts > s->undo_cwnd_pkts) {
		s->undo_mode = s->mode;
		s->undo_rate_bytes_per_s = s->rate_bytes_per_s;
		s->undo_cwnd_pkts = s->cwnd_pkts;
	}
	s->mode = GR_SLOW_START;
	s->marked_rate_bytes_per_s = 0;
	s->cwnd_pkts = GR_MIN_CWND_PKTS;
	s->rate_bytes_per_s = gr_slow_start_rate(s);
	gr_start_round(s, s->bandwidth.delivered_pkts, s->cwnd_pkts);
	gr_start_interval(s, ev->now_us);
}

CCA_FN void gr_on_undo(struct gr_state *s, const struct cca_event *ev)
{
	if (s->mode != GR_SLOW_START || !s->undo_cwnd_pkts)
		return;
	s->mode = s->undo_mode;
	s->drain_rounds = 0;
	s->cwnd_pkts = s->undo_cwnd_pkts;
	s->undo_cwnd_pkts = 0;
	/* Slow start's rate is recomputed: RTTmin may be new, or smaller than before. */
	s->rate_bytes_per_s = s->mode == GR_SLOW_START ?
		gr_slow_start_rate(s) : s->undo_rate_bytes_per_s;
	gr_start_interval(s, ev->now_us);
}

CCA_FN void gr_on_event(struct gr_state *s, const struct gr_params *p,
			const struct cca_event *ev, struct cca_decision *d)
{
	switch (ev->kind) {
	case CCA_TIMEOUT:
		gr_on_timeout(s, ev);
		break;
	case CCA_UNDO:
		gr_on_undo(s, ev);
		break;
	case CCA_TRANSFER_STARTED:
	case CCA_IDLE_RESTART:
		cca_rate_close(&s->bandwidth);
		break;
	case CCA_RECOVERY_ENTERED:
	case CCA_RECOVERY_LEFT:
		break;
	case CCA_ECN:
		gr_on_ecn(s, p, ev->now_us);
		break;
	}
	gr_decide(s, d);
}

#endif /* CCA_GR_H */
