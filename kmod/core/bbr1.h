/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BBR version 1 (Cardwell et al. 2016, "BBR: Congestion-based congestion
 * control", ACM Queue 14-5; draft-cardwell-iccrg-bbr-congestion-control-00;
 * delivery rates by draft-cheng-iccrg-delivery-rate-estimation-00).
 *
 *   bw      largest delivery rate of 10 round trips, or a policer's rate (bbr1_lt.h)
 *   RTTmin  minimum RTT; PROBE_RTT measures it again when it is 10 s old
 *   pacing  = pacing_gain bw 99 %
 *   cwnd    = cwnd_gain bw RTTmin + ACK aggregation + 3 send quanta
 *
 *   STARTUP --pipe full--> DRAIN --in flight <= bw RTTmin--> PROBE_BW
 *   PROBE_RTT: from any state, when RTTmin is old. It leads back to PROBE_BW, or to
 *              STARTUP if the pipe was never full.
 *
 *   STARTUP    Both gains are 2/ln 2. The pipe is full when bw grew by less than 25 %
 *              in 3 round trips.
 *   DRAIN      The pacing gain is ln 2 / 2.
 *   PROBE_BW   The pacing gains are 1.25, 0.75, 1, 1, 1, 1, 1, 1, for RTTmin each; with
 *              another number of cycle_phases, the 1 is repeated less or more often. The
 *              first continues until 1.25 BDP are in flight or a packet is lost. The
 *              second ends early if the queue is empty. The cycle starts at a random
 *              gain, except 0.75.
 *   PROBE_RTT  4 packets in flight, for 200 ms and a round trip
 *
 * Recovery: for one round trip cwnd follows the delivered packets (packet conservation).
 * Then it grows by the delivered packets. At the end of the recovery the earlier cwnd is
 * restored. Losses do not slow BBR down otherwise, unless they look like a policer's.
 *
 * DEVIATION from the draft, as in later published versions and in Linux:
 *   - The pacing rate is 1 % below bw.
 *   - ACK aggregation increases cwnd (estimated as in draft-ietf-ccwg-bbr-06, section
 *     5.5.9).
 *   - RTTmin is renewed only by a smaller RTT, not by an equal one. If it is old, any RTT
 *     renews it, except that of a single packet, whose ACK may have been delayed.
 *   - An idle time is not followed by PROBE_RTT.
 */
#ifndef CCA_BBR1_H
#define CCA_BBR1_H

#include "bbr1_model.h"

/* --- the states -------------------------------------------------------------------- */

/* Whether the current phase of PROBE_BW's cycle is over. */
CCA_FN bool bbr1_phase_is_over(const struct bbr1_state *s, const struct bbr1_params *p,
			       const struct cca_ack *ack)
{
	bool lasted = cca_elapsed_us(ack->now_us, s->phase_start_us) > s->min_rtt_us;
	u32 gain = bbr1_pacing_gain(s, p);
	u64 bytes_per_s = cca_max_of(&s->bandwidth);
	u32 inflight_pkts = cca_prior_inflight(ack);

	if (gain > BBR1_UNIT)
		return lasted && (ack->lost_pkts ||
				  inflight_pkts >= bbr1_inflight_pkts(s, bytes_per_s, gain));
	if (gain < BBR1_UNIT)
		return lasted || inflight_pkts <= bbr1_inflight_pkts(s, bytes_per_s, BBR1_UNIT);
	return lasted;
}

CCA_FN void bbr1_cycle(struct bbr1_state *s, const struct bbr1_params *p,
		       const struct cca_ack *ack)
{
	if (s->mode != BBR1_PROBE_BW || !bbr1_phase_is_over(s, p, ack))
		return;
	s->phase = (u8)((s->phase + 1u) % bbr1_phases(p));
	s->phase_start_us = ack->now_us;
}

