/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * SIRA's sliding window (sira.h): the packets whose ACKs came in each of the last M intervals.
 *
 *   c_j     packets acknowledged in interval j                                    (eq. 1)
 *   R_i     (c_{i-M} + ... + c_{i-1}) / (M Delta)                                 (eq. 3)
 *
 * While fewer than M intervals have ended, the missing ones are imagined. Each holds X Delta:
 *
 *   R_i     (X (M - (i - 1)) Delta + c_0 + ... + c_{i-1}) / (M Delta)             (eq. 2)
 *
 * Each packet of the window thus makes SIRA send 1/M packet in each of M intervals, that is, one
 * packet. `due` is what is left of this, and so it is what SIRA would still send if no ACK came
 * any more. Packets in flight + due packets stay constant, unless packets are lost.
 *
 * Units: the window's total is in 1/M packet, `due` in 1/M^2 packet. Both are exact.
 *
 * Bounds: a slot has at most 2^16 - 1 packets and M is below 2^9, so that the sum is below 2^25. At
 * most 2^24 packets are imagined. So the total is below 2^35, and `due` below 2^44. ACKs of more
 * packets in one interval are not counted. At 1448 bytes and 2 ms this is from 380 Gbit/s on.
 *
 * The window costs 2 bytes for each interval, that is 1 KiB. Slots need no initial value.
 */
#ifndef CCA_SIRA_WINDOW_H
#define CCA_SIRA_WINDOW_H

#include "params.h"

#define SIRA_SLOTS 512u			/* a power of two, > the largest M */
#define SIRA_SLOT_PKTS 65535u

struct sira_window {
	u64 due;			/* in 1/M^2 packets */
	u32 intervals;			/* M */
	u32 ended;			/* intervals since the window was filled, at most M */
	u32 sum_pkts;			/* of these intervals */
	u32 imagined_pkts;		/* of M imagined intervals */
	u32 next;			/* slot of the next interval, free-running */
	u16 pkts[SIRA_SLOTS];
};

CCA_FN u16 *sira_slot(struct sira_window *w, u32 index)
{
	return &w->pkts[index & (SIRA_SLOTS - 1)];
}

/* Fills the window with imagined intervals, of `pkts` packets together. */
CCA_FN void sira_window_fill(struct sira_window *w, u32 intervals, u64 pkts)
{
	w->intervals = cca_clamp_u32(intervals, 1, SIRA_SLOTS - 1);
	w->imagined_pkts = (u32)cca_min_u64(pkts, CCA_MAX_PKTS);
	w->ended = 0;
	w->sum_pkts = 0;
	w->next = 0;
	/* The oldest interval has 1/M of its packets left to send, the newest all of them. */
	w->due = (u64)w->imagined_pkts * (w->intervals * (w->intervals + 1) / 2);
}

/* Whether eq. 2 is in force. */
CCA_FN bool sira_window_is_first(const struct sira_window *w)
{
	return w->ended < w->intervals;
}

/* The packets of the window, in 1/M packet: M Delta R_i. */
CCA_FN u64 sira_window_total(const struct sira_window *w)
{
	return (u64)w->sum_pkts * w->intervals +
	       (u64)w->imagined_pkts * (w->intervals - w->ended);
}

/*
 * Adds packets to the newest interval, as if their ACKs had come in it. Returns how many fit.
 * Only call this after an interval has ended.
 */
CCA_FN u32 sira_window_add(struct sira_window *w, u64 pkts)
{
	u16 *slot = sira_slot(w, w->next - 1);
	u32 added = (u32)cca_min_u64(pkts, SIRA_SLOT_PKTS - *slot);

	*slot = (u16)(*slot + added);
	w->sum_pkts += added;
	w->due += (u64)added * w->intervals * w->intervals;
	return added;
}

/* The window moves on by an interval, in which no ACK came. */
CCA_FN void sira_window_slide(struct sira_window *w)
{
	w->due -= sira_window_total(w);
	if (w->ended < w->intervals)
		w->ended++;
	else
		w->sum_pkts -= *sira_slot(w, w->next - w->intervals);
	*sira_slot(w, w->next++) = 0;
}

/*
 * Ends `count` intervals. The ACKs of `pkts` packets came in the first one. Returns what eq. 2 and
 * 3 send in these intervals, in 1/M^2 packet. After M + 1 intervals the window is empty.
 */
CCA_FN u64 sira_window_end(struct sira_window *w, u32 pkts, u32 count)
{
	u64 before = w->due;
	u32 i;

	sira_window_slide(w);
	before += (u64)sira_window_add(w, pkts) * w->intervals * w->intervals;
	for (i = 0; i < SIRA_SLOTS && i + 1 < count && w->due; i++)
		sira_window_slide(w);
	return before - w->due;
}

#endif /* CCA_SIRA_WINDOW_H */
