/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Reno: slow start and congestion avoidance (RFC 5681). It counts ACKed packets,
 * not ACKs (RFC 3465), so that stretch ACKs do not slow it down.
 *
 *   cwnd <  ssthresh:  cwnd += acked               (RFC 5681 eq. 2)
 *   cwnd >= ssthresh:  cwnd += 1 per cwnd acked    (RFC 5681 eq. 3)
 *   loss:              ssthresh = max(cwnd / 2, 2) (RFC 5681 eq. 4)
 *   spurious loss:     cwnd = cwnd before the loss (RFC 4015 section 3)
 *
 * This is the smallest algorithm of window mode, and an example of the contract
 * in cca.h.
 * DEVIATION: RFC 5681 eq. 4 halves the flight size. Here, as in Linux, the window
 * is halved. The host does not let it grow while it is not fully used.
 */
#ifndef CCA_RENO_H
#define CCA_RENO_H

#include "cca.h"

#define RENO_MIN_CWND_PKTS 2u

struct reno_state {
	u32 prior_cwnd_pkts;	/* cwnd at the start of the last loss episode */
};

CCA_FN void reno_init(struct reno_state *s)
{
	s->prior_cwnd_pkts = 0;
}

/* Reno needs nothing from an ACK except the count that reno_grow() receives. */
CCA_FN void reno_on_ack(struct reno_state *s, const struct cca_ack *ack)
{
	(void)s;
	(void)ack;
}

/* Returns the ACKed packets that remain after slow start has reached ssthresh. */
CCA_FN u32 reno_slow_start(struct cca_window *w, u32 acked_pkts)
{
	u32 room_pkts = w->ssthresh_pkts > w->cwnd_pkts ? w->ssthresh_pkts - w->cwnd_pkts : 0;
	u32 used_pkts = cca_min_u32(acked_pkts, room_pkts);

	w->cwnd_pkts = cca_min_u32(w->cwnd_pkts + used_pkts, CCA_MAX_PKTS);
	return acked_pkts - used_pkts;
}

CCA_FN void reno_avoid_congestion(struct cca_window *w, u32 acked_pkts)
{
	u32 cwnd_pkts = cca_max_u32(w->cwnd_pkts, 1);

	/* The host has lowered the window itself: reset the credit, as reno_ssthresh() does. */
	if (w->credit_pkts >= cwnd_pkts)
		w->credit_pkts = 0;
	/* credit < cwnd <= 2^24 and acked <= 2^24: the sum fits. */
	w->credit_pkts += cca_min_u32(acked_pkts, CCA_MAX_PKTS);
	w->cwnd_pkts = cca_min_u32(cwnd_pkts + w->credit_pkts / cwnd_pkts, CCA_MAX_PKTS);
	w->credit_pkts %= cwnd_pkts;
}

CCA_FN void reno_grow(struct reno_state *s, struct cca_window *w, u32 acked_pkts)
{
	(void)s;
	if (w->cwnd_pkts < w->ssthresh_pkts)
		acked_pkts = reno_slow_start(w, acked_pkts);
	if (acked_pkts)
		reno_avoid_congestion(w, acked_pkts);
}

/* The new ssthresh. The credit belongs to the larger window, and is reset with it. */
CCA_FN u32 reno_ssthresh(struct reno_state *s, struct cca_window *w)
{
	s->prior_cwnd_pkts = w->cwnd_pkts;
	w->credit_pkts = 0;
	return cca_max_u32(w->cwnd_pkts / 2, RENO_MIN_CWND_PKTS);
}

CCA_FN u32 reno_undo(struct reno_state *s, const struct cca_window *w)
{
	return cca_max_u32(w->cwnd_pkts, s->prior_cwnd_pkts);
}

#endif /* CCA_RENO_H */
