/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP: detects whether a client is behind a rate limiter, and estimates its rate and bucket
 * (R-TCP 2026, sections 4.1 to 4.4 and 5.3). rtcp_fit.h has the estimate itself, rtcp_cap.h
 * and rtcp_probing.h the reaction.
 *
 *              l / (d + l) > beta                R / R_h < theta, unchanged for
 *   UNKNOWN ------------------------> estimating --------------------------> LIMITED
 *              over alpha rounds  (2)            epsilon rounds        (13)     |
 *                                                                  R >= theta R_h
 *                                      CLEARED <---------------------------------+
 *
 *   transfer   begins when the application has data again; t and A(t) start at 0
 *   round      the least round trip, at least 1 ms
 *   R_h        A(t_h) / t_h, the rate up to the trigger; the largest one counts      (12)
 *   B          the largest of all transfers whose estimate was classified
 *   tokens     e = min(e + R dt, B) - acknowledged bytes                        (18 to 20)
 *
 * This state belongs to a client. All its flows report their ACKs to it, as if they were one flow
 * (section 4.4; rtcp_flows.h). The host passes the client to each function, and holds its lock. A
 * host without a table of clients (rtcp_clients.h) gives each connection a client of its own.
 *
 * CHOICES, where the paper is silent:
 *   unchanged     {B, R} is unchanged over a time w if the present line C and the line of w ago
 *                 agree at the present time, to within R w / 8 + 2 packets. R w / 8 is an eighth
 *                 of the bytes that the limiter passes in w. Clock resolution and jitter stay
 *                 below it, and a rate that differs by more is a change. Also, A(t) must follow
 *                 C: it never deviates from R w by more than an eighth of R epsilon rounds + 2
 *                 packets, and it reaches RTCP_WITNESS_PKTS. Without this test an estimate could
 *                 be unchanged only because hardly any packets were delivered.
 *   steady        DEVIATION (probing 0): {B, R} must be unchanged for epsilon rounds, and for at
 *                 least t / 16. A limiter's {B, R} is the same from about 2 t_h on (rtcp_fit.h),
 *                 so this only delays its detection to about 2.13 t_h. A link without a limiter
 *                 also has times of a constant rate. Over a whole transfer, the number of those
 *                 that last for epsilon rounds (half a second at 45 ms) is proportional to t,
 *                 and any of them could be taken for a limiter. The number of those that last
 *                 for t / 16 is proportional to log t only. The tolerance for A(t) remains that
 *                 of epsilon rounds.
 *   refused       DEVIATION (probing 0): a client becomes limited only if packets were lost in
 *                 RTCP_REFUSALS rounds of the time for which {B, R} is unchanged. A sender that
 *                 is slow after a burst of loss, or because of its own window, also follows a
 *                 line, and so does a link of a lower rate. Both conditions of section 4.3 hold
 *                 there, but nothing is dropped. A limiter drops packets sent above R, round
 *                 after round; a burst ends within one or two rounds. A shaper whose queue never
 *                 overflows is not detected: it drops no packet either.
 *   A(t)          the bytes that ACKs newly delivered, selective ones included, with each ACK's
 *                 MSS. Only differences count, so wrapping and a new MSS do not matter.
 *   time          the sum of the times between ACKs. ACKs of several flows on several processors
 *                 arrive slightly out of order: up to RTCP_LATE_US before the latest one, no time
 *                 has passed. A clock that steps back by more continues from there. A gap of more
 *                 than RTCP_GAP_US (a suspended machine) starts a transfer.
 *   long flows    A transfer ends after 2^39 us (6 days) or 2^42 bytes, and the next one begins.
 *   tokens        are bounded by B at each ACK, not only at the end (20). A lost packet takes
 *                 RTCP_LOSS_WEIGHT packets of tokens. So a few tokens are used up, but random loss
 *                 leaves most of a bucket that an idle time has filled. After loss beyond beta no
 *                 tokens remain. This is decided from RTCP_HEAVY_PKTS packets on, before the alpha
 *                 rounds end. None remain at the first classification: the bucket was emptied.
 *   change        A classified limiter has changed if more was delivered than {B, R} has tokens
 *                 for, by two packets and 4 ms of R, or if R moved by more than an eighth. The
 *                 excess before a loss is discarded, because the bucket was empty then.
 *   windows       If a client has a flow capped by a window, a change is eight packets and 4 ms of
 *                 R. With a window of two packets a loss is detected only after a delayed ACK and
 *                 a tail-loss probe, about 90 ms late. At 1.04 Mbit/s tokens for seven packets
 *                 arrive in that time, and the loss removes all of them from e. The excess is also
 *                 discarded when a probe begins, because no cap is below a pair, which may exceed
 *                 R sRTT round after round. The ACKs of such a flow mark the client (`windowed`).
 *                 The probe of another flow removes the mark until the next of these ACKs.
 *   cleared       A limiter counts as gone if R exceeds theta R_h by a sixteenth. The estimate
 *                 approaches R from below. If R is just below theta R_h, its last steps would
 *                 otherwise clear the client.
 *   no trigger    A later transfer may have no trigger, because the cap prevents losses. B, R and
 *                 the class then do not change. If more is delivered, the bucket may be fuller
 *                 than ever before. That is a change, which lifts the cap for as long as it lasts.
 */
