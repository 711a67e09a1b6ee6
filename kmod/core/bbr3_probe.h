/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The cycle of BBRv3 (bbr3.h) that probes for bandwidth: draft-ietf-ccwg-bbr-06,
 * section 5.3.3. DOWN --> CRUISE --> REFILL --> UP --> DOWN.
 *
 *   feedback   QUIET, REFILLING, STARTING, PROBED or STOPPING: the part of a probe in
 *              which the packets that are ACKed now were sent. Losses reduce
 *              inflight_long while a probe may have caused them, from UP until a round
 *              trip after it.
 *   UP         raises inflight_long by 1, 2, 4 ... packets per round trip, spread over
 *              the round trip, while the sender uses the whole window
 *
 * Overflow: windows are at most 2^24 packets.
 */
#ifndef CCA_BBR3_PROBE_H
#define CCA_BBR3_PROBE_H

#include "bbr3_model.h"

/* --- states of ProbeBW: section 5.3.3 ----------------------------------------------- */

/*
 * Doubles the packets by which inflight_long grows per round trip, at most to one per
 * ACKed packet. The growth is spread evenly over the window. up_rounds stays a valid shift.
 */
CCA_FN void bbr3_raise_slope(struct bbr3_state *s)
{
	s->up_acked_per_pkt = cca_max_u32(s->cwnd_pkts >> s->up_rounds, 1);
	s->up_rounds = cca_min_u32(s->up_rounds + 1, 30);
}

CCA_FN void bbr3_enter_down(struct bbr3_state *s, const struct bbr3_params *p, u64 now_us)
{
	bbr3_reset_congestion(s);
	s->up_acked_per_pkt = BBR3_NO_LIMIT_PKTS;
	s->rounds_since_probe = cca_draw(&s->random) & 1;
	s->probe_wait_us = ((u64)p->probe_wait_ms + cca_draw(&s->random) % 1000) *
			   CCA_USEC_PER_MSEC;
	s->cycle_start_us = now_us;
	s->feedback = BBR3_STOPPING;
	bbr3_start_round(s);
	s->mode = BBR3_DOWN;
}

CCA_FN void bbr3_enter_refill(struct bbr3_state *s)
{
	bbr3_reset_short(s);
	s->up_rounds = 0;
	s->up_acked_pkts = 0;
	s->probe_cut_short = false;
	s->feedback = BBR3_REFILLING;
	bbr3_start_round(s);
	s->mode = BBR3_REFILL;
}

CCA_FN void bbr3_enter_up(struct bbr3_state *s, const struct cca_ack *ack)
{
	s->probing_sample = true;
	s->feedback = BBR3_STARTING;
	bbr3_start_round(s);
	bbr3_reset_full(s, cca_sampled_rate(ack));
	s->mode = BBR3_UP;
	bbr3_raise_slope(s);
}

CCA_FN bool bbr3_is_time_to_probe(const struct bbr3_state *s, const struct bbr3_params *p,
				  u64 now_us)
{
	return cca_elapsed_us(now_us, s->cycle_start_us) > s->probe_wait_us ||
	       s->rounds_since_probe >= cca_min_u32(bbr3_target_pkts(s), p->probe_wait_rounds);
}

CCA_FN bool bbr3_is_time_to_cruise(const struct bbr3_state *s, const struct bbr3_params *p,
				   const struct cca_ack *ack)
{
	return ack->inflight_pkts <= bbr3_with_headroom_pkts(s, p) &&
	       ack->inflight_pkts <= bbr3_inflight_pkts(s, bbr3_max_bandwidth(s), BBR3_UNIT);
}

CCA_FN bool bbr3_is_time_to_go_down(struct bbr3_state *s, const struct cca_ack *ack)
{
	if (s->probe_too_high && ack->inflight_pkts >= s->long_pkts) {
		s->probe_cut_short = true;
		return true;
	}
	if (ack->cwnd_limited && s->cwnd_pkts >= s->long_pkts) {
		/* inflight_long limits the bandwidth, so the pipe need not be full. */
		bbr3_reset_full(s, cca_sampled_rate(ack));
		return false;
	}
	return s->full_now;
}

