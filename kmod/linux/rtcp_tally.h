/* SPDX-License-Identifier: GPL-2.0 */
/*
 * R-TCP counts segments behind rate limiters, for both hosts in the kernel. The socket's own
 * counters are read with each ACK. What was sent since the last one counts as limited if the
 * client is classified as limited. All numbers of a flow are 32 bits and may wrap.
 *
 *   p    = limited_segments / segments                    the share behind limiters
 *   u    = limited_retransmitted / limited_segments       their retransmission rate
 *   p u  = limited_retransmitted / segments               what a cap can save: the part of
 *          equation 1 (R-TCP 2026, section 2.1) that flows behind limiters cause
 */
#ifndef CCATUNE_RTCP_TALLY_H
#define CCATUNE_RTCP_TALLY_H

struct rtcp_counts {
	u32 segments;			/* sent, including retransmissions */
	u32 retransmitted;
	u32 limited_segments;		/* the same, while the client was limited */
	u32 limited_retransmitted;
};

struct rtcp_tally {
	struct rtcp_counts now;		/* since the connection began */
	struct rtcp_counts reported;	/* of these, added to the totals of `status` */
};

/* Adds what the socket has sent since the last call. Returns that. */
static inline struct rtcp_counts rtcp_tally_read(struct rtcp_tally *t, u32 segments,
						 u32 retransmitted, bool limited)
{
	struct rtcp_counts more = {
		.segments = segments - t->now.segments,
		.retransmitted = retransmitted - t->now.retransmitted,
	};

	t->now.segments = segments;
	t->now.retransmitted = retransmitted;
	if (limited) {
		more.limited_segments = more.segments;
		more.limited_retransmitted = more.retransmitted;
		t->now.limited_segments += more.segments;
		t->now.limited_retransmitted += more.retransmitted;
	}
	return more;
}

/* A connection begins, or has changed its algorithm, with these counters of its socket. */
static inline void rtcp_tally_init(struct rtcp_tally *t, u32 segments, u32 retransmitted)
{
	struct rtcp_counts start = { .segments = segments, .retransmitted = retransmitted };

	t->now = start;
	t->reported = start;
}

#endif /* CCATUNE_RTCP_TALLY_H */