#ifndef CCA_RTCP_DETECT_H
#define CCA_RTCP_DETECT_H

#include "rtcp_fit.h"

#define RTCP_GAP_US CCA_MAX_RTT_US
#define RTCP_LATE_US 1000000u
#define RTCP_MIN_RTT_WINDOW_US 300000000u	/* Linux's tcp_min_rtt_wlen */
#define RTCP_LOSS_WEIGHT 8u
#define RTCP_HEAVY_PKTS 10u
#define RTCP_LEAST_BYTES_PER_S 1000u	/* no cap is lower: 8 kbit/s */
#define RTCP_TOLERANCE 8u		/* a difference of more than 1/8 is a change */
#define RTCP_WITNESS_PKTS 16u		/* 1/8 of these is RTCP_NOISE_PKTS */
#define RTCP_STEADY_PART 16u		/* {B, R} must be unchanged for 1/16 of the transfer */
#define RTCP_LIFTED_PART 16u		/* no limit if R is at least 1/16 above theta R_h */
#define RTCP_NOISE_PKTS 2u
#define RTCP_WINDOW_NOISE_PKTS 8u
#define RTCP_REFUSALS 4u		/* rounds with a loss, on the line */

enum rtcp_class {
	RTCP_UNKNOWN,
	RTCP_LIMITED,
	RTCP_CLEARED,		/* no limiter, or it is gone; detection is off */
	RTCP_SPLIT,		/* its flows pass several limiters; nothing is shared */
};