CCA_FN void bbr1_check_full(struct bbr1_state *s, const struct cca_ack *ack)
{
	u64 bytes_per_s = cca_max_of(&s->bandwidth);

	if (s->full || !s->round_started || bbr1_is_limited(s, ack))
		return;
	if (bytes_per_s >= cca_share(s->full_bytes_per_s, BBR1_FULL_GROWTH)) {
		s->full_bytes_per_s = bytes_per_s;
		s->full_rounds = 0;
		return;
	}
	s->full = ++s->full_rounds >= BBR1_FULL_ROUNDS;
}

CCA_FN void bbr1_check_drained(struct bbr1_state *s, const struct bbr1_params *p,
			       const struct cca_ack *ack)
{
	if (s->mode == BBR1_STARTUP && s->full)
		s->mode = BBR1_DRAIN;
	if (s->mode == BBR1_DRAIN &&
	    ack->inflight_pkts <= bbr1_inflight_pkts(s, cca_max_of(&s->bandwidth), BBR1_UNIT))
		bbr1_enter_probe_bw(s, p, ack->now_us);
}

CCA_FN void bbr1_end_probe_rtt(struct bbr1_state *s, const struct bbr1_params *p, u64 now_us)
{
	if (!s->probe_rtt_end_us || now_us <= s->probe_rtt_end_us)
		return;
	s->min_rtt_at_us = now_us;
	bbr1_restore_cwnd(s);
	if (s->full)
		bbr1_enter_probe_bw(s, p, now_us);
	else
		s->mode = BBR1_STARTUP;
}

CCA_FN void bbr1_probe_rtt(struct bbr1_state *s, const struct bbr1_params *p,
			   const struct cca_ack *ack)
{
	bbr1_hold_back_samples(s);
	if (!s->probe_rtt_end_us) {
		if (ack->inflight_pkts > BBR1_MIN_CWND_PKTS)
			return;
		s->probe_rtt_end_us = ack->now_us + (u64)p->probe_rtt_ms * CCA_USEC_PER_MSEC;
		s->probe_rtt_round_done = false;
		bbr1_start_round(s);
		return;
	}
	if (s->round_started)
		s->probe_rtt_round_done = true;
	if (s->probe_rtt_round_done)
		bbr1_end_probe_rtt(s, p, ack->now_us);
}

CCA_FN void bbr1_update_min_rtt(struct bbr1_state *s, const struct bbr1_params *p,
				const struct cca_ack *ack)
{
	u32 rtt_us = cca_min_u32(ack->rtt_us, CCA_MAX_RTT_US);
	bool old = s->min_rtt_us && cca_elapsed_us(ack->now_us, s->min_rtt_at_us) >
				    (u64)p->min_rtt_window_ms * CCA_USEC_PER_MSEC;
	bool lone = ack->rate_pkts == 1;

	if (rtt_us && (!s->min_rtt_us || rtt_us < s->min_rtt_us || (old && !lone))) {
		s->min_rtt_us = rtt_us;
		s->min_rtt_at_us = ack->now_us;
	}
	if (old && !s->idle_restart && s->mode != BBR1_PROBE_RTT) {
		bbr1_save_cwnd(s);
		s->mode = BBR1_PROBE_RTT;
		s->probe_rtt_end_us = 0;
	}
	if (s->mode == BBR1_PROBE_RTT)
		bbr1_probe_rtt(s, p, ack);
	if (ack->acked_pkts)
		s->idle_restart = false;
}

/* --- pacing rate and cwnd ----------------------------------------------------------- */

CCA_FN void bbr1_set_pacing(struct bbr1_state *s, const struct bbr1_params *p, u32 gain_permille)
{
	u64 rate = cca_share(bbr1_bandwidth(s), gain_permille);

	rate = cca_share(rate, BBR1_UNIT - cca_min_u32(p->pacing_margin_permille, BBR1_UNIT));
	/* Until the pipe is full, the rate can only rise: a small sample is no sign of a limit. */
	if (rate && (s->full || rate > s->pacing_bytes_per_s))
		s->pacing_bytes_per_s = rate;
}

