/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * ROCCET (Prause and Akselrod 2025, "TCP ROCCET: An RTT-Oriented CUBIC Congestion
 * Control Extension for 5G and Beyond Networks"): CUBIC (cubic.h) that also takes
 * round trips that grow, with ACKs that stay away, for congestion. Sections,
 * equations and figures below are the paper's.
 *
 *   x_t     = (RTT_curr - RTT_min) / RTT_min                             (eq. 2)
 *   srRTT_t = alpha x_t + (1 - alpha) srRTT_t-1                          (eq. 2)
 *     RTT_curr  smoothed RTT (RFC 6298: 1/8 of each sample); RTT_min least sample
 *   cum_cwnd  sum of the windows of an interval's round trips; recv ACKs: the
 *             segments that were ACKed in it                        (section IV)
 *
 * Fig. 3, for every ACK:
 *
 *   update()
 *   in slow start? -- yes: LAUNCH
 *     srRTT >= 100 %, and recv ACKs - cum_cwnd >= 10 segments, in 100 ms?
 *       no:  CUBIC congestion control
 *       yes: initial slow start? yes: cwnd = cwnd / 2, ssthresh = cwnd
 *                                no:  CUBIC CE
 *   in slow start? -- no: ORBITER
 *     in drain?                                        yes: return
 *     last check 5 RTT ago?                            no:  CUBIC congestion control
 *     srRTT >= 100 %?                                  no:  CUBIC congestion control
 *     cum_cwnd - recv ACKs > 20 % cum_cwnd?            no:  CUBIC congestion control
 *                                                      yes: ROCCET CE
 *
 *   CUBIC CE   as behind a loss: cwnd = ssthresh = beta cwnd, W_max = cwnd, less by
 *              fast convergence (cubic_ssthresh)
 *   ROCCET CE  cwnd = ssthresh = beta cwnd, W_max only raised; then the drain: for
 *              100 ms the window neither grows nor is looked at
 *   loss       in slow start ignored, else a CUBIC CE, asked for by the host
 *
 * beta is RFC 9438's: the share that is left (eq. 1 means what is taken away).
 *
 * Where text and figure differ:
 *   sign     in LAUNCH the figure asks for ACKs beyond cum_cwnd, in ORBITER for ACKs
 *            short of it; the text speaks of a difference, and of a deviation. By
 *            default ACKs have to fall short, in both (ack_sense 0): a queue that
 *            grows holds ACKs back. Beyond the windows they are only where a window
 *            was cut below a BDP while the queue of the old one drains. The figure's
 *            LAUNCH (1) therefore goes on until the buffer overflows, and either sign
 *            (2) takes what a cut has set right for congestion.
 *   limits   "more than" 100 % and ten segments in the text, "at least" in the
 *            figure, which is the formula. The text alone adds the jitter.
 *   RTT_min  "the measured minimum sRTT", then of "each ACK RTT": of each ACK.
 *
 * What the paper leaves open, and what we chose:
 *   rounds   cum_cwnd adds the window at the start of a round trip, once each: with
 *            no queue that is what the round trip's ACKs are for. A round trip is
 *            RTT_min here (round_rtt 0). With the smoothed RTT (1) a sender that is
 *            clocked by its ACKs gets cum_cwnd back however long its queue, and only
 *            a window that is not used would count. Section IX, though, has CEs of
 *            windows that probe, and windows as large as BBR's, two BDP.
 *   5 RTT    of the smoothed RTT, so that a CE shows before the next check.
 *   alpha    1/8 an ACK, from 0 on: no value is given.
 *   jitter   of RTT samples that follow each other, by RFC 3550 section 6.4.1 (1/16):
 *            a queue that grows adds little to it, unlike to RFC 6298's RTTVAR. Its
 *            share of RTT_min is added to ORBITER's bound (section IV).
 *   W_max    is left alone when the initial slow start ends: there was no CE.
 *   initial  is the slow start until it is left; a loss that is ignored, also one that
 *            a timeout found, does not begin another.
 *   recovery the host has the window: nothing is looked at, and the interval begins
 *            anew behind it, as behind silence and a change of phase. Not so where
 *            the loss is ignored: losses may follow each other without end, so the
 *            threshold then stands for the window, and is what an event reduces.
 *   loss in  the drain: a CUBIC CE, like any. What ROCCET took is no loss that an
 *            undo could give back.
 *   options  of section XI: srrtt_bound_pct, ack_tolerance_pct; ignore_loss, in
 *            ORBITER too; min_rtt_age_ms (10 000 there; off by default, as in
 *            section IV) with alpha as the weight. Growth with C, Reno's region and
 *            fast convergence are CUBIC's. HyStart is off (sections III, VI).
 *
 * DEVIATION: an interval ends with the first round trip that ends when its time is
 * over, so that ACKs and windows are of the same whole round trips.
 * DEVIATION: a slow start whose recovery lost more than ack_tolerance_pct of its
 * segments ends as LAUNCH ends it. Behind a buffer shorter than a BDP srRTT does not
 * reach 100 %: slow start would grow into what drops a quarter of it, for ever.
 */
#ifndef CCA_ROCCET_H
#define CCA_ROCCET_H

#include "roccet_model.h"

/* --- what follows ----------------------------------------------------------------- */

/* The window that a slow start leaves which ends at w. */
CCA_FN u32 roccet_left_pkts(struct roccet_state *s, const struct roccet_params *p,
			    struct cca_window *w)
{
	struct cubic_params cubic;
	u32 before_pkts = cca_min_u32(w->cwnd_pkts, CCA_MAX_PKTS);
	bool is_initial = !s->launched;

	s->launched = true;
	s->launches++;
	s->held_ssthresh_pkts = 0;
	s->cubic.in_epoch = false;
	s->cubic.prior_cwnd_pkts = before_pkts;
	w->credit_pkts = 0;
	if (is_initial)
		return cca_max_u32(before_pkts / 2, CUBIC_MIN_CWND_PKTS);
	roccet_cubic_params(p, &cubic);
	return cubic_ssthresh(&s->cubic, &cubic, w);
}

/* Not for a loss: there is nothing that an undo could give back. */
CCA_FN void roccet_reduce(struct roccet_state *s, struct cca_window *w, u32 cwnd_pkts)
{
	w->cwnd_pkts = cwnd_pkts;
	w->ssthresh_pkts = cwnd_pkts;
	w->credit_pkts = 0;
	s->cubic.prior_cwnd_pkts = cwnd_pkts;
}

CCA_FN void roccet_congestion_event(struct roccet_state *s, const struct roccet_params *p,
				    struct cca_window *w, u64 now_us)
{
	u32 cwnd_pkts = cca_min_u32(w->cwnd_pkts, CCA_MAX_PKTS);

	s->cubic.w_max_pkts = cca_max_u32(s->cubic.w_max_pkts, cwnd_pkts);
	s->cubic.in_epoch = false;
	roccet_reduce(s, w, cca_max_u32(cca_share_pkts(cwnd_pkts, p->beta_permille),
					CUBIC_MIN_CWND_PKTS));
	s->drains = true;
	s->drain_start_us = now_us;
	s->events++;
}

/* LAUNCH, at the end of a round trip; true: its interval is over. */
CCA_FN bool roccet_launch(struct roccet_state *s, const struct roccet_params *p, u64 now_us,
			  struct cca_window *w)
{
	if (cca_elapsed_us(now_us, s->interval_start_us) < p->launch_interval_us)
		return false;
	if (roccet_rtt_rose(s, p, false) &&
	    roccet_difference_q8(s, p) >= (u64)p->launch_deficit_pkts << 8)
		roccet_reduce(s, w, roccet_left_pkts(s, p, w));
	return true;
}

/* ORBITER, likewise. Overflow: 2^48 x 100, and at most 1000 round trips of 2^27 us. */
CCA_FN bool roccet_orbit(struct roccet_state *s, const struct roccet_params *p, u64 now_us,
			 struct cca_window *w)
{
	if (s->drains || cca_elapsed_us(now_us, s->interval_start_us) <
			 (u64)p->orbiter_rtts * roccet_srtt_us(s))
		return false;
	if (roccet_rtt_rose(s, p, true) &&
	    roccet_difference_q8(s, p) * 100 > s->windows_q8 * p->ack_tolerance_pct)
		roccet_congestion_event(s, p, w, now_us);
	return true;
}

/* --- losses in slow start ----------------------------------------------------------- */

CCA_FN void roccet_count_episode(struct roccet_state *s, const struct cca_ack *ack)
{
	s->episode_acked_pkts = cca_min_u32(s->episode_acked_pkts, CCA_MAX_PKTS) +
				cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS);
	s->episode_lost_pkts = cca_min_u32(s->episode_lost_pkts, CCA_MAX_PKTS) +
			       cca_min_u32(ack->lost_pkts, CCA_MAX_PKTS);
}

