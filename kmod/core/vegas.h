/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * TCP Vegas (Brakmo and Peterson 1995, "TCP Vegas: End to End Congestion Avoidance on a
 * Global Internet", IEEE JSAC 13(8)). It compares the rate that the window would have
 * on an empty path with the rate that it has, once in a round trip.
 *
 *   BaseRTT     least RTT of the connection's data
 *   RTT         of the distinguished packet: the first that was sent in the round trip
 *   Expected  = cwnd / BaseRTT         Actual = cwnd / RTT       (section III-B)
 *   Diff      = (Expected - Actual) BaseRTT = cwnd (RTT - BaseRTT) / RTT
 *               the flow's own packets in the queues of the path
 *
 *   slow start (cwnd < ssthresh), section III-C:
 *     the window doubles in every other round trip, and stays fixed in the others
 *     at the end of a fixed one:     Diff > gamma ends slow start
 *   linear mode, at the end of each round trip, section III-B:
 *     Diff < alpha:  cwnd += 1       Diff > beta:  cwnd -= 1     else cwnd stays
 *   loss:            ssthresh = max(cwnd / 2, 2)
 *   spurious loss:   cwnd = cwnd before the loss
 *
 * alpha, beta and gamma count packets. The paper gives the thresholds as rates or as
 * buffers; its Vegas-1,3 has alpha = 1 and beta = 3, and gamma is one buffer.
 *
 * The paper's Actual counts what is sent from the distinguished packet to its ACK. The
 * host calls vegas_grow() only where the window limits the sender, and there this count
 * is the window. In any other round trip the window stays as it is.
 *
 * The round trip ends with the first RTT sample at or after the ACK of the distinguished
 * packet. It is void if an episode of loss or a silence begins or ends within it.
 *
 * DEVIATION: The host detects and repairs losses. The paper's own check of a fine-grained
 * timeout at duplicate ACKs (section III-A) has no place, and neither has the reduction
 * that depends on when a lost packet was sent: the host reduces once per episode.
 * DEVIATION: The exchange of SYNs is no sample of BaseRTT. A SYN is shorter than a data
 * packet, and a slow link would seem to hold a packet at any time.
 *
 * Limits: RTT is a single sample, and BaseRTT the least of all. Where the path delays packets by
 * chance, the difference looks like a queue, and a small alpha keeps the window below the path.
 * BaseRTT never grows. A flow whose path becomes longer takes the difference for
 * a queue, and one that starts behind a standing queue takes that for a part of the path.
 */
#ifndef CCA_VEGAS_H
#define CCA_VEGAS_H

#include "params.h"
#include "reno.h"

#define VEGAS_MIN_CWND_PKTS 2u

struct vegas_params {
#define CCA_ONLY CCA_ID_vegas
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) u32 name;
#include "params.def"
};

struct vegas_state {
	u32 base_rtt_us;	/* 0: unknown */
	u32 ended_rtt_us;	/* of a round trip that has ended, for vegas_grow(); 0: none */
	u32 round_end_pkts;	/* delivered count before the distinguished packet */
	u32 prior_cwnd_pkts;	/* cwnd at the start of the last loss episode */
	bool in_round;
	bool doubles;		/* slow start: the window grows in this round trip */
};

CCA_FN void vegas_void_round(struct vegas_state *s)
{
	s->in_round = false;
	s->ended_rtt_us = 0;
	s->round_end_pkts = 0;
}

CCA_FN void vegas_init(struct vegas_state *s)
{
	s->base_rtt_us = 0;
	s->prior_cwnd_pkts = 0;
	s->doubles = true;
	vegas_void_round(s);
}

/*
 * Diff of the round trip that has ended, in 2^-8 packets. Overflow: 2^24 packets x 2^8 x 2^26 us.
 * The RTT is not 0, and BaseRTT is at most the RTT, because it is the least of all.
 */
CCA_FN u64 vegas_diff_q8(const struct vegas_state *s, u32 cwnd_pkts)
{
	u64 cwnd_q8 = (u64)cca_min_u32(cwnd_pkts, CCA_MAX_PKTS) << 8;

	return cca_div(cwnd_q8 * (s->ended_rtt_us - s->base_rtt_us), s->ended_rtt_us);
}

CCA_FN void vegas_step_linearly(const struct vegas_params *p, struct cca_window *w, u64 diff_q8)
{
	if (diff_q8 < (u64)p->alpha_pkts << 8)
		w->cwnd_pkts = cca_min_u32(w->cwnd_pkts + 1, CCA_MAX_PKTS);
	else if (diff_q8 > (u64)p->beta_pkts << 8)
		w->cwnd_pkts = cca_max_u32(w->cwnd_pkts - 1, VEGAS_MIN_CWND_PKTS);
	/* A window below ssthresh would be in slow start again. */
	w->ssthresh_pkts = cca_min_u32(w->ssthresh_pkts, w->cwnd_pkts);
}

CCA_FN void vegas_end_round(struct vegas_state *s, const struct vegas_params *p,
			    struct cca_window *w)
{
	u64 diff_q8 = vegas_diff_q8(s, w->cwnd_pkts);

	if (w->cwnd_pkts >= w->ssthresh_pkts)
		vegas_step_linearly(p, w, diff_q8);
	else if (!s->doubles && diff_q8 > (u64)p->gamma_pkts << 8)
		w->ssthresh_pkts = w->cwnd_pkts;
	s->doubles = !s->doubles;
	s->ended_rtt_us = 0;
}

/* Updates BaseRTT, and ends the round trip with the sample of its distinguished packet. */
CCA_FN void vegas_on_ack(struct vegas_state *s, const struct cca_ack *ack)
{
	u32 rtt_us = cca_min_u32(ack->rtt_us, CCA_MAX_RTT_US);

	if (!rtt_us)
		return;
	if (!s->base_rtt_us || rtt_us < s->base_rtt_us)
		s->base_rtt_us = rtt_us;
	if (s->in_round && !cca_reached(ack->delivered_pkts, s->round_end_pkts + 1))
		return;
	if (s->in_round)
		s->ended_rtt_us = rtt_us;
	s->in_round = true;
	s->round_end_pkts = ack->delivered_pkts + ack->inflight_pkts;
}

/* The ACK that ends a round trip counts for the next one. */
CCA_FN void vegas_grow(struct vegas_state *s, const struct vegas_params *p, struct cca_window *w,
		       u32 acked_pkts)
{
	if (s->ended_rtt_us)
		vegas_end_round(s, p, w);
	if (s->doubles && w->cwnd_pkts < w->ssthresh_pkts)
		reno_slow_start(w, acked_pkts);
}

/* The new ssthresh. */
CCA_FN u32 vegas_ssthresh(struct vegas_state *s, const struct cca_window *w)
{
	s->prior_cwnd_pkts = w->cwnd_pkts;
	return cca_max_u32(w->cwnd_pkts / 2, VEGAS_MIN_CWND_PKTS);
}

CCA_FN u32 vegas_undo(const struct vegas_state *s, const struct cca_window *w)
{
	return cca_max_u32(w->cwnd_pkts, s->prior_cwnd_pkts);
}

/* Each event parts round trips of different windows, or follows a time without a full window. */
CCA_FN void vegas_on_event(struct vegas_state *s, const struct cca_event *ev)
{
	(void)ev;
	vegas_void_round(s);
	s->doubles = true;
}

#endif /* CCA_VEGAS_H */
