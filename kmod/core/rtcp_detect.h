/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP: detects whether a client is behind a rate limiter, and which (R-TCP 2026, sections 4.1
 * to 4.4 and 5.3). rtcp_fit.h holds the estimate itself, rtcp_cap.h the reaction.
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
 * (section 4.4; rtcp_flows.h). It is passed in, and the host holds its lock. A host without a
 * table of clients (rtcp_clients.h) gives each connection one of its own.
 *
 * CHOICES, where the paper is silent:
 *   unchanged     {B, R} is unchanged over a time w if its line C, at present, is where the line
 *                 of w ago has it, to within R w / 8 + 2 packets. That is an eighth of what the
 *                 limiter passes meanwhile: clock resolution and jitter are no change, and a rate
 *                 that differs by more is one. Also, A(t) must follow C, as convergence means: it
 *                 never deviates from R w by more than an eighth of R epsilon rounds + 2 packets,
 *                 and it reaches RTCP_WITNESS_PKTS. An estimate without such a test is unchanged
 *                 by definition, and does not count.
 *   refused       A client becomes limited only if packets were lost in RTCP_REFUSALS rounds of
 *                 the time for which {B, R} is unchanged. A sender that is slow after a burst of
 *                 loss, or because of its own window, also follows a line, and so does a link of
 *                 a lower rate. Both conditions of section 4.3 hold there, but nothing is dropped.
 *                 A limiter drops packets sent above R, round after round; a burst ends within
 *                 one or two rounds. A shaper whose queue never overflows is not detected: it
 *                 drops no packet either.
 *   A(t)          the bytes that ACKs newly delivered, selective ones included, with each ACK's
 *                 MSS. Only differences count, so wrapping and a new MSS do not matter.
 *   time          the sum of the times between ACKs. ACKs of several flows on several processors
 *                 arrive slightly out of order: up to RTCP_LATE_US before the latest one, no time
 *                 has passed. A clock that steps back by more continues from there. A gap of more
 *                 than RTCP_GAP_US (a suspended machine) starts a transfer.
 *   long flows    A transfer ends after 2^39 us (6 days) or 2^42 bytes, and the next one begins.
 *   tokens        are bounded by B at each ACK, not only at the end (20). A lost packet takes
 *                 RTCP_LOSS_WEIGHT packets of tokens: of a few tokens none remain, and of a bucket
 *                 that an idle time has filled, random loss leaves most. After loss beyond beta no
 *                 tokens remain; this is judged from RTCP_HEAVY_PKTS packets on, before the alpha
 *                 rounds end. None remain at the first classification: the bucket was emptied.
 *   change        A classified limiter has changed if more was delivered than {B, R} has tokens
 *                 for, by two packets and 4 ms of R, or if R moved by more than an eighth. The
 *                 excess before a loss is discarded, because the bucket was empty then.
 *   windows       If a client has a flow capped by a window, a change is eight packets and 4 ms of
 *                 R. With a window of two packets a loss is detected only after a delayed ACK and
 *                 a tail-loss probe, about 90 ms late. At operator 3 tokens for seven packets
 *                 arrive meanwhile, and the loss takes them all from e. The excess is also
 *                 discarded when a probe begins, because no cap is below a pair, which may exceed
 *                 R sRTT round after round. The ACKs of such a flow mark the client; the probe of
 *                 another flow removes the mark until the next of these ACKs.
 *   un-detected   by a sixteenth more than theta R_h. R is approached from below, and an estimate
 *                 that is right at theta R_h would otherwise be cleared by its own last steps.
 *   no trigger    in a later transfer, because the cap prevents losses. B, R and the class then
 *                 stay. If more is delivered, the bucket may be fuller than ever before. That is a
 *                 change, which lifts the cap for as long as it lasts.
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
#define RTCP_TOLERANCE 8u		/* a change is more than this part */
#define RTCP_WITNESS_PKTS 16u		/* of which the two packets are this part, too */
#define RTCP_LIFTED_PART 16u		/* above theta R_h by more than this part: no limit */
#define RTCP_NOISE_PKTS 2u
#define RTCP_WINDOW_NOISE_PKTS 8u
#define RTCP_REFUSALS 4u		/* rounds with a loss, on the line */

enum rtcp_class {
	RTCP_UNKNOWN,
	RTCP_LIMITED,
	RTCP_CLEARED,		/* no limiter, or none any more; not looked for again */
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
	u64 anchor_bytes;	/* the line that must not change: B, ... */
	u64 anchor_acked_bytes;	/* ... A there */
	u32 anchor_t_q10s;	/* ... and t, in 2^-10 s: 2^31 are 24 days */
	u32 anchor_bytes_per_s;
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
	u16 sharing;		/* of them, with enough of it: g, equation 22 */
	u16 theta_permille;	/* fixed at the trigger */
	u16 mss_bytes;
	u16 recent_loss_q16;	/* share, while several flows have data */
	u16 refused_at;		/* rtcp_refusal_stamp() of the last round that counts */
	u8 kind;		/* enum rtcp_class */
	u8 changes;		/* of a classified limiter, ... */
	u8 heavy_losses;		/* counts losses beyond beta, for flows to compare with */
	u8 refusals : 4;	/* rounds with a loss since the anchor, at most RTCP_REFUSALS */
	bool settled : 1;	/* this transfer's estimate is classified */
	bool losing : 1;	/* alpha rounds since a loss are running */
	bool reduced : 1;	/* equation 13 has held, once */
	bool windowed : 1;	/* a flow of it is capped by a window, so its ACKs say */
};

