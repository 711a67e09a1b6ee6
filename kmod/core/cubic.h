/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * CUBIC (RFC 9438) with HyStart (Ha and Rhee 2011, "Taming the elephants: New
 * TCP slow start") or HyStart++ (RFC 9406), as Linux is known to run it.
 *
 *   W_max     window at the last loss       t     time since growth began again
 *   K       = cbrt((W_max - cwnd) / C)                         (RFC 9438 fig. 2)
 *   W_cubic(t) = C (t - K)^3 + W_max                           (RFC 9438 fig. 1)
 *   an ACK moves cwnd by (W_cubic(t + RTTmin) - cwnd) / cwnd, at most 1/2 (4.4, 4.5)
 *   W_est    += 3 (1 - beta) / (1 + beta) per window ACKed     (RFC 9438 fig. 4)
 *               Reno's window with this beta; cwnd grows at least to it (4.3)
 *   loss:       ssthresh = beta cwnd                           (4.6)
 *               W_max = cwnd, or (1 + beta) / 2 cwnd when that is below the
 *               last W_max: fast convergence                   (4.7)
 *   timeout:    all is forgotten; growth begins at its plateau (4.8)
 *
 * HyStart ends slow start, from 16 packets on, at the first of
 *   ACK train   ACKs no more than 2 ms apart since the round trip began now span
 *               half of RTTmin: the pipe is full
 *   delay       the least of the round trip's first 8 RTTs is above RTTmin by an
 *               eighth, but at least 4 ms and at most 16 ms
 * HyStart++ knows the delay alone, against the round trip before, and then grows
 * by a quarter for five round trips, unless the RTT falls again, before it leaves.
 *
 * Once HyStart has ended a slow start it is off, as in Linux, until a timeout: in
 * recovery the host's window is below ssthresh as well, and the queue there is the
 * one that slow start built. Its delay would end what a loss has ended already, and
 * put ssthresh to that small window. HyStart++ is for the first slow start alone
 * (RFC 9406, section 4.3).
 *
 * The frozen window: the host calls cubic_grow() only when the window held the
 * sender (cca_ack.cwnd_limited). A window that is larger than what the
 * application, the receiver or a queue of the host lets out stays as it is, in
 * slow start and behind it, until a loss. Time t runs on meanwhile, so that it
 * grows by half a packet an ACK when it is used again. Only idle time, with
 * nothing in flight, is taken out of t (RFC 9438 section 5.8 asks for all).
 *
 * DEVIATION: RFC 9438 section 4.3 lets W_est grow as Reno's own once it has
 * reached the window of the last loss; Linux does not, nor do we.
 * DEVIATION: the window aimed at is that of RTTmin from now, where RFC 9438
 * section 4.2 takes the smoothed RTT.
 * DEVIATION: RFC 9438 section 4.9 restores W_max, K and t behind a spurious
 * loss; as in Linux only the window is, and growth begins at its plateau.
 * DEVIATION: the span that an ACK train has to reach is half of RTTmin for every flow. Linux
 * halves it only where the flow is not paced.
 * DEVIATION: without a loss yet, growth is at least a packet in 20 ACKs; and
 * RTTs of an epoch's first second, of a queue still draining, are left out.
 */
#ifndef CCA_CUBIC_H
#define CCA_CUBIC_H

#include "params.h"
#include "reno.h"

#define CUBIC_MIN_CWND_PKTS 2u
#define CUBIC_REFRESH_US 31250u		/* an unchanged window is looked at 32 times a second */
#define CUBIC_LEAST_ACKS 2u		/* a packet: 1.5 cwnd a round trip later, section 4.2 */
#define CUBIC_MOST_WINDOWS 100u		/* a packet, at or above the target */
#define CUBIC_FIRST_ACKS 20u		/* a packet, before any loss */
#define CUBIC_SETTLE_US 1000000u
#define CUBIC_MAX_US (1u << 30)		/* 18 min: beyond, any target is at its limit */
#define CUBIC_MAX_Q10S (1u << 20)	/* the same in 2^-10 s */
#define HYSTART_SAMPLES 8u
#define HYSTART_OFFLOAD_US 1000u	/* by which segmentation offload may stretch a train */
#define HYSTART_CSS_DIVISOR 4u		/* RFC 9406 CSS_GROWTH_DIVISOR */
#define HYSTART_CSS_ROUNDS 5u		/* RFC 9406 CSS_ROUNDS */
#define HYSTART_MOST_ACKED 8u		/* RFC 9406 L, not paced */

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
	u32 round_min_rtt_us;		/* of its first samples */
	u32 last_min_rtt_us;		/* of the round trip before; 0: none */
	u32 css_rtt_us;			/* RFC 9406 cssBaselineMinRtt; 0: not in that phase */
	u8 css_rounds;			/* at most HYSTART_CSS_ROUNDS */
	u8 samples;			/* at most HYSTART_SAMPLES */
	bool started;
	bool over;			/* it has ended a slow start */
};

