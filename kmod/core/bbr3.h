/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BBR version 3: draft-ietf-ccwg-bbr-06. UNVALIDATED: no kernel that this project
 * runs has version 3. Another implementation, with which docs/pantheon.md compares it,
 * departs from the draft. The model is in bbr3_model.h, the cycle of ProbeBW in
 * bbr3_probe.h.
 *
 *   pacing = pacing_gain bw 99 %
 *   cwnd   = cwnd_gain bw RTTmin + extra, within inflight_short and inflight_long
 *
 *   STARTUP --> DRAIN --> DOWN --> CRUISE --> REFILL --> UP --> DOWN ...
 *   PROBE_RTT: from any state, every 5 s. It leads back to CRUISE or STARTUP.
 *
 *             pacing  cwnd   until
 *   STARTUP   2.77    2      bw grew by less than 25 % in 3 round trips, or a round
 *                            trip in recovery lost more than 2 %, in at least 6 ACKs
 *   DRAIN     0.5     2      in flight <= bw RTTmin, or more than 3 round trips
 *   DOWN      0.9     2      in flight <= bw RTTmin and <= 85 % of inflight_long
 *   CRUISE    1       2      2 to 3 s since DOWN began; or since the last probe as many
 *                            round trips as packets in bw RTTmin, at most 63
 *   REFILL    1       2      a round trip; bw_short and inflight_short are reset
 *   UP        1.25    2.25   the pipe is full again, or more than 2 % are lost. In the
 *                            second case inflight_long = packets in flight at that loss,
 *                            but at least beta (0.7) of bw RTTmin.
 *   PROBE_RTT 1       0.5    200 ms and a round trip at half of bw RTTmin
 *
 * After a probe with too much loss the next one goes up to inflight_long only. If that
 * one loses no more than 2 %, another probe follows immediately (section 5.3.3.6).
 *
 * Losses are counted per packet. The host reports each with bbr3_on_loss(). With an ACK
 * it provides tx_inflight_pkts and lost_since_pkts of the sampled packet. Linux does not
 * store these numbers without a patch, so a log beside the flow provides them
 * (sent_log.h).
 *
 * DEVIATION: the draft ends Startup at six lost sequence ranges. The contract in cca.h
 * counts packets, so here six ACKs must report losses.
 * DEVIATION: the draft interpolates within the packet whose loss crosses the threshold,
 * because a packet is a burst there. Here it is a single segment, and the number in
 * flight before that packet is used.
 */
#ifndef CCA_BBR3_H
#define CCA_BBR3_H

#include "bbr3_probe.h"

/* --- Startup, Drain, ProbeRTT: sections 5.3.1, 5.3.2, 5.3.4 ------------------------------ */

/* Ends STARTUP after too much loss. Decides at the end of a round trip that began with a loss. */
CCA_FN void bbr3_check_startup_loss(struct bbr3_state *s, const struct bbr3_params *p,
				    const struct cca_ack *ack)
{
	struct bbr3_sample sample = { ack->tx_inflight_pkts, ack->lost_since_pkts, false };

	if (!s->loss_round_started)
		return;
	if (s->in_recovery && s->round_loss_events >= p->startup_loss_events &&
	    bbr3_is_too_high(p, &sample)) {
		s->undo_mode = BBR3_STARTUP;
		s->full = true;
		s->long_pkts = cca_max_u32(bbr3_bdp_pkts(s, bbr3_bandwidth(s), BBR3_UNIT),
					   s->latest_pkts);
	}
	s->round_loss_events = 0;
}

CCA_FN void bbr3_check_startup(struct bbr3_state *s, const struct bbr3_params *p,
			       const struct cca_ack *ack)
{
	if (s->mode != BBR3_STARTUP)
		return;
	if (!s->full)
		bbr3_check_startup_loss(s, p, ack);
	if (s->full) {
		s->mode = BBR3_DRAIN;
		s->drain_start_round = s->rounds;
	}
}

CCA_FN void bbr3_check_drained(struct bbr3_state *s, const struct bbr3_params *p,
			       const struct cca_ack *ack)
{
	if (s->mode == BBR3_DRAIN &&
	    (ack->inflight_pkts <= bbr3_inflight_pkts(s, bbr3_bandwidth(s), BBR3_UNIT) ||
	     s->rounds - s->drain_start_round > 3))
		bbr3_enter_down(s, p, ack->now_us);
}

