/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A log of the packets in flight and lost when each packet was sent. It is for a host that does
 * not store these numbers with its packets, but runs an algorithm that needs them (bbr3.h;
 * draft-ietf-ccwg-bbr-06, section 5.5.10: P.tx_in_flight, P.lost).
 *
 * For its delivery rates every host stores with a packet how many packets were delivered when it
 * was sent. This count is the same for all packets sent between two ACKs. So the log needs one
 * note for each ACK, and finds it by the count:
 *
 *   note (delivered, in flight, lost)   made at an ACK, for the packets sent since the last ACK
 *   packet that an ACK samples          It was sent when D were delivered. Its note is the newest
 *                                       one with at most D delivered.
 *   lost packet                         Its note is that of the newest packet that had arrived
 *                                       before the loss was detected. Without reordering the lost
 *                                       packet was sent just before that one.
 *
 * A note is made if packets were sent, and if it differs from the last note: in its losses, or
 * by 1/32 of the packets in flight in one of the two other numbers. So the log covers the last one
 * or two windows, however large they are.
 *
 * Limits. The in-flight count is that of the last packet sent before the next ACK. For an earlier
 * packet it is too large by the packets sent between the two ACKs. Where a note was omitted it is
 * too large or too small by up to 1/32. If more ACKs report losses than the log has notes, the
 * oldest note is used for all older packets. Packets that a timeout marked as lost stay lost in
 * the log even if the timeout was spurious.
 * DEVIATION: losses that are detected together are reported as one loss. Their packets were sent
 * one after the other with about the same number in flight, and the last one has the most losses.
 * So if any of them shows too many packets in flight, the last one shows it.
 *
 * Overflow: windows are at most 2^24 packets. Counters wrap at 2^32, and are compared by sequence
 * order.
 */
#ifndef CCA_SENT_LOG_H
#define CCA_SENT_LOG_H

#include "cca.h"

#define CCA_SENT_NOTES 64u	/* a power of two, twice CCA_SENT_PARTS */
#define CCA_SENT_STEPS 6u	/* of a search: 64 notes are 2^6 */
#define CCA_SENT_PARTS 32u	/* a change of 1/32 of the packets in flight makes a note */

/* For the packets sent between two ACKs. */
struct cca_sent_note {
	u32 delivered_pkts;	/* of the connection, when they were sent */
	u32 inflight_pkts;	/* after the last of them was sent */
	u32 lost_pkts;		/* of the connection, before they were sent */
};

struct cca_sent_log {
	struct cca_sent_note note[CCA_SENT_NOTES];
	u32 oldest, next;	/* notes [oldest, next), free-running */
	u32 sent_pkts;		/* of the connection, up to the last ACK */
	u32 lost_pkts;		/* of the connection, up to the last loss that was reported */
	u32 sampled_pkts;	/* delivered when the newest packet that has arrived was sent */
	bool app_limited;	/* the application limited the sender when it sent that packet */
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
 * Notes the packets sent since the last ACK. Call this at each ACK. sent_pkts: packets sent on the
 * connection so far, with retransmissions. about: packets delivered and lost up to the last ACK,
 * and packets in flight just before this ACK.
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

/* The newest note with at most delivered_pkts, or else the oldest note; NULL without notes. */
CCA_FN const struct cca_sent_note *cca_sent_find(struct cca_sent_log *log, u32 delivered_pkts)
{
	u32 low = log->oldest, high = log->next, middle, step;

	if (low == high)
		return (const struct cca_sent_note *)0;
	/* The required note is in [low, high) or before low. */
	for (step = 0; step < CCA_SENT_STEPS && high - low > 1; step++) {
		middle = low + (high - low) / 2;
		if (cca_reached(delivered_pkts, cca_sent_at(log, middle)->delivered_pkts))
			low = middle;
		else
			high = middle;
	}
	return cca_sent_at(log, low);
}

/*
 * Fills in the losses that ACKs and timers have detected since the last call. Returns false if
 * there are none. Call this at each ACK, before its sample, and before a timeout or an undo is
 * reported. delivered_pkts and lost_pkts are of the whole connection. lost_since_pkts of the loss
 * counts at least the packets that this call reports.
 */
CCA_FN bool cca_sent_loss(struct cca_sent_log *log, u64 now_us, u32 delivered_pkts,
			  u32 lost_pkts, struct cca_loss *loss)
{
	u32 new_pkts = lost_pkts - log->lost_pkts;
	const struct cca_sent_note *note;

	if (!new_pkts)
		return false;
	note = cca_sent_find(log, log->sampled_pkts);
	log->lost_pkts = lost_pkts;
	loss->now_us = now_us;
	loss->delivered_pkts = delivered_pkts;
	loss->tx_inflight_pkts = note ? note->inflight_pkts : 0;
	loss->lost_since_pkts = note ? cca_max_u32(lost_pkts - note->lost_pkts, new_pkts) : 0;
	loss->app_limited = log->app_limited;
	return true;
}

/* An ACK reports the arrival of a packet that was sent when delivered_pkts were delivered. */
CCA_FN void cca_sent_sample(struct cca_sent_log *log, u32 delivered_pkts, bool app_limited)
{
	if (!cca_reached(delivered_pkts, log->sampled_pkts))
		return;
	log->sampled_pkts = delivered_pkts;
	log->app_limited = app_limited;
}

/*
 * Fills in tx_inflight_pkts and lost_since_pkts of the packet that the ACK samples. lost_pkts: of
 * the connection, including the losses of this ACK.
 */
CCA_FN void cca_sent_put(struct cca_sent_log *log, u32 lost_pkts, struct cca_ack *ack)
{
	const struct cca_sent_note *note = (const struct cca_sent_note *)0;

	if (cca_has_rate(ack))
		note = cca_sent_find(log, cca_prior_delivered(ack));
	ack->tx_inflight_pkts = note ? note->inflight_pkts : 0;
	ack->lost_since_pkts = note ? lost_pkts - note->lost_pkts : 0;
}

/*
 * The host retransmits packets although none was lost, because the path's MTU has shrunk. Losses
 * that are not yet reported are then discarded, and lost_since_pkts of the packets in flight does
 * not count them. Losses that a timer has detected may be among them, and are not reported either.
 */
CCA_FN void cca_sent_forget(struct cca_sent_log *log, u32 lost_pkts)
{
	u32 i, more_pkts = lost_pkts - log->lost_pkts;

	for (i = 0; i < CCA_SENT_NOTES; i++)
		log->note[i].lost_pkts += more_pkts;
	log->lost_pkts = lost_pkts;
}

#endif /* CCA_SENT_LOG_H */