CCA_FN void bbr3_handle_too_high(struct bbr3_state *s, const struct bbr3_params *p,
				 const struct bbr3_sample *sample, u64 now_us)
{
	s->probe_too_high = true;
	s->probing_sample = false;	/* once per probe */
	if (!sample->app_limited)
		s->long_pkts = cca_max_u32(sample->tx_inflight_pkts,
					   cca_share_pkts(bbr3_target_pkts(s), p->beta_permille));
	if (s->mode == BBR3_UP) {
		s->undo_mode = BBR3_UP;
		bbr3_enter_down(s, p, now_us);
	}
}

CCA_FN void bbr3_raise_long(struct bbr3_state *s, const struct cca_ack *ack)
{
	u32 rise_pkts;

	if (!ack->cwnd_limited || s->cwnd_pkts < s->long_pkts)
		return;
	/* A remainder below 2^24 plus at most 2^24. */
	s->up_acked_pkts += cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS);
	rise_pkts = s->up_acked_pkts / s->up_acked_per_pkt;
	s->up_acked_pkts %= s->up_acked_per_pkt;
	s->long_pkts = cca_min_u32(s->long_pkts + rise_pkts, CCA_MAX_PKTS);
	if (s->round_started)
		bbr3_raise_slope(s);
}

/* Returns true if it has entered a state. */
CCA_FN bool bbr3_follow_feedback(struct bbr3_state *s, const struct cca_ack *ack)
{
	if (!s->round_started)
		return false;
	if (s->feedback == BBR3_STARTING)
		s->feedback = BBR3_PROBED;
	if (s->feedback != BBR3_STOPPING)
		return false;
	s->probing_sample = false;
	s->feedback = BBR3_QUIET;
	if (!bbr3_is_in_probe_bw(s))
		return false;
	if (!bbr3_is_limited(s, ack))
		bbr3_advance_max_bandwidth(s);
	if (!s->probe_cut_short || s->probe_too_high)
		return false;
	bbr3_enter_refill(s);
	return true;
}

CCA_FN void bbr3_adapt_long(struct bbr3_state *s, const struct bbr3_params *p,
			    const struct cca_ack *ack)
{
	struct bbr3_sample sample = { ack->tx_inflight_pkts, ack->lost_since_pkts, false };

	if (s->long_pkts == BBR3_NO_LIMIT_PKTS || bbr3_is_too_high(p, &sample))
		return;
	s->long_pkts = cca_max_u32(s->long_pkts,
				   cca_min_u32(ack->tx_inflight_pkts, CCA_MAX_PKTS));
	if (s->mode == BBR3_UP)
		bbr3_raise_long(s, ack);
}

CCA_FN void bbr3_cycle(struct bbr3_state *s, const struct bbr3_params *p,
		       const struct cca_ack *ack)
{
	if (!s->full || bbr3_follow_feedback(s, ack))
		return;
	bbr3_adapt_long(s, p, ack);
	switch (s->mode) {
	case BBR3_DOWN:
	case BBR3_CRUISE:
		if (bbr3_is_time_to_probe(s, p, ack->now_us))
			bbr3_enter_refill(s);
		else if (s->mode == BBR3_DOWN && bbr3_is_time_to_cruise(s, p, ack))
			s->mode = BBR3_CRUISE;
		break;
	case BBR3_REFILL:
		if (s->round_started)
			bbr3_enter_up(s, ack);
		break;
	case BBR3_UP:
		if (bbr3_is_time_to_go_down(s, ack)) {
			s->probe_too_high = false;
			bbr3_enter_down(s, p, ack->now_us);
		}
		break;
	default:
		break;
	}
}

#endif /* CCA_BBR3_PROBE_H */