CCA_FN void bbr3_end_probe_rtt(struct bbr3_state *s, const struct bbr3_params *p, u64 now_us)
{
	if (!s->probe_rtt_end_us || now_us <= s->probe_rtt_end_us)
		return;
	s->probe_rtt_at_us = now_us;
	bbr3_restore_cwnd(s);
	bbr3_reset_short(s);
	if (s->full) {
		bbr3_enter_down(s, p, now_us);
		s->mode = BBR3_CRUISE;
	} else {
		s->mode = BBR3_STARTUP;
	}
}

CCA_FN void bbr3_update_min_rtt(struct bbr3_state *s, const struct bbr3_params *p,
				const struct cca_ack *ack)
{
	u32 rtt_us = cca_min_u32(ack->rtt_us, CCA_MAX_RTT_US);

	s->probe_rtt_due = s->probe_min_rtt_us && cca_elapsed_us(ack->now_us, s->probe_rtt_at_us) >
			   (u64)p->probe_rtt_interval_ms * CCA_USEC_PER_MSEC;
	if (rtt_us && (!s->probe_min_rtt_us || rtt_us < s->probe_min_rtt_us || s->probe_rtt_due)) {
		s->probe_min_rtt_us = rtt_us;
		s->probe_rtt_at_us = ack->now_us;
	}
	if (s->probe_min_rtt_us &&
	    (!s->min_rtt_us || s->probe_min_rtt_us < s->min_rtt_us ||
	     cca_elapsed_us(ack->now_us, s->min_rtt_at_us) >
	     (u64)p->min_rtt_window_ms * CCA_USEC_PER_MSEC)) {
		s->min_rtt_us = s->probe_min_rtt_us;
		s->min_rtt_at_us = s->probe_rtt_at_us;
	}
}

CCA_FN void bbr3_probe_rtt(struct bbr3_state *s, const struct bbr3_params *p,
			   const struct cca_ack *ack)
{
	bbr3_hold_back_samples(s);
	if (!s->probe_rtt_end_us) {
		if (ack->inflight_pkts > bbr3_probe_rtt_pkts(s))
			return;
		s->probe_rtt_end_us = ack->now_us + (u64)p->probe_rtt_ms * CCA_USEC_PER_MSEC;
		s->probe_rtt_round_done = false;
		bbr3_start_round(s);
		return;
	}
	if (s->round_started)
		s->probe_rtt_round_done = true;
	if (s->probe_rtt_round_done)
		bbr3_end_probe_rtt(s, p, ack->now_us);
}

CCA_FN void bbr3_check_probe_rtt(struct bbr3_state *s, const struct bbr3_params *p,
				 const struct cca_ack *ack)
{
	if (s->mode != BBR3_PROBE_RTT && s->probe_rtt_due && !s->idle_restart) {
		bbr3_save_cwnd(s);
		s->mode = BBR3_PROBE_RTT;
		s->probe_rtt_end_us = 0;
		s->feedback = BBR3_STOPPING;
		bbr3_start_round(s);
	}
	if (s->mode == BBR3_PROBE_RTT)
		bbr3_probe_rtt(s, p, ack);
	if (ack->acked_pkts)
		s->idle_restart = false;
}

/* --- pacing rate and cwnd: section 5.6 ---------------------------------------------------- */

CCA_FN u32 bbr3_pacing_gain(const struct bbr3_state *s, const struct bbr3_params *p)
{
	switch (s->mode) {
	case BBR3_STARTUP:
		return p->startup_gain_permille;
	case BBR3_DRAIN:
		return p->drain_gain_permille;
	case BBR3_DOWN:
		return p->probe_down_permille;
	case BBR3_UP:
		return p->probe_up_permille;
	default:
		return BBR3_UNIT;
	}
}

CCA_FN u32 bbr3_cwnd_gain(const struct bbr3_state *s, const struct bbr3_params *p)
{
	if (s->mode == BBR3_PROBE_RTT)
		return BBR3_UNIT / 2;
	return p->cwnd_gain_permille + (s->mode == BBR3_UP ? BBR3_UNIT / 4 : 0);
}

CCA_FN void bbr3_set_pacing(struct bbr3_state *s, const struct bbr3_params *p, u32 gain_permille)
{
	u64 rate = cca_share(bbr3_bandwidth(s), gain_permille);

	rate = cca_share(rate, BBR3_UNIT - cca_min_u32(p->pacing_margin_permille, BBR3_UNIT));
	/* Until the pipe is full, the rate can only rise: a small sample is no sign of a limit. */
	if (rate && (s->full || rate > s->pacing_bytes_per_s))
		s->pacing_bytes_per_s = rate;
}

