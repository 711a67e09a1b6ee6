/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * CUBIC (RFC 9438) with HyStart (Ha and Rhee 2011, "Taming the elephants: New
 * TCP slow start") or HyStart++ (RFC 9406). It follows Linux, and the deviations below
 * are from the RFC, except where they name Linux.
 *
 *   W_max     window at the last loss       t     time since growth restarted
 *   K       = cbrt((W_max - cwnd) / C)                         (RFC 9438 fig. 2)
 *   W_cubic(t) = C (t - K)^3 + W_max                           (RFC 9438 fig. 1)
 *   an ACK moves cwnd by (W_cubic(t + RTTmin) - cwnd) / cwnd, at most 1/2 (4.4, 4.5)
 *   W_est    += 3 (1 - beta) / (1 + beta) per window ACKed     (RFC 9438 fig. 4)
 *               Reno's window with this beta; cwnd grows at least to it (4.3)
 *   loss:       ssthresh = beta cwnd                           (4.6)
 *               W_max = cwnd, or (1 + beta) / 2 cwnd when that is below the
 *               last W_max: fast convergence                   (4.7)
 *   timeout:    the state is reset; growth then starts at the plateau, with K = 0 (4.8)
 *
 * HyStart ends slow start, for windows of 16 packets and more, at the first of:
 *   ACK train   The ACKs since the start of the round trip, with gaps of at most 2 ms,
 *               span half of RTTmin. The pipe is then full.
 *   delay       From its 8th RTT sample on, the minimum RTT of the round trip exceeds
 *               RTTmin by an eighth, but by at least 4 ms and at most 16 ms.
 * HyStart++ uses only the delay, compared with the previous round trip. It then grows
 * the window at a quarter of the speed for five round trips, and ends slow start. If
 * the RTT falls in that time, slow start continues.
 *
 * After HyStart has ended a slow start it is off until a timeout, as in Linux. In
 * recovery the host's window is also below ssthresh, and the queue is still the one
 * that slow start built. HyStart would see that delay and set ssthresh to the small
 * window of the recovery. HyStart++ applies to the first slow start only (RFC 9406,
 * section 4.3).
 *
 * Frozen window: the host calls cubic_grow() only if the window limited the sender
 * (cca_ack.cwnd_limited). If the application, the receiver or a queue of the host
 * limits the sender, the window does not change until a loss, in slow start and after
 * it. Time t continues, so the window grows by half a packet per ACK when it limits the
 * sender again. Only idle time, with no packets in flight, is excluded from t. RFC 9438
 * section 5.8 excludes all time in which the window does not limit the sender.
 *
 * DEVIATION: in RFC 9438 section 4.3, W_est grows like Reno itself after it has
 * reached the window of the last loss. Neither Linux nor this code does that.
 * DEVIATION: the target is the window that is due RTTmin from now. RFC 9438
 * section 4.2 uses the smoothed RTT.
 * DEVIATION: RFC 9438 section 4.9 restores W_max, K and t after a spurious loss. Here,
 * as in Linux, only the window is restored, and growth restarts at the plateau.
 * DEVIATION: an ACK train must span half of RTTmin for every flow. Linux halves RTTmin
 * only if the flow is not paced.
 * DEVIATION: before the first loss the window grows by at least a packet per 20 ACKs.
 * RTT samples from an epoch's first second are ignored, because a queue is still
 * draining.
 */
#ifndef CCA_CUBIC_H
#define CCA_CUBIC_H

#include "params.h"
#include "reno.h"

#define CUBIC_MIN_CWND_PKTS 2u
#define CUBIC_REFRESH_US 31250u		/* the growth is recomputed at least 32 times a second */
#define CUBIC_LEAST_ACKS 2u		/* per packet of growth: 1.5 cwnd per RTT, section 4.2 */
#define CUBIC_MOST_WINDOWS 100u		/* ACKed per packet of growth, at or above the target */
#define CUBIC_FIRST_ACKS 20u		/* per packet of growth, before any loss */
#define CUBIC_SETTLE_US 1000000u	/* start of an epoch, whose RTT samples are ignored */
#define CUBIC_MAX_US (1u << 30)		/* 18 min: any later target is at its limit */
#define CUBIC_MAX_Q10S (1u << 20)	/* the same in 2^-10 s */
#define HYSTART_SAMPLES 8u
#define HYSTART_OFFLOAD_US 1000u	/* segmentation offload may lengthen a train by this */
#define HYSTART_CSS_DIVISOR 4u		/* RFC 9406 CSS_GROWTH_DIVISOR */
#define HYSTART_CSS_ROUNDS 5u		/* RFC 9406 CSS_ROUNDS */
#define HYSTART_MOST_ACKED 8u		/* RFC 9406 L for flows that are not paced */

enum cubic_hystart {
	CUBIC_NO_HYSTART,
	CUBIC_HYSTART,
	CUBIC_HYSTART_PLUS,
};

struct cubic_params {
#define CCA_ONLY CCA_ID_cubic
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) u32 name;
#include "params.def"
};