struct rtcp_client {
	struct rtcp_fit fit;
	u64 last_us;		/* the host's clock at the last ACK or event */
	u64 clock_us;		/* time since the client became known */
	u64 start_us;		/* of the transfer, on clock_us */
	u64 acked_bytes;	/* A(t) */
	u64 bucket_bytes;	/* B, and R below: while LIMITED */
	u64 past_bucket_bytes;	/* of transfers before this one */
	u64 token_deficit_bytes;		/* tokens missing from a full bucket */
	u64 anchor_bytes;	/* anchor, the line that must not change: its B, ... */
	u64 anchor_acked_bytes;	/* ... A(t) when it was set, ... */
	u32 anchor_t_q10s;	/* ... that t, in 2^-10 s (2^31 are 24 days), ... */
	u32 anchor_bytes_per_s;	/* ... and its R */
	u32 bytes_per_s;
	u32 reported_rate_bytes_per_s;	/* R at its last change */
	u32 trigger_bytes_per_s;	/* R_h of this transfer */
	u32 before_bytes_per_s;		/* largest R_h of all that were classified */
	u32 loss_start;		/* rtcp_stamp() of the loss that starts the alpha rounds */
	u32 lost_pkts, delivered_pkts;	/* since then */
	u32 min_rtt_us;		/* 0: unknown */
	u32 min_rtt_at_s;	/* of clock_us */
	u32 inflight_pkts;	/* of all its flows */
	u16 flows;		/* with data; section 4.4 */
	u16 sharing;		/* flows with enough data to count in g, equation 22 */
	u16 theta_permille;	/* fixed at the trigger */
	u16 mss_bytes;
	u16 recent_loss_q16;	/* recent share of lost packets, while several flows have data */
	u16 refused_at;		/* rtcp_refusal_stamp() of the last round that counts */
	u8 kind;		/* enum rtcp_class */
	u8 changes;		/* counts changes of a classified limiter. Flows compare this ... */
	u8 heavy_losses;	/* ... and this count, of losses beyond beta, with their last one */
	u8 refusals : 4;	/* rounds with a loss since the anchor, at most RTCP_REFUSALS */
	bool settled : 1;	/* this transfer's estimate is classified */
	bool losing : 1;	/* alpha rounds since a loss are running */
	bool reduced : 1;	/* equation 13 has held, once */
	bool windowed : 1;	/* one of its flows is capped by a window */
};

/* --- clock, rounds, tokens ------------------------------------------------------------ */

CCA_FN u64 rtcp_transfer_us(const struct rtcp_client *c)
{
	return c->clock_us - c->start_us;
}

/* A time of clock_us in 32 bits, in units of 16 us. Differences must be below 2^36 us, 19 hours. */
CCA_FN u32 rtcp_stamp(const struct rtcp_client *c)
{
	return (u32)(c->clock_us >> 4);
}

CCA_FN u64 rtcp_since_us(const struct rtcp_client *c, u32 stamp)
{
	return (u64)(rtcp_stamp(c) - stamp) << 4;
}

CCA_FN u64 rtcp_round_us(const struct rtcp_client *c)
{
	return cca_max_u32(c->min_rtt_us, RTCP_MIN_US);
}

/* e in bytes: the estimated tokens in the bucket. */
CCA_FN u64 rtcp_tokens(const struct rtcp_client *c)
{
	return rtcp_less(c->bucket_bytes, c->token_deficit_bytes);
}

CCA_FN void rtcp_empty(struct rtcp_client *c)
{
	c->token_deficit_bytes = cca_max_u64(c->token_deficit_bytes, c->bucket_bytes);
}

/* The noise threshold: so many bytes above the line are no change. Below 2^19 + 2^24. */
CCA_FN u32 rtcp_noise_bytes(const struct rtcp_client *c)
{
	u32 pkts = c->windowed ? RTCP_WINDOW_NOISE_PKTS : RTCP_NOISE_PKTS;

	return pkts * c->mss_bytes + (c->bytes_per_s >> 8);
}

CCA_FN void rtcp_begin_transfer(struct rtcp_client *c)
{
	if (c->settled)
		c->past_bucket_bytes = c->bucket_bytes;
	c->start_us = c->clock_us;
	c->acked_bytes = 0;
	c->fit.count = 0;
	c->settled = false;
	c->losing = false;
}

/* Advances the clock and adds tokens. Returns false if a gap in time has begun a transfer. */
CCA_FN bool rtcp_advance(struct rtcp_client *c, u64 now_us)
{
	u64 gap_us = cca_min_u64(cca_elapsed_us(now_us, c->last_us), RTCP_MAX_US);

	if (now_us < c->last_us && c->last_us - now_us <= RTCP_LATE_US)
		return true;
	c->last_us = now_us;
	c->clock_us += gap_us;
	if (c->kind == RTCP_LIMITED)
		c->token_deficit_bytes = rtcp_less(c->token_deficit_bytes,
						   rtcp_carried_us(c->bytes_per_s, gap_us));
	if (gap_us <= RTCP_GAP_US)
		return true;
	rtcp_begin_transfer(c);
	return false;
}