/* More than a share that chance could have. Overflow: 2^26 x 100. */
CCA_FN bool roccet_lost_much(const struct roccet_state *s, const struct roccet_params *p)
{
	u64 sent_pkts = (u64)s->episode_acked_pkts + s->episode_lost_pkts;

	return !p->ignore_loss &&
	       (u64)s->episode_lost_pkts * 100 > sent_pkts * p->ack_tolerance_pct;
}

/* Behind the episode slow start goes on, or ends at the window that the episode began with. */
CCA_FN void roccet_settle(struct roccet_state *s, const struct roccet_params *p,
			  struct cca_window *w)
{
	u32 cwnd_pkts = w->cwnd_pkts;

	if (roccet_lost_much(s, p)) {
		w->cwnd_pkts = cca_max_u32(w->cwnd_pkts, w->ssthresh_pkts);
		w->ssthresh_pkts = roccet_left_pkts(s, p, w);
		w->cwnd_pkts = cca_min_u32(cwnd_pkts, w->ssthresh_pkts);
	} else {
		w->ssthresh_pkts = cca_max_u32(w->ssthresh_pkts, s->held_ssthresh_pkts);
	}
	s->held_ssthresh_pkts = 0;
}

/*
 * The host takes the threshold for the window behind its recovery: the window
 * itself, so that it stays. Slow start's own is held for roccet_settle().
 */
