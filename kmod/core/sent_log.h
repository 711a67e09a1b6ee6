/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What was in flight, and lost, when a packet was sent: for a host that keeps neither with its
 * packets, and whose algorithm asks for it (bbr3.h; draft-ietf-ccwg-bbr-06, section 5.5.10:
 * P.tx_in_flight, P.lost).
 *
 * With a packet every host keeps how many had been delivered when it was sent, for its delivery
 * rates. All that are sent between two ACKs have that count in common. So one note for each ACK
 * tells it of all of them:
 *
 *   note (delivered, in flight, lost)   at an ACK, of what was sent since the one before
 *   an ACK's packet, sent at D          the newest note of at most D
 *   a packet that is lost               as the newest one that had arrived before this was known:
 *                                       a path that keeps order sent it right ahead of that one
 *
 * A note is made where something was sent, and differs from the last one: in what was lost, or
 * by a thirty-second of what is in flight in the two others. So those kept are of the last window
 * or two, however large it is.
 *
 * Limits. In flight counts the last packet sent before the next ACK: for an earlier one it is too
 * large by what was sent between two ACKs, and where notes are left out too large or too small by
 * a thirty-second. Where losses come with more ACKs than there are notes, the oldest one stands
 * for what is older. What a timeout took for lost stays lost where it proves to be none.
 * DEVIATION: the losses that are told at a time are told as one. Sent one after the other they
 * had about the same in flight, and the last one lost has the most losses: what any of them
 * would show of too much in flight, it shows.
 *
 * Overflow: windows are at most 2^24 packets; counters wrap at 2^32, and are compared by order.
 */
#ifndef CCA_SENT_LOG_H
#define CCA_SENT_LOG_H

#include "cca.h"

#define CCA_SENT_NOTES 64u	/* a power of two, twice CCA_SENT_PARTS */
#define CCA_SENT_PARTS 32u	/* of what is in flight, a note each */

struct cca_sent_note {
	u32 delivered_pkts;	/* of the connection, when they were sent; so are ... */
	u32 inflight_pkts;	/* ... with the last of them ... */
	u32 lost_pkts;		/* ... and before them */
};

struct cca_sent_log {
	struct cca_sent_note note[CCA_SENT_NOTES];
	u32 oldest, next;	/* notes [oldest, next), free-running */
	u32 sent_pkts;		/* of the connection, up to the last ACK */
	u32 lost_pkts;		/* of the connection, as far as the algorithm was told */
	u32 sampled_pkts;	/* delivered when the newest packet that has arrived was sent */
	bool app_limited;	/* that packet was */
};

CCA_FN void cca_sent_init(struct cca_sent_log *log, u32 sent_pkts, u32 delivered_pkts,
			  u32 lost_pkts)
{
	__builtin_memset(log, 0, sizeof(*log));
	log->sent_pkts = sent_pkts;
	log->lost_pkts = lost_pkts;
	log->sampled_pkts = delivered_pkts;
}

CCA_FN struct cca_sent_note *cca_sent_at(struct cca_sent_log *log, u32 index)
{
	return &log->note[index & (CCA_SENT_NOTES - 1)];
}

CCA_FN bool cca_sent_is_near(const struct cca_sent_note *a, const struct cca_sent_note *b)
{
	u32 part_pkts = cca_min_u32(a->inflight_pkts, b->inflight_pkts) / CCA_SENT_PARTS;
	u32 more_pkts = cca_max_u32(a->inflight_pkts, b->inflight_pkts) -
			cca_min_u32(a->inflight_pkts, b->inflight_pkts);

	return a->lost_pkts == b->lost_pkts && more_pkts < part_pkts &&
	       b->delivered_pkts - a->delivered_pkts < part_pkts;
}

/*
 * With each ACK: what was sent since the one before. sent: packets of the connection so far,
 * those sent again too. about: delivered and lost up to the ACK before, in flight ahead of this.
 */
