/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * ROCCET (Prause and Akselrod 2025, "TCP ROCCET: An RTT-Oriented CUBIC Congestion
 * Control Extension for 5G and Beyond Networks"). It is CUBIC (cubic.h) with a second
 * sign of congestion: the RTT grows, and fewer ACKs arrive than the windows suggest.
 * Sections, equations and figures below are those of the paper.
 *
 *   x_t     = (RTT_curr - RTT_min) / RTT_min                             (eq. 2)
 *   srRTT_t = alpha x_t + (1 - alpha) srRTT_t-1                          (eq. 2)
 *     RTT_curr  smoothed RTT (RFC 6298: 1/8 of each sample)
 *     RTT_min   minimum RTT sample
 *   cum_cwnd  sum of the windows of an interval's round trips       (section IV)
 *   recv ACKs segments that were ACKed in the interval              (section IV)
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
 *   CE         congestion event
 *   CUBIC CE   as after a loss: cwnd = ssthresh = beta cwnd, W_max = cwnd or less with
 *              fast convergence (cubic_ssthresh)
 *   ROCCET CE  cwnd = ssthresh = beta cwnd, W_max can only rise. Then the drain: for
 *              100 ms the window does not grow, and ROCCET does not check it.
 *   loss       ignored in slow start, else a CUBIC CE that the host calls
 *
 * beta is that of RFC 9438: the share that remains (in eq. 1 it is the share that is
 * removed).
 *
 * Differences between text and figure:
 *   sign     In LAUNCH the figure requires more ACKs than cum_cwnd, in ORBITER fewer.
 *            The text speaks of a difference, and of a deviation. By default both phases
 *            require fewer ACKs (ack_sense 0), because a growing queue delays ACKs. More
 *            ACKs than cum_cwnd arrive only after a window was cut below a BDP, while the
 *            old window's queue drains. LAUNCH as in the figure (ack_sense 1) therefore
 *            lasts until the buffer overflows. With either sign (ack_sense 2) the ACKs
 *            after such a cut count as congestion, although it has ended.
 *   limits   The text says "more than" 100 % and ten segments. The figure says "at least",
 *            and its formula is used here. Only the text adds the jitter.
 *   RTT_min  The text says "the measured minimum sRTT", and later "each ACK RTT". Here
 *            it is the minimum over each ACK's RTT.
 *
 * The paper leaves these points open. Our choices:
 *   rounds   cum_cwnd adds the window at the start of each round trip. Without a queue
 *            the ACKs of the round trip cover exactly that window. A round trip lasts
 *            RTT_min by default (round_rtt 0). If it lasted the smoothed RTT (1), an
 *            ACK-clocked sender would receive cum_cwnd ACKs with any queue, and only an
 *            unused window would make a difference. But in section IX probing windows
 *            cause CEs, and windows reach those of BBR, two BDP.
 *   5 RTT    are smoothed RTTs, so that the effect of a CE is visible at the next check.
 *   alpha    is 1/8 per ACK, and srRTT starts at 0. The paper gives no value.
 *   jitter   is that of consecutive RTT samples, by RFC 3550 section 6.4.1 (1/16). A
 *            growing queue adds little to it, but much to RFC 6298's RTTVAR. The jitter
 *            as a share of RTT_min is added to ORBITER's bound (section IV).
 *   W_max    does not change when the initial slow start ends, because that is no CE.
 *   initial  The initial slow start lasts until it ends for the first time. An ignored
 *            loss does not start another one, even if a timeout detected it.
 *   recovery In recovery the host controls the window, and ROCCET checks nothing. A new
 *            interval begins after it, as after an idle time and a change of phase. An
 *            ignored loss is an exception, because such losses may follow each other
 *            without end. ROCCET then checks ssthresh in place of the window, and a CE
 *            reduces ssthresh.
 *   drain    A loss in the drain is a CUBIC CE, like any other loss. An undo does not
 *            restore a window that ROCCET reduced, because no loss was the cause.
 *   options  Section XI has srrtt_bound_pct, ack_tolerance_pct, ignore_loss (here also in
 *            ORBITER) and min_rtt_age_ms with alpha as the weight. The last is 10 000 ms
 *            there, and off by default here, as in section IV. Growth with C, Reno's
 *            region and fast convergence are CUBIC's. HyStart is off (sections III, VI).
 *
 * DEVIATION: an interval ends at the end of a round trip, the first one after its time
 * is over. So its ACKs and windows are counted over the same whole round trips.
 * DEVIATION: LAUNCH also ends a slow start if its recovery lost more than
 * ack_tolerance_pct of the segments. With a buffer shorter than a BDP srRTT does not
 * reach 100 %, and slow start would overrun the buffer without end.
 */
#ifndef CCA_ROCCET_H
#define CCA_ROCCET_H

#include "roccet_model.h"

/* --- reactions -------------------------------------------------------------------- */

/* The window after a slow start that ends at window w. */
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

/* Reduces the window without a loss. A later undo must not restore the old window. */
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

/* LAUNCH's check at the end of a round trip. Returns true if the interval is over. */
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

/*
 * ORBITER's check at the end of a round trip. Returns true if the interval is over.
 * Overflow: 2^48 x 100, and at most 1000 round trips of 2^27 us.
 */
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

/* Whether the episode lost more than random loss would explain. Overflow: 2^26 x 100. */
CCA_FN bool roccet_lost_much(const struct roccet_state *s, const struct roccet_params *p)
{
	u64 sent_pkts = (u64)s->episode_acked_pkts + s->episode_lost_pkts;

	return !p->ignore_loss &&
	       (u64)s->episode_lost_pkts * 100 > sent_pkts * p->ack_tolerance_pct;
}

/*
 * After an ignored loss episode: continues slow start, or ends it. In the latter case
 * ssthresh is computed from the window at the start of the episode.
 */
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
 * Returns the ssthresh for an ignored loss. After its recovery the host sets the window
 * to ssthresh, so this is the window itself. Slow start's own ssthresh is saved for
 * roccet_settle().
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

	__builtin_memset(s, 0, sizeof(*s));
	roccet_cubic_params(p, &cubic);
	cubic_init(&s->cubic, &cubic, start);
	s->min_rtt_at_us = start->now_us;
	s->interval_start_us = start->now_us;
	s->drain_start_us = start->now_us;
	roccet_start_round(s, start->now_us, start->cwnd_pkts);
	roccet_sample_rtt(s, p, start->now_us, start->rtt_us);
}

/*
 * Counts an ACK, and checks for congestion at the end of a round trip. w: the window, or
 * in the recovery from an ignored loss a copy with ssthresh as its cwnd.
 */
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

/* Fig. 3 up to the step "CUBIC congestion control", for which the host calls roccet_grow(). */
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

/*
 * CUBIC's growth. The window does not grow in the drain. After an ignored loss it does not
 * grow until roccet_on_ack() has called roccet_settle().
 */
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

	/* A new episode follows an ignored one, and no ACK has called roccet_settle() since. */
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
 * After each event the count of ACKs and windows restarts, except for recoveries from an
 * ignored loss. A timeout whose loss is ignored does not reset CUBIC. After a timeout or
 * an undo, the losses of the episode no longer count as congestion.
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