struct hystart_state {
	u64 round_start_us;
	u64 train_us;			/* last ACK of the train */
	u32 round_end_pkts;		/* delivered count at which the round trip ends */
	u32 round_min_rtt_us;		/* of this round trip */
	u32 last_min_rtt_us;		/* of the previous round trip; 0: none */
	u32 css_rtt_us;			/* RFC 9406 cssBaselineMinRtt; 0: not in CSS */
	u8 css_rounds;			/* at most HYSTART_CSS_ROUNDS */
	u8 samples;			/* at most HYSTART_SAMPLES */
	bool started;
	bool over;			/* it has ended a slow start */
};

/* At most 104 bytes, the space that a Linux socket has for congestion control (fallback.c). */
struct cubic_state {
	u64 now_us;			/* of the last ACK */
	u64 epoch_start_us;
	u64 refreshed_us;
	u32 w_max_pkts;			/* 0: no loss yet, or none since a timeout */
	u32 plateau_pkts;		/* W_cubic(K) of this epoch */
	u32 k_q10s;			/* K in 2^-10 s */
	u32 reno_pkts;			/* W_est */
	u32 reno_credit_pkts;		/* ACKed since W_est grew */
	u32 min_rtt_us;			/* 0: unknown */
	u32 acks_per_pkt;		/* ACKed packets per packet of growth */
	u32 seen_cwnd_pkts;		/* the window for which acks_per_pkt was computed */
	u32 prior_cwnd_pkts;		/* cwnd at the start of the last loss episode */
	bool in_epoch;			/* congestion avoidance has begun since the last loss */
	struct hystart_state hystart;
};

/* --- the cubic function ------------------------------------------------------ */

/* The largest r with r^3 <= x, for x < 2^63: r < 2^21, so that no cube overflows. */
CCA_FN u32 cubic_root(u64 x)
{
	u64 root = 0, next;
	int bit;

	for (bit = 20; bit >= 0; bit--) {
		next = root | 1ull << bit;
		if (next * next * next <= x)
			root = next;
	}
	return (u32)root;
}

/* K in 2^-10 s, where W_max is rise_pkts above cwnd. Overflow: 2^24 x 2^30 / 10 x 1000 < 2^61. */
CCA_FN u32 cubic_k_q10s(const struct cubic_params *p, u32 rise_pkts)
{
	u64 cubed_q30 = (u64)cca_min_u32(rise_pkts, CCA_MAX_PKTS) << 30;

	return cubic_root(cca_div(cubed_q30, cca_max_u32(p->c_permille, 10)) * 1000);
}

/* C d^3 for a distance d from K, at most CCA_MAX_PKTS. Overflow: 2^60 / 2^20 x 10^4 < 2^54. */
CCA_FN u32 cubic_rise_pkts(const struct cubic_params *p, u64 distance_q10s)
{
	u64 d = cca_min_u64(distance_q10s, CUBIC_MAX_Q10S);
	u64 rise = cca_div((d * d * d >> 20) * cca_min_u32(p->c_permille, 10000), 1000) >> 10;

	return (u32)cca_min_u64(rise, CCA_MAX_PKTS);
}

/* W_cubic(t). The plateau and the rise are at most 2^24 each. */
CCA_FN u32 cubic_target_pkts(const struct cubic_state *s, const struct cubic_params *p, u64 t_us)
{
	u64 t = cca_div(cca_min_u64(t_us, CUBIC_MAX_US) << 10, CCA_USEC_PER_SEC);
	u32 rise_pkts;

	if (t >= s->k_q10s)
		return s->plateau_pkts + cubic_rise_pkts(p, t - s->k_q10s);
	rise_pkts = cubic_rise_pkts(p, s->k_q10s - t);
	return s->plateau_pkts > rise_pkts ? s->plateau_pkts - rise_pkts : 0;
}

