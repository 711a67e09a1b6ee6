/* SPDX-License-Identifier: GPL-2.0 */
/*
 * R-TCP counts the segments that are sent to limited clients, in the modules and in BPF. The
 * socket's own counters are read with each ACK. Segments sent since the previous ACK count as
 * limited if the client is classified as limited. All counts of a flow have 32 bits and may wrap.
 *
 *   p    = limited_segments / segments                    the share sent to limited clients
 *   u    = limited_retransmitted / limited_segments       their retransmission rate
 *   p u  = limited_retransmitted / segments               what a cap can save: the term of
 *          limited clients in equation 1 (R-TCP 2026, section 2.1)
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
	struct rtcp_counts reported;	/* the part of these that is in the totals of `status` */
};

/* Adds the segments that the socket has sent since the last call, and returns their counts. */
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

/* The counters of the socket when the connection begins or changes its algorithm. */
static inline void rtcp_tally_init(struct rtcp_tally *t, u32 segments, u32 retransmitted)
{
	struct rtcp_counts start = { .segments = segments, .retransmitted = retransmitted };

	t->now = start;
	t->reported = start;
}

#endif /* CCATUNE_RTCP_TALLY_H */