/* The pacing rate before the bandwidth is known: STARTUP's gain x initial window / RTTmin. */
CCA_FN void bbr1_guess_pacing(struct bbr1_state *s, const struct bbr1_params *p)
{
	u32 rtt_us = s->min_rtt_us ? s->min_rtt_us : BBR1_NO_RTT_US;
	u64 rate = cca_rate_bytes_per_s(s->initial_cwnd_pkts, s->mss_bytes, rtt_us);

	s->pacing_bytes_per_s = cca_max_u64(cca_share(rate, p->startup_gain_permille), 1);
}

CCA_FN void bbr1_set_cwnd(struct bbr1_state *s, const struct bbr1_params *p,
			  const struct cca_ack *ack)
{
	u32 acked_pkts = cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS);
	u32 inflight_pkts = cca_min_u32(ack->inflight_pkts, CCA_MAX_PKTS);
	u32 target_pkts, cwnd_pkts = s->cwnd_pkts;

	if (ack->lost_pkts)
		cwnd_pkts = cwnd_pkts > ack->lost_pkts ? cwnd_pkts - ack->lost_pkts : 1;
	if (s->conserve) {
		s->cwnd_pkts = cca_min_u32(cca_max_u32(cwnd_pkts, inflight_pkts + acked_pkts),
					   CCA_MAX_PKTS);
		return;
	}
	if (acked_pkts) {
		target_pkts = bbr1_bdp_pkts(s, bbr1_bandwidth(s), bbr1_cwnd_gain(s, p));
		target_pkts = bbr1_quantized_pkts(s, target_pkts + bbr1_aggregation_pkts(s));
		if (s->full)
			cwnd_pkts = cca_min_u32(cwnd_pkts + acked_pkts, target_pkts);
		else if (cwnd_pkts < target_pkts ||
			 ack->delivered_pkts - s->start_delivered_pkts < s->initial_cwnd_pkts)
			cwnd_pkts += acked_pkts;
		cwnd_pkts = cca_max_u32(cwnd_pkts, BBR1_MIN_CWND_PKTS);
	}
	if (s->mode == BBR1_PROBE_RTT)
		cwnd_pkts = cca_min_u32(cwnd_pkts, BBR1_MIN_CWND_PKTS);
	s->cwnd_pkts = cca_min_u32(cwnd_pkts, CCA_MAX_PKTS);
}

/* --- for algorithms that use BBR as their base ------------------------------------------ */

/* Sets an upper bound for the pacing rate; 0 removes it. */
CCA_FN void bbr1_cap_pacing(struct bbr1_state *s, u64 bytes_per_s)
{
	s->pacing_cap_bytes_per_s = bytes_per_s;
}

/* Switches the policer detector on or off, and resets it in both cases. */
CCA_FN void bbr1_use_long_term(struct bbr1_state *s, bool on)
{
	bbr1_lt_reset(&s->lt);
	s->lt.off = !on;
}

/* --- entry points ----------------------------------------------------------------------- */

/* hash: any number. It is the seed for the random start of PROBE_BW's cycle. */
CCA_FN void bbr1_init(struct bbr1_state *s, const struct bbr1_params *p,
		      const struct cca_start *start, u32 hash, struct cca_decision *d)
{
	__builtin_memset(s, 0, sizeof(*s));
	s->mode = BBR1_STARTUP;
	s->random = hash;
	s->mss_bytes = cca_clamp_u32(start->mss_bytes, 1, CCA_MAX_MSS_BYTES);
	s->min_rtt_us = cca_min_u32(start->rtt_us, CCA_MAX_RTT_US);
	s->min_rtt_at_us = start->now_us;
	s->train_start_us = start->now_us;
	s->phase_start_us = start->now_us;
	s->cwnd_pkts = cca_clamp_u32(start->cwnd_pkts, BBR1_MIN_CWND_PKTS, CCA_MAX_PKTS);
	s->initial_cwnd_pkts = s->cwnd_pkts;
	s->delivered_pkts = start->delivered_pkts;
	s->start_delivered_pkts = start->delivered_pkts;
	bbr1_start_round(s);
	bbr1_lt_init(&s->lt, start);
	bbr1_guess_pacing(s, p);
	bbr1_decide(s, d);
}

