/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * SIRA's sliding window (sira.h): the packets whose ACKs came in each of the last M intervals.
 *
 *   c_j     packets acknowledged in interval j                                    (eq. 1)
 *   R_i     (c_{i-M} + ... + c_{i-1}) / (M Delta)                                 (eq. 3)
 *
 * While fewer than M intervals have passed, the missing ones hold X Delta each. That is eq. 2:
 *
 *   R_i     (X (M - (i - 1)) Delta + c_0 + ... + c_{i-1}) / (M Delta)
 *
 * Each packet of the window thus makes SIRA send 1/M packet in each of M intervals, that is, one
 * packet. `due` is what is left of this, and so it is what SIRA would still send if no ACK came
 * any more. Packets in flight + due packets stay constant, unless packets are lost.
 *
 * Numbers of packets are whole. Where a part counts, its unit is 1/M packet.
 *
 * Bounds: a slot has at most 2^16 - 1 packets and M is below 2^9. So the sum is below 2^25, and
 * `due` below 2^25 x 2^9. ACKs of more packets in one interval are not counted. At 1448 bytes and
 * 2 ms this is from 380 Gbit/s on.
 *
 * The window costs 2 bytes for each interval, that is 1 KiB.
 */
#ifndef CCA_SIRA_WINDOW_H
#define CCA_SIRA_WINDOW_H

#include "cca.h"

#define SIRA_SLOTS 512u			/* a power of two, > the largest M */
#define SIRA_SLOT_PKTS 65535u

struct sira_window {
	u64 due;			/* in 1/M packets */
	u32 sum_pkts;
	u32 intervals;			/* M, at least 1 */
	u32 next;			/* slot of the next interval, free-running */
	u16 pkts[SIRA_SLOTS];
};

CCA_FN u16 *sira_slot(struct sira_window *w, u32 index)
{
	return &w->pkts[index & (SIRA_SLOTS - 1)];
}

/*
 * Fills the window with `pkts` packets, spread evenly over `intervals`. The slot that was filled
 * first is that of the oldest interval, which has 1/M of its packets left to send.
 */
CCA_FN void sira_window_fill(struct sira_window *w, u32 intervals, u64 pkts)
{
	u32 m = cca_clamp_u32(intervals, 1, SIRA_SLOTS - 1), rest, carry = 0, slot, i;
	u64 each = cca_div(pkts, m);

	rest = each < SIRA_SLOT_PKTS ? (u32)(pkts - each * m) : 0;
	each = cca_min_u64(each, SIRA_SLOT_PKTS);
	w->intervals = m;
	w->next = m;
	w->sum_pkts = 0;
	w->due = 0;
	for (i = 0; i < SIRA_SLOTS && i < m; i++) {
		slot = (u32)each;
		carry += rest;
		if (carry >= m) {
			carry -= m;
			slot++;
		}
		*sira_slot(w, i) = (u16)slot;
		w->sum_pkts += slot;
		w->due += slot * (i + 1);
	}
}

/* Adds packets to the newest interval, as if their ACKs had come in it. Returns how many fit. */
CCA_FN u32 sira_window_add(struct sira_window *w, u64 pkts)
{
	u16 *slot = sira_slot(w, w->next - 1);
	u32 added = (u32)cca_min_u64(pkts, SIRA_SLOT_PKTS - *slot);

	*slot += (u16)added;
	w->sum_pkts += added;
	w->due += (u64)added * w->intervals;
	return added;
}

/* The window moves on by an interval, in which no ACK came. */
CCA_FN void sira_window_slide(struct sira_window *w)
{
	w->due -= w->sum_pkts;
	w->sum_pkts -= *sira_slot(w, w->next - w->intervals);
	*sira_slot(w, w->next++) = 0;
}

/*
 * Ends `count` intervals. The ACKs of `pkts` packets came in the first one. Returns what eq. 2 and 3
 * send in these intervals, in 1/M packets. After M + 1 intervals the window is empty.
 */
CCA_FN u64 sira_window_end(struct sira_window *w, u32 pkts, u32 count)
{
	u64 before = w->due, added;
	u32 i;

	sira_window_slide(w);
	added = (u64)sira_window_add(w, pkts) * w->intervals;
	for (i = 1; i < SIRA_SLOTS + 1 && i < count && w->sum_pkts; i++)
		sira_window_slide(w);
	return before + added - w->due;
}

#endif /* CCA_SIRA_WINDOW_H */