CCA_FN u32 roccet_ignore_loss(struct roccet_state *s, const struct cca_window *w)
{
	u32 cwnd_pkts = cca_clamp_u32(w->cwnd_pkts, CUBIC_MIN_CWND_PKTS, CCA_MAX_PKTS);

	if (!s->held_ssthresh_pkts && w->cwnd_pkts < w->ssthresh_pkts) {
		s->held_ssthresh_pkts = w->ssthresh_pkts;
		s->episode_acked_pkts = 0;
		s->episode_lost_pkts = 0;
	}
	s->cubic.prior_cwnd_pkts = cwnd_pkts;
	s->ignores = true;
	return cwnd_pkts;
}

/* --- entry points --------------------------------------------------------------------- */

CCA_FN void roccet_init(struct roccet_state *s, const struct roccet_params *p,
			const struct cca_start *start)
{
	struct cubic_params cubic;

	roccet_cubic_params(p, &cubic);
	cubic_init(&s->cubic, &cubic, start);
	s->min_rtt_at_us = start->now_us;
	s->interval_start_us = start->now_us;
	s->drain_start_us = start->now_us;
	s->windows_q8 = 0;
	s->acked_q8 = 0;
	s->min_rtt_us = 0;
	s->srtt_us_q3 = 0;
	s->last_rtt_us = 0;
	s->jitter_us_q4 = 0;
	s->srrtt_q16 = 0;
	s->held_ssthresh_pkts = 0;
	s->episode_acked_pkts = 0;
	s->episode_lost_pkts = 0;
	s->launches = 0;
	s->events = 0;
	s->phase = ROCCET_NO_PHASE;
	s->launched = false;
	s->in_recovery = false;
	s->ignores = false;
	s->drains = false;
	roccet_start_round(s, start->now_us, start->cwnd_pkts);
	roccet_sample_rtt(s, p, start->now_us, start->rtt_us);
}