/*
 * Updates the minimum RTT. After RTCP_MIN_RTT_WINDOW_US without an RTT that low, any RTT replaces
 * it, because paths change.
 */
CCA_FN void rtcp_note_rtt(struct rtcp_client *c, u32 rtt_us)
{
	u32 now_s = (u32)(c->clock_us >> 20);

	if (!rtt_us || rtt_us > CCA_MAX_RTT_US ||
	    (c->min_rtt_us && rtt_us > c->min_rtt_us &&
	     now_s - c->min_rtt_at_s <= RTCP_MIN_RTT_WINDOW_US >> 20))
		return;
	c->min_rtt_us = rtt_us;
	c->min_rtt_at_s = now_s;
}

CCA_FN void rtcp_note_change(struct rtcp_client *c)
{
	c->changes++;
}

/*
 * Removes tokens: those of the delivered bytes, and RTCP_LOSS_WEIGHT times those of the lost
 * bytes, because a loss indicates that few tokens are left. Below 2^44.
 */
CCA_FN void rtcp_spend(struct rtcp_client *c, u64 bytes, u64 lost_bytes)
{
	if (c->kind != RTCP_LIMITED)
		return;
	c->token_deficit_bytes = cca_min_u64(c->token_deficit_bytes, RTCP_MAX_BYTES) + bytes;
	if (c->token_deficit_bytes < c->bucket_bytes && lost_bytes)
		c->token_deficit_bytes = cca_min_u64(c->token_deficit_bytes +
						     RTCP_LOSS_WEIGHT * lost_bytes,
					    c->bucket_bytes);
	if (c->token_deficit_bytes > c->bucket_bytes + rtcp_noise_bytes(c)) {
		c->token_deficit_bytes = c->bucket_bytes;
		rtcp_note_change(c);
	}
	/* The loss shows that the bucket is empty. It was fuller than estimated by the excess. */
	if (lost_bytes)
		c->token_deficit_bytes = cca_min_u64(c->token_deficit_bytes, c->bucket_bytes);
}

/*
 * Call this when a probe begins. It discards the excess that a cap of pairs has passed before the
 * probe, because that is no sign of a change. by_window: a window caps the flow, not pacing.
 */
CCA_FN void rtcp_forget_excess(struct rtcp_client *c, bool by_window)
{
	if (c->windowed)
		c->token_deficit_bytes = cca_min_u64(c->token_deficit_bytes, c->bucket_bytes);
	c->windowed = by_window;
}

/* --- trigger: section 4.1 --------------------------------------------------------------- */

/* Equation 2. Overflow: 2^25 x 10^3. */
CCA_FN bool rtcp_lost_much(const struct rtcp_client *c, const struct rtcp_params *p)
{
	u64 lost = c->lost_pkts, all = lost + c->delivered_pkts;

	return lost * 1000 > all * p->trigger_loss_permille;
}

/* Counts packets. Returns true if alpha rounds since a loss are over, with more loss than beta. */
CCA_FN bool rtcp_count_losses(struct rtcp_client *c, const struct rtcp_params *p,
			      u32 acked_pkts, u32 lost_pkts)
{
	u64 rounds_us = rtcp_round_us(c) * p->trigger_rounds;
	bool much;

	if (!c->losing) {
		if (!lost_pkts)
			return false;
		c->losing = true;
		c->loss_start = rtcp_stamp(c);
		c->lost_pkts = 0;
		c->delivered_pkts = 0;
	}
	c->lost_pkts = cca_min_u32(c->lost_pkts, CCA_MAX_PKTS) + lost_pkts;
	c->delivered_pkts = cca_min_u32(c->delivered_pkts, CCA_MAX_PKTS) + acked_pkts;
	much = rtcp_lost_much(c, p);
	if (much && c->lost_pkts + c->delivered_pkts >= RTCP_HEAVY_PKTS &&
	    c->kind == RTCP_LIMITED) {
		rtcp_empty(c);
		c->heavy_losses++;
	}
	if (!c->min_rtt_us || rtcp_since_us(c, c->loss_start) < rounds_us)
		return false;
	c->losing = false;
	return much;
}