CCA_FN void cca_sent_note(struct cca_sent_log *log, u32 sent_pkts,
			  const struct cca_sent_note *about)
{
	struct cca_sent_note note = *about;
	const struct cca_sent_note *last = cca_sent_at(log, log->next - 1);
	bool is_first = log->next == log->oldest;

	note.inflight_pkts = cca_min_u32(note.inflight_pkts, CCA_MAX_PKTS);
	if (!is_first && sent_pkts == log->sent_pkts)
		return;
	log->sent_pkts = sent_pkts;
	if (!is_first && cca_sent_is_near(last, &note))
		return;
	if (!is_first && last->delivered_pkts == note.delivered_pkts)
		log->next--;
	if (log->next - log->oldest == CCA_SENT_NOTES)
		log->oldest++;
	*cca_sent_at(log, log->next++) = note;
}

/* The newest note of at most so many delivered, or the oldest there is; NULL without any. */
CCA_FN const struct cca_sent_note *cca_sent_find(struct cca_sent_log *log, u32 delivered_pkts)
{
	u32 low = log->oldest, high = log->next, middle;

	if (low == high)
		return (const struct cca_sent_note *)0;
	/* The one asked for is in [low, high), or older than low: six halvings of 64. */
	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (cca_reached(delivered_pkts, cca_sent_at(log, middle)->delivered_pkts))
			low = middle;
		else
			high = middle;
	}
	return cca_sent_at(log, low);
}

/*
 * What ACKs and timers took for lost since this was asked last: with each ACK, ahead of its
 * sample, and ahead of what tells of a timeout or undoes it. false: nothing. delivered, lost: of
 * the connection. A loss is of itself at least, and of those told with it.
 */
CCA_FN bool cca_sent_loss(struct cca_sent_log *log, u64 now_us, u32 delivered_pkts,
			  u32 lost_pkts, struct cca_loss *loss)
{
	u32 untold_pkts = lost_pkts - log->lost_pkts;
	const struct cca_sent_note *note;

	if (!untold_pkts)
		return false;
	note = cca_sent_find(log, log->sampled_pkts);
	log->lost_pkts = lost_pkts;
	loss->now_us = now_us;
	loss->delivered_pkts = delivered_pkts;
	loss->tx_inflight_pkts = note ? note->inflight_pkts : 0;
	loss->lost_since_pkts = note ? cca_max_u32(lost_pkts - note->lost_pkts, untold_pkts) : 0;
	loss->app_limited = log->app_limited;
	return true;
}

/* The ACK shows a packet to have arrived that was sent when so many were delivered. */
CCA_FN void cca_sent_sample(struct cca_sent_log *log, u32 delivered_pkts, bool app_limited)
{
	if (!cca_reached(delivered_pkts, log->sampled_pkts))
		return;
	log->sampled_pkts = delivered_pkts;
	log->app_limited = app_limited;
}

/* What was known of the packet that the ACK samples. lost: of the connection, this ACK's too. */
CCA_FN void cca_sent_put(struct cca_sent_log *log, u32 lost_pkts, struct cca_ack *ack)
{
	const struct cca_sent_note *note = (const struct cca_sent_note *)0;

	if (cca_has_rate(ack))
		note = cca_sent_find(log, cca_prior_delivered(ack));
	ack->tx_inflight_pkts = note ? note->inflight_pkts : 0;
	ack->lost_since_pkts = note ? lost_pkts - note->lost_pkts : 0;
}

/*
 * The host sends again what nothing was wrong with (a path's MTU that shrank): what is not told
 * yet counts for none, for packets in flight either. A timer's losses among it are not told.
 */
CCA_FN void cca_sent_forget(struct cca_sent_log *log, u32 lost_pkts)
{
	u32 i, more_pkts = lost_pkts - log->lost_pkts;

	for (i = 0; i < CCA_SENT_NOTES; i++)
		log->note[i].lost_pkts += more_pkts;
	log->lost_pkts = lost_pkts;
}

#endif /* CCA_SENT_LOG_H */