CCA_FN void cubic_start_epoch(struct cubic_state *s, const struct cubic_params *p, u32 cwnd_pkts)
{
	s->in_epoch = true;
	s->epoch_start_us = s->now_us;
	s->reno_pkts = cwnd_pkts;
	s->reno_credit_pkts = 0;
	s->seen_cwnd_pkts = 0;
	s->plateau_pkts = cca_max_u32(s->w_max_pkts, cwnd_pkts);
	s->k_q10s = cubic_k_q10s(p, s->plateau_pkts - cwnd_pkts);
}

/* ACKed packets after which W_est grows by one. Overflow: 2^24 x 1999. */
CCA_FN u32 cubic_reno_acks(const struct cubic_params *p, u32 cwnd_pkts)
{
	u32 beta = cca_clamp_u32(p->beta_permille, 1, 999);

	return (u32)cca_clamp_u32((u32)cca_div((u64)cwnd_pkts * (1000 + beta), 3 * (1000 - beta)),
				  1, CCA_MAX_PKTS);
}

CCA_FN u32 cubic_no_slower_than_reno(struct cubic_state *s, const struct cubic_params *p,
				     u32 cwnd_pkts, u32 acks_per_pkt)
{
	u32 acks = cubic_reno_acks(p, cwnd_pkts);

	/* credit <= 2^25 (cubic_avoid_congestion()), so the quotient is at most that. */
	s->reno_pkts = cca_min_u32(s->reno_pkts + s->reno_credit_pkts / acks, CCA_MAX_PKTS);
	s->reno_credit_pkts %= acks;
	if (s->reno_pkts <= cwnd_pkts)
		return acks_per_pkt;
	return cca_min_u32(acks_per_pkt, cwnd_pkts / (s->reno_pkts - cwnd_pkts));
}

/* Computes the number of ACKed packets after which the window grows by one. */
CCA_FN void cubic_refresh(struct cubic_state *s, const struct cubic_params *p, u32 cwnd_pkts)
{
	u64 t_us = cca_elapsed_us(s->now_us, s->epoch_start_us) + s->min_rtt_us;
	u32 target_pkts = cubic_target_pkts(s, p, t_us), acks;

	/* 2^24 x 100 < 2^31. */
	acks = target_pkts > cwnd_pkts ? cwnd_pkts / (target_pkts - cwnd_pkts) :
					 CUBIC_MOST_WINDOWS * cwnd_pkts;
	if (!s->w_max_pkts)
		acks = cca_min_u32(acks, CUBIC_FIRST_ACKS);
	if (p->reno_friendly)
		acks = cubic_no_slower_than_reno(s, p, cwnd_pkts, acks);
	s->acks_per_pkt = cca_max_u32(acks, CUBIC_LEAST_ACKS);
	s->seen_cwnd_pkts = cwnd_pkts;
	s->refreshed_us = s->now_us;
}

CCA_FN void cubic_avoid_congestion(struct cubic_state *s, const struct cubic_params *p,
				   struct cca_window *w, u32 acked_pkts)
{
	u32 cwnd_pkts = cca_clamp_u32(w->cwnd_pkts, 1, CCA_MAX_PKTS);

	acked_pkts = cca_min_u32(acked_pkts, CCA_MAX_PKTS);
	if (!s->in_epoch)
		cubic_start_epoch(s, p, cwnd_pkts);
	s->reno_credit_pkts = cca_min_u32(s->reno_credit_pkts, CCA_MAX_PKTS) + acked_pkts;
	if (s->seen_cwnd_pkts != cwnd_pkts ||
	    cca_elapsed_us(s->now_us, s->refreshed_us) > CUBIC_REFRESH_US)
		cubic_refresh(s, p, cwnd_pkts);
	/* The credit is from a time when a packet took more ACKs. It now counts as one packet. */
	if (w->credit_pkts >= s->acks_per_pkt) {
		w->credit_pkts = 0;
		cwnd_pkts++;
	}
	/* The credit is below 2^31, the new term at most 2^24. */
	w->credit_pkts += acked_pkts;
	w->cwnd_pkts = cca_min_u32(cwnd_pkts + w->credit_pkts / s->acks_per_pkt, CCA_MAX_PKTS);
	w->credit_pkts %= s->acks_per_pkt;
}

/* --- HyStart and HyStart++ ----------------------------------------------------- */

CCA_FN void hystart_reset(struct hystart_state *h)
{
	h->started = false;
	h->over = false;
	h->last_min_rtt_us = 0;
	h->css_rtt_us = 0;
	h->css_rounds = 0;
}