/* Starts the estimate at ACK h. The bytes acknowledged so far bound B, and give R_h. */
CCA_FN void rtcp_trigger(struct rtcp_client *c, const struct rtcp_params *p)
{
	u64 t_us = rtcp_transfer_us(c);

	if (c->fit.count || t_us < RTCP_MIN_US || !c->acked_bytes)
		return;
	c->trigger_bytes_per_s = rtcp_rate(c->acked_bytes, rtcp_q20s(t_us));
	c->theta_permille = (u16)cca_clamp_u32(p->reduction_permille, 1, 999);
	rtcp_fit_begin(&c->fit, p, c->acked_bytes);
	c->anchor_bytes = 0;
	c->anchor_bytes_per_s = 0;
	c->anchor_acked_bytes = c->acked_bytes;
	c->anchor_t_q10s = (u32)(rtcp_q20s(t_us) >> 10);
	c->refusals = 0;
}

/* --- classification: sections 4.3, 4.4 ---------------------------------------------------- */

/* Equation 13. Overflow: 2^32 x 10^3. */
CCA_FN bool rtcp_is_below(const struct rtcp_client *c, u32 bytes_per_s, u32 before_bytes_per_s)
{
	return (u64)bytes_per_s * 1000 < (u64)before_bytes_per_s * c->theta_permille;
}

CCA_FN void rtcp_anchor(struct rtcp_client *c, u64 q20s)
{
	c->anchor_bytes = rtcp_fit_bucket(&c->fit);
	c->anchor_bytes_per_s = rtcp_fit_rate(&c->fit);
	c->anchor_acked_bytes = c->acked_bytes;
	c->anchor_t_q10s = (u32)(q20s >> 10);
	c->refusals = 0;
}

/* A time in units of 2^10 us. 16 bits cover 67 s. */
CCA_FN u16 rtcp_refusal_stamp(const struct rtcp_client *c)
{
	return (u16)(rtcp_stamp(c) >> 6);
}

/* Counts a refusal. All losses in the same round count as one. */
CCA_FN void rtcp_note_refusal(struct rtcp_client *c, u32 lost_pkts)
{
	u64 since_us = (u64)(u16)(rtcp_refusal_stamp(c) - c->refused_at) << 10;

	if (!lost_pkts || c->refusals >= RTCP_REFUSALS ||
	    (c->refusals && since_us < rtcp_round_us(c)))
		return;
	c->refusals++;
	c->refused_at = rtcp_refusal_stamp(c);
}

/* Whether the parameter `probing` selects the paper's conditions, cap and probes. */
CCA_FN bool rtcp_is_papers(const struct rtcp_params *p)
{
	return p->probing != 0;
}

/* A limited client passes in any case, because under its cap hardly any packets are lost. */
CCA_FN bool rtcp_is_refused(const struct rtcp_client *c)
{
	return c->refusals >= RTCP_REFUSALS || c->kind == RTCP_LIMITED;
}

CCA_FN bool rtcp_is_near(const struct rtcp_client *c, u64 a, u64 b, u64 bytes)
{
	return (a > b ? a - b : b - a) <= 2u * c->mss_bytes + bytes / RTCP_TOLERANCE;
}

/*
 * Whether the line and the anchor's line agree at the present time, and A(t) has followed the line
 * since the anchor. Below 2^55.
 */
CCA_FN bool rtcp_is_unchanged(const struct rtcp_client *c, u64 q20s, u64 passed_q20s,
			      u64 window_q20s)
{
	u32 rate = rtcp_fit_rate(&c->fit);
	u64 passed_bytes = rtcp_carried(rate, passed_q20s);

	return rtcp_is_near(c, rtcp_fit_line(&c->fit, q20s),
			    c->anchor_bytes + rtcp_carried(c->anchor_bytes_per_s, q20s),
			    passed_bytes) &&
	       rtcp_is_near(c, c->acked_bytes - c->anchor_acked_bytes, passed_bytes,
			    rtcp_carried(rate, window_q20s));
}