CCA_FN void bbr3_guess_pacing(struct bbr3_state *s, const struct bbr3_params *p)
{
	u32 rtt_us = s->min_rtt_us ? s->min_rtt_us : BBR3_NO_RTT_US;
	u64 rate = cca_rate_bytes_per_s(s->initial_cwnd_pkts, s->mss_bytes, rtt_us);

	s->pacing_bytes_per_s = cca_max_u64(cca_share(rate, p->startup_gain_permille), 1);
}

CCA_FN u32 bbr3_cap_pkts(const struct bbr3_state *s, const struct bbr3_params *p)
{
	u32 cap_pkts = BBR3_NO_LIMIT_PKTS;

	if (s->mode == BBR3_PROBE_RTT || s->mode == BBR3_CRUISE)
		cap_pkts = bbr3_with_headroom_pkts(s, p);
	else if (bbr3_is_in_probe_bw(s))
		cap_pkts = s->long_pkts;
	return cca_max_u32(cca_min_u32(cap_pkts, s->short_pkts), BBR3_MIN_CWND_PKTS);
}

CCA_FN void bbr3_set_cwnd(struct bbr3_state *s, const struct bbr3_params *p,
			  const struct cca_ack *ack)
{
	u32 target_pkts = bbr3_bdp_pkts(s, bbr3_bandwidth(s), bbr3_cwnd_gain(s, p));
	u32 grown_pkts = s->cwnd_pkts + cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS);

	target_pkts = bbr3_quantized_pkts(s, target_pkts + (u32)cca_max_of(&s->extra));
	if (s->full)
		s->cwnd_pkts = cca_min_u32(grown_pkts, target_pkts);
	else if (s->cwnd_pkts < target_pkts ||
		 ack->delivered_pkts - s->start_delivered_pkts < s->initial_cwnd_pkts)
		s->cwnd_pkts = grown_pkts;
	s->cwnd_pkts = cca_clamp_u32(s->cwnd_pkts, BBR3_MIN_CWND_PKTS, CCA_MAX_PKTS);
	if (s->mode == BBR3_PROBE_RTT)
		s->cwnd_pkts = cca_min_u32(s->cwnd_pkts, bbr3_probe_rtt_pkts(s));
	s->cwnd_pkts = cca_min_u32(s->cwnd_pkts, bbr3_cap_pkts(s, p));
}

CCA_FN void bbr3_decide(const struct bbr3_state *s, struct cca_decision *d)
{
	d->cwnd_pkts = s->cwnd_pkts;
	d->pacing_bytes_per_s = s->pacing_bytes_per_s;
}

/* --- entry points ---------------------------------------------------------------------------- */

/* hash: any number. It is the seed for the random time between probes. */
CCA_FN void bbr3_init(struct bbr3_state *s, const struct bbr3_params *p,
		      const struct cca_start *start, u32 hash, struct cca_decision *d)
{
	__builtin_memset(s, 0, sizeof(*s));
	s->mode = BBR3_STARTUP;
	s->undo_mode = BBR3_NO_MODE;
	s->random = hash;
	s->mss_bytes = cca_clamp_u32(start->mss_bytes, 1, CCA_MAX_MSS_BYTES);
	s->min_rtt_us = cca_min_u32(start->rtt_us, CCA_MAX_RTT_US);
	s->probe_min_rtt_us = s->min_rtt_us;
	s->min_rtt_at_us = start->now_us;
	s->probe_rtt_at_us = start->now_us;
	s->train_start_us = start->now_us;
	s->cycle_start_us = start->now_us;
	s->long_pkts = BBR3_NO_LIMIT_PKTS;
	s->up_acked_per_pkt = BBR3_NO_LIMIT_PKTS;
	s->cwnd_pkts = cca_clamp_u32(start->cwnd_pkts, BBR3_MIN_CWND_PKTS, CCA_MAX_PKTS);
	s->initial_cwnd_pkts = s->cwnd_pkts;
	s->delivered_pkts = start->delivered_pkts;
	s->start_delivered_pkts = start->delivered_pkts;
	s->loss_round_end_pkts = start->delivered_pkts;
	bbr3_reset_short(s);
	bbr3_save_model(s);
	bbr3_start_round(s);
	bbr3_guess_pacing(s, p);
	bbr3_decide(s, d);
}

CCA_FN void bbr3_on_loss(struct bbr3_state *s, const struct bbr3_params *p,
			 const struct cca_loss *loss)
{
	struct bbr3_sample sample = { loss->tx_inflight_pkts, loss->lost_since_pkts,
				      loss->app_limited != 0 };

	s->delivered_pkts = loss->delivered_pkts;
	bbr3_note_loss(s, loss->delivered_pkts);
	if (!s->probing_sample || !loss->tx_inflight_pkts || !bbr3_is_too_high(p, &sample))
		return;
	sample.tx_inflight_pkts = bbr3_inflight_at_loss(&sample);
	bbr3_handle_too_high(s, p, &sample, loss->now_us);
}