CCA_FN void hystart_start_round(struct hystart_state *h, const struct cca_ack *ack)
{
	h->last_min_rtt_us = h->started && h->samples ? h->round_min_rtt_us : 0;
	if (h->css_rtt_us && h->css_rounds < HYSTART_CSS_ROUNDS)
		h->css_rounds++;
	h->started = true;
	h->round_start_us = ack->now_us;
	h->train_us = ack->now_us;
	h->round_end_pkts = ack->delivered_pkts + ack->inflight_pkts;
	h->samples = 0;
}

CCA_FN void hystart_sample(struct hystart_state *h, u32 rtt_us)
{
	if (!h->samples || rtt_us < h->round_min_rtt_us)
		h->round_min_rtt_us = rtt_us;
	if (h->samples < HYSTART_SAMPLES)
		h->samples++;
}

CCA_FN bool hystart_rose(const struct hystart_state *h, const struct cubic_params *p, u32 base_us)
{
	u32 rise_us = cca_max_u32(base_us / 8, p->hystart_delay_min_us);

	return h->samples >= HYSTART_SAMPLES &&
	       h->round_min_rtt_us > base_us + cca_min_u32(rise_us, p->hystart_delay_max_us);
}

CCA_FN bool hystart_train_fills(struct hystart_state *h, const struct cubic_params *p,
				u64 now_us, u32 min_rtt_us)
{
	if (cca_elapsed_us(now_us, h->train_us) > p->hystart_ack_delta_us)
		return false;
	h->train_us = now_us;
	return cca_elapsed_us(now_us, h->round_start_us) > (min_rtt_us + HYSTART_OFFLOAD_US) / 2;
}

/* RFC 9406 section 4.2. Returns true if Conservative Slow Start (CSS) has lasted long enough. */
CCA_FN bool hystart_plus_ends(struct hystart_state *h, const struct cubic_params *p)
{
	if (h->css_rtt_us) {
		if (h->samples >= HYSTART_SAMPLES && h->round_min_rtt_us < h->css_rtt_us)
			h->css_rtt_us = 0;
		return h->css_rtt_us && h->css_rounds >= HYSTART_CSS_ROUNDS;
	}
	if (h->last_min_rtt_us && hystart_rose(h, p, h->last_min_rtt_us)) {
		h->css_rtt_us = h->round_min_rtt_us;
		h->css_rounds = 0;
	}
	return false;
}

/*
 * Follows the round trips from the first ACK on, also while the window is below
 * hystart_low_window_pkts. If the first round trip began in the middle of a train, all
 * later ones would as well, and slow start's queue would already exist there. A train
 * is timed from the first ACK of its round trip.
 */
CCA_FN void hystart_follow(struct hystart_state *h, const struct cca_ack *ack, u32 rtt_us)
{
	if (!h->started || cca_reached(ack->delivered_pkts, h->round_end_pkts + 1))
		hystart_start_round(h, ack);
	hystart_sample(h, rtt_us);
}

/* Whether HyStart or HyStart++ may end this slow start. */
CCA_FN bool cubic_has_hystart(const struct cubic_state *s, const struct cubic_params *p)
{
	if (s->hystart.over)
		return false;
	return p->hystart == CUBIC_HYSTART ||
	       (p->hystart == CUBIC_HYSTART_PLUS && !s->prior_cwnd_pkts);
}

CCA_FN bool cubic_slow_start_is_over(struct cubic_state *s, const struct cubic_params *p,
				     const struct cca_ack *ack)
{
	struct hystart_state *h = &s->hystart;

	if (p->hystart == CUBIC_HYSTART_PLUS)
		return hystart_plus_ends(h, p);
	return hystart_train_fills(h, p, ack->now_us, s->min_rtt_us) ||
	       hystart_rose(h, p, s->min_rtt_us);
}

/* The ACKed packets that count in slow start. */
CCA_FN u32 cubic_slow_start_acked(const struct cubic_state *s, const struct cubic_params *p,
				  u32 acked_pkts)
{
	if (p->hystart != CUBIC_HYSTART_PLUS || !cubic_has_hystart(s, p))
		return acked_pkts;
	acked_pkts = cca_min_u32(acked_pkts, HYSTART_MOST_ACKED);
	return s->hystart.css_rtt_us ?
		(acked_pkts + HYSTART_CSS_DIVISOR - 1) / HYSTART_CSS_DIVISOR : acked_pkts;
}