/* At most the 104 bytes that Linux has in a socket for its congestion control (plain.h). */
struct cubic_state {
	u64 now_us;			/* of the last ACK */
	u64 epoch_start_us;
	u64 refreshed_us;
	u32 w_max_pkts;			/* 0: no loss yet, or forgotten */
	u32 plateau_pkts;		/* of this epoch */
	u32 k_q10s;
	u32 reno_pkts;			/* W_est */
	u32 reno_credit_pkts;		/* ACKed since it grew */
	u32 min_rtt_us;			/* 0: unknown */
	u32 acks_per_pkt;		/* that the window grows by */
	u32 seen_cwnd_pkts;		/* for which that holds */
	u32 prior_cwnd_pkts;		/* when the last loss episode began */
	bool in_epoch;
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

/* K for a rise of that many packets. Overflow: 2^24 x 2^30 / 10 x 1000 < 2^61. */
CCA_FN u32 cubic_k_q10s(const struct cubic_params *p, u32 rise_pkts)
{
	u64 cubed_q30 = (u64)cca_min_u32(rise_pkts, CCA_MAX_PKTS) << 30;

	return cubic_root(cca_div(cubed_q30, cca_max_u32(p->c_permille, 10)) * 1000);
}

/* C d^3, at most CCA_MAX_PKTS. Overflow: 2^60 / 2^20 x 10^4 < 2^54. */
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

/* Reno's window moves with every ACK. Overflow: 2^24 x 1950. */
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

	/* credit <= 2^25 (cubic_count_acked), so the quotient is as well. */
	s->reno_pkts = cca_min_u32(s->reno_pkts + s->reno_credit_pkts / acks, CCA_MAX_PKTS);
	s->reno_credit_pkts %= acks;
	if (s->reno_pkts <= cwnd_pkts)
		return acks_per_pkt;
	return cca_min_u32(acks_per_pkt, cwnd_pkts / (s->reno_pkts - cwnd_pkts));
}

/* How many ACKed packets the window takes to grow by one. */
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
	/* Earned when a packet took more ACKs: it is one packet now. */
	if (w->credit_pkts >= s->acks_per_pkt) {
		w->credit_pkts = 0;
		cwnd_pkts++;
	}
	/* Two terms below 2^31 and of at most 2^24. */
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

/* RFC 9406 section 4.2; true: its conservative phase has lasted long enough. */
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
 * Round trips are counted from the first ACK on, below the low window too: begun
 * in the middle of a train, they would all begin there, where the queue of slow
 * start stands already. A train is timed from the first ACK of its round trip.
 */
CCA_FN void hystart_follow(struct hystart_state *h, const struct cca_ack *ack, u32 rtt_us)
{
	if (!h->started || cca_reached(ack->delivered_pkts, h->round_end_pkts + 1))
		hystart_start_round(h, ack);
	hystart_sample(h, rtt_us);
}

/* Whether it may end this slow start. */
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

/* What of an ACK counts in slow start. */
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

/* The least RTT, and whether slow start has filled the pipe: it then ends at this window. */
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

/* Overflow: 2^24 x 1950. */
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
	/* Nothing was in flight since the last ACK, one of the epoch: the sum is not beyond now. */
	if (s->in_epoch)
		s->epoch_start_us += cca_elapsed_us(ev->now_us, s->now_us);
	s->now_us = cca_max_u64(ev->now_us, s->now_us);
}

#endif /* CCA_CUBIC_H */