/* --- clock, rounds, tokens ------------------------------------------------------------ */

CCA_FN u64 rtcp_transfer_us(const struct rtcp_client *c)
{
	return c->clock_us - c->start_us;
}

/* A moment of clock_us in 32 bits; what they span is below 2^36 us, 19 hours. */
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

/* e, in bytes: what the bucket is thought to hold. */
CCA_FN u64 rtcp_tokens(const struct rtcp_client *c)
{
	return rtcp_less(c->bucket_bytes, c->token_deficit_bytes);
}

CCA_FN void rtcp_empty(struct rtcp_client *c)
{
	c->token_deficit_bytes = cca_max_u64(c->token_deficit_bytes, c->bucket_bytes);
}

/* What may be above the line without being a change. Below 2^19 + 2^24. */
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

/* Time goes by, and tokens come. False: so much that a transfer has begun. */
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

/* The least RTT; one that was not seen again for long is replaced, as paths change. */
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

/* Tokens taken: what came through is beyond doubt, what was lost a sign. Below 2^44. */
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
	/* What was refused behind them: the bucket is empty, and was a little fuller. */
	if (lost_bytes)
		c->token_deficit_bytes = cca_min_u64(c->token_deficit_bytes, c->bucket_bytes);
}

/*
 * A probe begins, of a flow capped by a window or by pacing. What a cap of pairs let through
 * before it is no sign of a change.
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

/* True: alpha rounds since a loss are over, with more loss than beta. */
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

/* ACK h: what came so far bounds B, and gives R_h. */
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

/* In 2^10 us, of which 16 bits are 67 s. */
CCA_FN u16 rtcp_refusal_stamp(const struct rtcp_client *c)
{
	return (u16)(rtcp_stamp(c) >> 6);
}

/* Losses of one round are one refusal. */
CCA_FN void rtcp_note_refusal(struct rtcp_client *c, u32 lost_pkts)
{
	u64 since_us = (u64)(u16)(rtcp_refusal_stamp(c) - c->refused_at) << 10;

	if (!lost_pkts || c->refusals >= RTCP_REFUSALS ||
	    (c->refusals && since_us < rtcp_round_us(c)))
		return;
	c->refusals++;
	c->refused_at = rtcp_refusal_stamp(c);
}

/* Behind a cap hardly anything is. */
CCA_FN bool rtcp_is_refused(const struct rtcp_client *c)
{
	return c->refusals >= RTCP_REFUSALS || c->kind == RTCP_LIMITED;
}

CCA_FN bool rtcp_is_near(const struct rtcp_client *c, u64 a, u64 b, u64 bytes)
{
	return (a > b ? a - b : b - a) <= 2u * c->mss_bytes + bytes / RTCP_TOLERANCE;
}

/* Whether the line is where the anchor's is, at the present, and A has run along it. Below 2^55. */
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
 * True: both conditions have held for epsilon rounds, in which a client that is not yet
 * limited was refused something.
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
	return passed_q20s >= window_q20s && rtcp_is_refused(c) &&
	       c->acked_bytes - c->anchor_acked_bytes >= (u64)RTCP_WITNESS_PKTS * c->mss_bytes;
}

/* R of the limiter in force; the change is told where it is one. */
CCA_FN void rtcp_set_rate(struct rtcp_client *c, u32 bytes_per_s)
{
	u32 apart, told = c->reported_rate_bytes_per_s;

	c->bytes_per_s = cca_max_u32(bytes_per_s, RTCP_LEAST_BYTES_PER_S);
	apart = c->bytes_per_s > told ? c->bytes_per_s - told : told - c->bytes_per_s;
	if (apart <= told / RTCP_TOLERANCE)
		return;
	c->reported_rate_bytes_per_s = c->bytes_per_s;
	rtcp_note_change(c);
}

/* B of the limiter in force; the tokens stay what they are. */
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

/* By more than a sixteenth above theta R_h. Overflow: 2^32 x 2^10 x 2^5. */
CCA_FN bool rtcp_is_lifted(const struct rtcp_client *c)
{
	return (u64)c->bytes_per_s * 1000 * RTCP_LIFTED_PART >=
	       (u64)c->before_bytes_per_s * c->theta_permille * (RTCP_LIFTED_PART + 1);
}

/* Section 4.4: what grows towards the rate before was no limit, or is lifted. */
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
 * More comes through than {B, R} explains, and goes on doing so: the limiter is another one, or
 * gone. Nothing of it is kept, for its R is a mean since the transfer began.
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
	/* What begins with an ACK does not hold what it is for. 2^24 x 2^16: A stays below 2^43. */
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

/* A timeout took these for lost; an undo says that what was lost was not. */
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

/* The application has data again, behind none; no other flow of the client has. */
CCA_FN void rtcp_client_on_transfer(struct rtcp_client *c, u64 now_us)
{
	if (c->kind >= RTCP_CLEARED)
		return;
	rtcp_advance(c, now_us);
	rtcp_begin_transfer(c);
}

#endif /* CCA_RTCP_DETECT_H */