/* w: the window, or what stands for it. */
CCA_FN void roccet_look(struct roccet_state *s, const struct roccet_params *p,
			const struct cca_ack *ack, struct cca_window *w)
{
	bool is_over;

	if (!roccet_in_slow_start(s, w))
		s->launched = true;
	if (s->phase != (roccet_in_slow_start(s, w) ? ROCCET_LAUNCH : ROCCET_ORBITER)) {
		roccet_start_interval(s, ack->now_us, w);
		return;
	}
	if (!roccet_count(s, p, ack, w->cwnd_pkts))
		return;
	is_over = s->phase == ROCCET_LAUNCH ? roccet_launch(s, p, ack->now_us, w) :
					      roccet_orbit(s, p, ack->now_us, w);
	if (is_over)
		roccet_start_interval(s, ack->now_us, w);
}

CCA_FN void roccet_look_in_recovery(struct roccet_state *s, const struct roccet_params *p,
				    const struct cca_ack *ack, struct cca_window *w)
{
	struct cca_window seen = *w;

	roccet_count_episode(s, ack);
	if (!s->ignores)
		return;
	seen.cwnd_pkts = w->ssthresh_pkts;
	roccet_look(s, p, ack, &seen);
	w->ssthresh_pkts = seen.cwnd_pkts;
}

/* Fig. 3 down to "CUBIC congestion control", which the host asks for by roccet_grow(). */
CCA_FN void roccet_on_ack(struct roccet_state *s, const struct roccet_params *p,
			  const struct cca_ack *ack, struct cca_window *w)
{
	struct cubic_params cubic;

	roccet_cubic_params(p, &cubic);
	cubic_on_ack(&s->cubic, &cubic, ack, w);
	roccet_sample_rtt(s, p, ack->now_us, ack->rtt_us);
	if (s->drains)
		s->drains = cca_elapsed_us(ack->now_us, s->drain_start_us) < p->drain_us;
	if (s->in_recovery) {
		roccet_look_in_recovery(s, p, ack, w);
		return;
	}
	if (s->held_ssthresh_pkts)
		roccet_settle(s, p, w);
	roccet_look(s, p, ack, w);
}

/* Not before the next ACK has settled a slow start whose threshold is held. */
CCA_FN void roccet_grow(struct roccet_state *s, const struct roccet_params *p,
			struct cca_window *w, u32 acked_pkts)
{
	struct cubic_params cubic;

	if (s->drains || s->held_ssthresh_pkts)
		return;
	roccet_cubic_params(p, &cubic);
	cubic_grow(&s->cubic, &cubic, w, acked_pkts);
}

CCA_FN u32 roccet_ssthresh(struct roccet_state *s, const struct roccet_params *p,
			   struct cca_window *w)
{
	struct cubic_params cubic;

	/* An ignored loss's episode that another follows at once: no ACK came between. */
	if (s->held_ssthresh_pkts && roccet_lost_much(s, p)) {
		s->ignores = false;
		return roccet_left_pkts(s, p, w);
	}
	if (p->ignore_loss || roccet_in_slow_start(s, w))
		return roccet_ignore_loss(s, w);
	s->ignores = false;
	roccet_cubic_params(p, &cubic);
	return cubic_ssthresh(&s->cubic, &cubic, w);
}

CCA_FN u32 roccet_undo(struct roccet_state *s, const struct cca_window *w)
{
	return cubic_undo(&s->cubic, w);
}

/*
 * Behind each of them ACKs and windows are counted anew, but for recoveries from an
 * ignored loss. A timeout that is ignored forgets nothing, and what it or an undo
 * ends shows no congestion.
 */
CCA_FN void roccet_on_event(struct roccet_state *s, const struct cca_event *ev)
{
	bool is_timeout = ev->kind == CCA_TIMEOUT, is_entered = ev->kind == CCA_RECOVERY_ENTERED;

	if (!s->ignores || !(is_entered || ev->kind == CCA_RECOVERY_LEFT))
		s->phase = ROCCET_NO_PHASE;
	s->in_recovery = is_entered;
	if (is_timeout || ev->kind == CCA_UNDO) {
		s->episode_acked_pkts = 0;
		s->episode_lost_pkts = 0;
	}
	if (is_timeout)
		s->drains = false;
	if (!is_timeout || !s->ignores)
		cubic_on_event(&s->cubic, ev);
}

#endif /* CCA_ROCCET_H */