/* A limit on the rate has been lifted. The pipe no longer counts as full, and STARTUP restarts. */
CCA_FN void bbr1_reopen(struct bbr1_state *s)
{
	s->full = false;
	s->full_bytes_per_s = 0;
	s->full_rounds = 0;
	if (s->mode != BBR1_PROBE_RTT)
		s->mode = BBR1_STARTUP;
}

CCA_FN void bbr1_on_ack(struct bbr1_state *s, const struct bbr1_params *p,
			const struct cca_ack *ack, struct cca_decision *d)
{
	bool knew_rtt = s->min_rtt_us != 0;

	s->mss_bytes = cca_clamp_u32(ack->mss_bytes, 1, CCA_MAX_MSS_BYTES);
	s->delivered_pkts = ack->delivered_pkts;
	s->inflight_pkts = cca_min_u32(ack->inflight_pkts, CCA_MAX_PKTS);
	bbr1_update_bandwidth(s, p, ack);
	bbr1_update_aggregation(s, ack);
	bbr1_cycle(s, p, ack);
	bbr1_check_full(s, ack);
	bbr1_check_drained(s, p, ack);
	bbr1_update_min_rtt(s, p, ack);
	if (!knew_rtt && s->min_rtt_us && !cca_max_of(&s->bandwidth))
		bbr1_guess_pacing(s, p);
	bbr1_set_pacing(s, p, bbr1_pacing_gain(s, p));
	bbr1_set_cwnd(s, p, ack);
	bbr1_decide(s, d);
}

CCA_FN void bbr1_on_timeout(struct bbr1_state *s, const struct cca_event *ev)
{
	bbr1_save_cwnd(s);
	s->in_recovery = true;
	s->conserve = false;
	s->full_bytes_per_s = 0;
	s->round_started = true;
	bbr1_lt_on_timeout(&s->lt, ev->now_us, s->delivered_pkts, s->inflight_pkts);
	s->inflight_pkts = 0;
	s->cwnd_pkts = cca_min_u32(ev->inflight_pkts, CCA_MAX_PKTS - 1) + 1;
}

CCA_FN void bbr1_leave_recovery(struct bbr1_state *s)
{
	s->in_recovery = false;
	s->conserve = false;
	bbr1_restore_cwnd(s);
}

CCA_FN void bbr1_on_restart(struct bbr1_state *s, const struct bbr1_params *p, u64 now_us)
{
	s->idle_restart = true;
	s->train_start_us = now_us;
	s->train_pkts = 0;
	if (s->mode == BBR1_PROBE_BW)
		bbr1_set_pacing(s, p, BBR1_UNIT);
	else if (s->mode == BBR1_PROBE_RTT)
		bbr1_end_probe_rtt(s, p, now_us);
}

CCA_FN void bbr1_on_event(struct bbr1_state *s, const struct bbr1_params *p,
			  const struct cca_event *ev, struct cca_decision *d)
{
	switch (ev->kind) {
	case CCA_RECOVERY_ENTERED:
		/* bbr1_set_cwnd() adds the newly delivered packets at the ACK. */
		bbr1_save_cwnd(s);
		s->in_recovery = true;
		s->conserve = true;
		s->cwnd_pkts = cca_clamp_u32(ev->inflight_pkts, 1, CCA_MAX_PKTS);
		bbr1_start_round(s);
		break;
	case CCA_TIMEOUT:
		bbr1_on_timeout(s, ev);
		break;
	case CCA_UNDO:
		s->full_bytes_per_s = 0;
		s->full_rounds = 0;
		bbr1_lt_reset(&s->lt);
		bbr1_leave_recovery(s);
		break;
	case CCA_RECOVERY_LEFT:
		bbr1_leave_recovery(s);
		break;
	case CCA_TRANSFER_STARTED:
	case CCA_IDLE_RESTART:
		bbr1_on_restart(s, p, ev->now_us);
		break;
	case CCA_ECN:
		break;
	}
	bbr1_decide(s, d);
}

#endif /* CCA_BBR1_H */