/*
 * Returns true if both conditions of section 4.3 have held for epsilon rounds and for a share of
 * the transfer. A client that is not yet limited must also have had RTCP_REFUSALS refusals in that
 * time. With the paper's probing neither the share nor the refusals are required.
 * Overflow: 16 x 2^41.
 */
CCA_FN bool rtcp_has_converged(struct rtcp_client *c, const struct rtcp_params *p, u64 q20s)
{
	u64 passed_q20s = rtcp_less(q20s, (u64)c->anchor_t_q10s << 10);
	u64 window_q20s = rtcp_q20s(rtcp_round_us(c) * p->convergence_rounds);
	u32 rate = rtcp_fit_rate(&c->fit);
	bool below = rate && rtcp_is_below(c, rate, c->trigger_bytes_per_s);

	c->reduced |= below;
	if (!below || !rtcp_is_unchanged(c, q20s, passed_q20s, window_q20s)) {
		rtcp_anchor(c, q20s);
		return false;
	}
	if (!rtcp_is_papers(p) &&
	    (passed_q20s * RTCP_STEADY_PART < q20s || !rtcp_is_refused(c)))
		return false;
	return passed_q20s >= window_q20s &&
	       c->acked_bytes - c->anchor_acked_bytes >= (u64)RTCP_WITNESS_PKTS * c->mss_bytes;
}

/* Sets R of the limiter in force. Counts a change if R has moved by more than an eighth. */
CCA_FN void rtcp_set_rate(struct rtcp_client *c, u32 bytes_per_s)
{
	u32 apart, reported = c->reported_rate_bytes_per_s;

	c->bytes_per_s = cca_max_u32(bytes_per_s, RTCP_LEAST_BYTES_PER_S);
	apart = c->bytes_per_s > reported ? c->bytes_per_s - reported : reported - c->bytes_per_s;
	if (apart <= reported / RTCP_TOLERANCE)
		return;
	c->reported_rate_bytes_per_s = c->bytes_per_s;
	rtcp_note_change(c);
}

/* Sets B of the limiter in force. The number of tokens stays the same. */
CCA_FN void rtcp_set_bucket(struct rtcp_client *c, u64 bytes)
{
	c->token_deficit_bytes = rtcp_less(c->token_deficit_bytes + bytes, c->bucket_bytes);
	c->bucket_bytes = bytes;
}

CCA_FN void rtcp_settle(struct rtcp_client *c)
{
	c->settled = true;
	c->before_bytes_per_s = cca_max_u32(c->before_bytes_per_s, c->trigger_bytes_per_s);
	if (c->kind == RTCP_LIMITED)
		return;
	c->kind = RTCP_LIMITED;
	c->bucket_bytes = 0;
	c->token_deficit_bytes = 0;
	rtcp_set_bucket(c, rtcp_fit_bucket(&c->fit));
	rtcp_empty(c);
}

/* Whether R is at least a sixteenth above theta R_h. Overflow: 2^32 x 2^10 x 2^5. */
CCA_FN bool rtcp_is_lifted(const struct rtcp_client *c)
{
	return (u64)c->bytes_per_s * 1000 * RTCP_LIFTED_PART >=
	       (u64)c->before_bytes_per_s * c->theta_permille * (RTCP_LIFTED_PART + 1);
}

/*
 * Updates {B, R} of the classified limiter. If R grows back towards the rate before the trigger,
 * there is no limit, or it was lifted (section 4.4).
 */