/* --- entry points ------------------------------------------------------------------ */

CCA_FN void cubic_forget(struct cubic_state *s)
{
	s->in_epoch = false;
	s->w_max_pkts = 0;
	s->plateau_pkts = 0;
	s->k_q10s = 0;
	s->reno_pkts = 0;
	s->reno_credit_pkts = 0;
	s->min_rtt_us = 0;
	s->acks_per_pkt = CUBIC_LEAST_ACKS;
	s->seen_cwnd_pkts = 0;
	hystart_reset(&s->hystart);
}

CCA_FN void cubic_init(struct cubic_state *s, const struct cubic_params *p,
		       const struct cca_start *start)
{
	(void)p;
	cubic_forget(s);
	s->now_us = start->now_us;
	s->epoch_start_us = start->now_us;
	s->refreshed_us = start->now_us;
	s->prior_cwnd_pkts = 0;
	s->hystart.samples = 0;
	s->hystart.round_min_rtt_us = 0;
	s->hystart.round_end_pkts = start->delivered_pkts;
	s->hystart.round_start_us = start->now_us;
	s->hystart.train_us = start->now_us;
}

/* Updates the minimum RTT. If slow start has filled the pipe, ends it at the current window. */
CCA_FN void cubic_on_ack(struct cubic_state *s, const struct cubic_params *p,
			 const struct cca_ack *ack, struct cca_window *w)
{
	u32 rtt_us = cca_min_u32(ack->rtt_us, CCA_MAX_RTT_US);

	s->now_us = ack->now_us;
	if (!rtt_us ||
	    (s->in_epoch && cca_elapsed_us(ack->now_us, s->epoch_start_us) < CUBIC_SETTLE_US))
		return;
	if (!s->min_rtt_us || rtt_us < s->min_rtt_us)
		s->min_rtt_us = rtt_us;
	if (!cubic_has_hystart(s, p) || w->cwnd_pkts >= w->ssthresh_pkts)
		return;
	hystart_follow(&s->hystart, ack, rtt_us);
	if (w->cwnd_pkts < p->hystart_low_window_pkts || !cubic_slow_start_is_over(s, p, ack))
		return;
	w->ssthresh_pkts = w->cwnd_pkts;
	s->hystart.over = true;
}

CCA_FN void cubic_grow(struct cubic_state *s, const struct cubic_params *p,
		       struct cca_window *w, u32 acked_pkts)
{
	if (w->cwnd_pkts < w->ssthresh_pkts)
		acked_pkts = reno_slow_start(w, cubic_slow_start_acked(s, p, acked_pkts));
	if (acked_pkts)
		cubic_avoid_congestion(s, p, w, acked_pkts);
}

/* The ssthresh after a loss. Overflow: 2^24 packets x 1000 permille. */
CCA_FN u32 cubic_ssthresh(struct cubic_state *s, const struct cubic_params *p,
			  struct cca_window *w)
{
	u32 cwnd_pkts = cca_min_u32(w->cwnd_pkts, CCA_MAX_PKTS);

	s->prior_cwnd_pkts = cwnd_pkts;
	s->in_epoch = false;
	s->w_max_pkts = p->fast_convergence && cwnd_pkts < s->w_max_pkts ?
		cca_share_pkts(cwnd_pkts, (1000 + p->beta_permille) / 2) : cwnd_pkts;
	w->credit_pkts = 0;
	return cca_max_u32(cca_share_pkts(cwnd_pkts, p->beta_permille), CUBIC_MIN_CWND_PKTS);
}

CCA_FN u32 cubic_undo(struct cubic_state *s, const struct cca_window *w)
{
	return cca_max_u32(w->cwnd_pkts, s->prior_cwnd_pkts);
}

CCA_FN void cubic_on_event(struct cubic_state *s, const struct cca_event *ev)
{
	if (ev->kind == CCA_TIMEOUT)
		cubic_forget(s);
	if (ev->kind != CCA_TRANSFER_STARTED && ev->kind != CCA_IDLE_RESTART)
		return;
	/*
	 * Nothing was in flight since the last ACK, which belongs to this epoch. So the new start
	 * of the epoch is not after the present.
	 */
	if (s->in_epoch)
		s->epoch_start_us += cca_elapsed_us(ev->now_us, s->now_us);
	s->now_us = cca_max_u64(ev->now_us, s->now_us);
}

#endif /* CCA_CUBIC_H */
