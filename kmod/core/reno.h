/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Reno: slow start and congestion avoidance (RFC 5681). Counts what was ACKed,
 * not ACKs (RFC 3465), so that stretched ACKs do not slow it down.
 *
 *   cwnd <  ssthresh:  cwnd += acked               (RFC 5681 eq. 2)
 *   cwnd >= ssthresh:  cwnd += 1 per cwnd acked    (RFC 5681 eq. 3)
 *   loss:              ssthresh = max(cwnd / 2, 2) (RFC 5681 eq. 4)
 *   spurious loss:     cwnd = what it was before   (RFC 4015 section 3)
 *
 * The smallest algorithm of window mode: it proves the contract of cca.h.
 * DEVIATION: RFC 5681 eq. 4 halves the flight; as in Linux it is the window
 * that is halved, which the host keeps from growing while it is not used.
 */
#ifndef CCA_RENO_H
#define CCA_RENO_H

#include "cca.h"

#define RENO_MIN_CWND_PKTS 2u

struct reno_state {
	u32 prior_cwnd_pkts;	/* when the last loss episode began */
};

CCA_FN void reno_init(struct reno_state *s)
{
	s->prior_cwnd_pkts = 0;
}

/* Reno learns nothing from an ACK beyond what reno_grow() is told. */
CCA_FN void reno_on_ack(struct reno_state *s, const struct cca_ack *ack)
{
	(void)s;
	(void)ack;
}

/* Returns the ACKs left when slow start ends within them. */
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

	/* A host that lowered the window by itself: as in reno_ssthresh(). */
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

/* The credit was earned towards a packet of the larger window: it ends with it. */
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