/* A limit on the rate has been lifted. The bounds and the full pipe are reset; STARTUP restarts. */
CCA_FN void bbr3_reopen(struct bbr3_state *s)
{
	s->full = false;
	bbr3_reset_full(s, 0);
	bbr3_reset_short(s);
	s->long_pkts = BBR3_NO_LIMIT_PKTS;
	if (s->mode != BBR3_PROBE_RTT)
		s->mode = BBR3_STARTUP;
}

CCA_FN void bbr3_on_ack(struct bbr3_state *s, const struct bbr3_params *p,
			const struct cca_ack *ack, struct cca_decision *d)
{
	bool knew_rtt = s->min_rtt_us != 0;

	s->mss_bytes = cca_clamp_u32(ack->mss_bytes, 1, CCA_MAX_MSS_BYTES);
	s->delivered_pkts = ack->delivered_pkts;
	s->inflight_pkts = cca_min_u32(ack->inflight_pkts, CCA_MAX_PKTS);
	if (ack->lost_pkts) {
		bbr3_note_loss(s, ack->delivered_pkts);
		s->round_loss_events++;
	}
	bbr3_update_latest(s, ack);
	bbr3_update_congestion(s, p, ack);
	bbr3_update_aggregation(s, ack);
	bbr3_check_full(s, ack);
	bbr3_check_startup(s, p, ack);
	bbr3_check_drained(s, p, ack);
	bbr3_cycle(s, p, ack);
	bbr3_update_min_rtt(s, p, ack);
	bbr3_check_probe_rtt(s, p, ack);
	bbr3_advance_latest(s, ack);
	if (!knew_rtt && s->min_rtt_us && !bbr3_max_bandwidth(s))
		bbr3_guess_pacing(s, p);
	bbr3_set_pacing(s, p, bbr3_pacing_gain(s, p));
	bbr3_set_cwnd(s, p, ack);
	bbr3_decide(s, d);
}

/* Section 5.5.11: the losses were spurious. */
CCA_FN void bbr3_on_undo(struct bbr3_state *s)
{
	s->in_recovery = false;
	bbr3_restore_cwnd(s);
	s->lost_in_round = false;
	bbr3_reset_full(s, 0);
	s->short_bytes_per_s = cca_max_u64(s->short_bytes_per_s, s->undo_short_bytes_per_s);
	s->short_pkts = cca_max_u32(s->short_pkts, s->undo_short_pkts);
	s->long_pkts = cca_max_u32(s->long_pkts, s->undo_long_pkts);
	if (s->undo_mode == BBR3_STARTUP && s->mode != BBR3_STARTUP) {
		s->full = false;
		if (s->mode != BBR3_PROBE_RTT)
			s->mode = BBR3_STARTUP;
	} else if (s->undo_mode == BBR3_UP && s->mode != BBR3_UP && s->mode != BBR3_PROBE_RTT) {
		bbr3_enter_refill(s);
	}
	s->undo_mode = BBR3_NO_MODE;
}

CCA_FN void bbr3_on_restart(struct bbr3_state *s, const struct bbr3_params *p, u64 now_us)
{
	s->idle_restart = true;
	s->train_start_us = now_us;
	s->train_pkts = 0;
	if (bbr3_is_in_probe_bw(s))
		bbr3_set_pacing(s, p, BBR3_UNIT);
	else if (s->mode == BBR3_PROBE_RTT)
		bbr3_end_probe_rtt(s, p, now_us);
}

CCA_FN void bbr3_on_event(struct bbr3_state *s, const struct bbr3_params *p,
			  const struct cca_event *ev, struct cca_decision *d)
{
	switch (ev->kind) {
	case CCA_RECOVERY_ENTERED:
		bbr3_save_cwnd(s);
		s->in_recovery = true;
		break;
	case CCA_TIMEOUT:
		bbr3_save_cwnd(s);
		s->in_recovery = true;
		s->cwnd_pkts = cca_min_u32(ev->inflight_pkts, CCA_MAX_PKTS - 1) + 1;
		break;
	case CCA_UNDO:
		bbr3_on_undo(s);
		break;
	case CCA_RECOVERY_LEFT:
		s->in_recovery = false;
		bbr3_restore_cwnd(s);
		break;
	case CCA_TRANSFER_STARTED:
	case CCA_IDLE_RESTART:
		bbr3_on_restart(s, p, ev->now_us);
		break;
	case CCA_ECN:
		break;
	}
	bbr3_decide(s, d);
}

#endif /* CCA_BBR3_H */