CCA_FN void rtcp_follow(struct rtcp_client *c)
{
	if (!c->settled)
		return;
	rtcp_set_rate(c, rtcp_fit_rate(&c->fit));
	rtcp_set_bucket(c, cca_max_u64(rtcp_fit_bucket(&c->fit), c->past_bucket_bytes));
	if (rtcp_is_lifted(c))
		c->kind = RTCP_CLEARED;
}

/*
 * Discards the limiter, because more is delivered than {B, R} explains: it was replaced or
 * removed. Its R is not kept either, because it is a mean since the transfer began.
 */
CCA_FN void rtcp_release(struct rtcp_client *c)
{
	rtcp_begin_transfer(c);
	c->kind = RTCP_UNKNOWN;
	c->bucket_bytes = 0;
	c->past_bucket_bytes = 0;
	c->token_deficit_bytes = 0;
	c->before_bytes_per_s = 0;
	c->reported_rate_bytes_per_s = 0;
}

/* --- entry points ---------------------------------------------------------------------------- */

CCA_FN void rtcp_client_init(struct rtcp_client *c, u64 now_us)
{
	__builtin_memset(c, 0, sizeof(*c));
	c->last_us = now_us;
}

CCA_FN void rtcp_client_on_ack(struct rtcp_client *c, const struct rtcp_params *p,
			       const struct cca_ack *ack)
{
	u32 acked_pkts = cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS);
	u32 lost_pkts = cca_min_u32(ack->lost_pkts, CCA_MAX_PKTS);
	bool goes_on;
	u64 q20s;

	if (c->kind >= RTCP_CLEARED)
		return;
	goes_on = rtcp_advance(c, ack->now_us);
	rtcp_note_rtt(c, ack->rtt_us);
	c->mss_bytes = (u16)cca_clamp_u32(ack->mss_bytes, 1, CCA_MAX_MSS_BYTES - 1);
	if (c->acked_bytes >= RTCP_MAX_BYTES / 2 || rtcp_transfer_us(c) >= RTCP_MAX_US / 2) {
		rtcp_begin_transfer(c);
		goes_on = false;
	}
	/* A transfer that begins now excludes this ACK's bytes. 2^24 x 2^16: A stays below 2^43. */
	if (goes_on)
		c->acked_bytes += (u64)acked_pkts * c->mss_bytes;
	rtcp_spend(c, (u64)acked_pkts * c->mss_bytes, (u64)lost_pkts * c->mss_bytes);
	if (rtcp_count_losses(c, p, acked_pkts, lost_pkts))
		rtcp_trigger(c, p);
	rtcp_note_refusal(c, lost_pkts);
	if ((!c->fit.count && c->kind != RTCP_LIMITED) || rtcp_transfer_us(c) < RTCP_MIN_US)
		return;
	q20s = rtcp_q20s(rtcp_transfer_us(c));
	rtcp_fit_on_ack(&c->fit, c->acked_bytes, q20s);
	if (c->fit.count && !c->settled && rtcp_has_converged(c, p, q20s))
		rtcp_settle(c);
	if (c->kind == RTCP_LIMITED)
		rtcp_follow(c);
}

/* Counts the packets that a timeout has marked as lost. */
CCA_FN void rtcp_client_on_timeout(struct rtcp_client *c, const struct rtcp_params *p,
				   u64 now_us, u32 lost_pkts)
{
	if (c->kind >= RTCP_CLEARED || !rtcp_advance(c, now_us))
		return;
	if (rtcp_count_losses(c, p, 0, cca_min_u32(lost_pkts, CCA_MAX_PKTS)))
		rtcp_trigger(c, p);
}

CCA_FN void rtcp_client_on_undo(struct rtcp_client *c)
{
	c->losing = false;
}

/* The application has data again after it had none, and no other flow of the client has data. */
CCA_FN void rtcp_client_on_transfer(struct rtcp_client *c, u64 now_us)
{
	if (c->kind >= RTCP_CLEARED)
		return;
	rtcp_advance(c, now_us);
	rtcp_begin_transfer(c);
}

#endif /* CCA_RTCP_DETECT_H */
