/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP: keeps a flow within the rate limiter that rtcp_detect.h has found (R-TCP 2026,
 * section 5). This state belongs to a flow; the limiter, its tokens e and the lock belong to the
 * client.
 *
 *        eta rounds, or more                    {B, R} has changed
 *   CAPPED ----------------> PROBING (1 + gamma) ------------------> LIFTED ----------> FREE
 *      ^                        |  |                                 ^  |  changes, and
 *      |  three rounds          |  | loss                            |  |  delivers far more
 *      |  unchanged             |  v                                 |  |  than {B, R}
 *      +------------------------+  REFILLING 1 / (1 + gamma)         |  |
 *      +---------------------------+  a round                        |  |
 *      |               unchanged for three rounds (a window: six),   |  |
 *      +------------------- or loss beyond beta ---------------------|--+
 *      |                                                             |
 *      +--- loss without tokens --- VERIFYING --- {B, R} has changed +
 *                                   a connection begins with a known limiter
 *
 *   cwnd   <= R / g sRTT, probing (1 + gamma) R / g sRTT         (14, 15)
 *   pacing <= R / g, probing (1 + gamma) R / g                   (16, 17)
 *   no cap while e > R / g sRTT                                  (21)
 *   verifying: no cap while in flight < max(e, R / g sRTT) + noise + 2 packets
 *   g: the client's flows that have data for R / g sRTT or more  (22)
 *   a round is an sRTT
 *
 * DEVIATION: equation 21 applies to every transfer, not only from the second on. Otherwise the
 * bandwidth that the cap leaves unused would be lost, and a limit that was lifted would look like
 * a full bucket. Also, e must exceed the packets in flight, because A(t) does not include them.
 * DEVIATION: equation 21 compares e with R / g sRTT, where the paper has R: each flow has a share.
 * DEVIATION: the three rounds of a probe start when no tokens are left, after 16 rounds at the
 * latest, because any limiter lets a probe through before that. They last until gamma R delivers
 * twice the noise threshold: with pacing for up to RTCP_MOST_SHOWS_US, with a window for up to
 * 16 rounds. A loss ends them: it shows the limit, and further rounds would only lose more. A
 * loss in their first round does not count, because that packet was sent before. Where R times
 * the round trip is a packet or two, three rounds deliver less than the noise threshold, and the
 * end of a limit would never be noticed. For the same reason a paced cap that is lifted stays
 * lifted for that time after each change. A window must grow into a large gamma, so its rounds
 * are those of a gamma of at most a half.
 * DEVIATION: after a loss of its own a probe gives back for a round what it took (REFILLING), as
 * BBR drains after it has probed. At rate R and with an empty bucket, each pair of packets would
 * lose one.
 * DEVIATION: consecutive probes that meet the limit delay the next one, to up to RTCP_MOST_WAIT
 * times eta rounds, within RTCP_WAIT_US. A probe costs a packet or two, however slow the limiter
 * is: at 1 Mbit/s, 20 ms and eta 20 that is one of 40 packets. A probe met the limit if it lost.
 * DEVIATION: the limiter is discarded (rtcp_release()) if the cap of the client's only flow was
 * lifted for epsilon rounds in which at least half of R was delivered beyond {B, R}, or until
 * twice B was. Its R, a mean since the transfer began, would otherwise cap the flow at a fraction
 * of the new rate. A BBR then starts STARTUP again.
 * DEVIATION: a connection that starts with the knowledge of an earlier one (SR-TCP, section 6.1)
 * verifies it once: it may have a few packets more in flight than the limiter would pass. If they
 * are delivered, there is another limiter or none, for example behind an address that several
 * clients share, and the flow continues without a cap. If one is lost without tokens left, the
 * limiter exists. This costs a connection a few packets. Without it the next client would be held
 * at another client's rate for minutes.
 * DEVIATION: a probe paces at (1 + gamma) min(r, R), where r is the rate that BBR measured under
 * the cap. With min(r, (1 + gamma) R) the rate would stay at r.
 * DEVIATION: a window consists of pairs of packets, because a receiver acknowledges pairs and
 * delays the ACK of an odd packet. A cap that is rounded down stays below R, one that is rounded
 * up stays above. It is rounded down, with one pair more while there are tokens for it. The cap
 * of a probe is rounded up. A probe lasts for at most 16 rounds. In these it sends more packets
 * beyond R than the noise threshold, for any gamma and g, so each flow's own probe can show a
 * change.
 * DEVIATION: a change lifts a window's cap for six rounds. A small window grows slowly, and would
 * not show another change within three. Back under the cap it would start again, without end.
 */
#ifndef CCA_RTCP_CAP_H
#define CCA_RTCP_CAP_H

#include "rtcp_detect.h"

#define RTCP_PAIR 2u			/* packets; no cap is lower */
#define RTCP_NO_CAP_PKTS 0xffffffffu
#define RTCP_PROBE_ROUNDS 3u
#define RTCP_WINDOW_ROUNDS 6u
#define RTCP_MOST_PROBE_ROUNDS 16u
#define RTCP_WINDOW_GAIN_PERMILLE 500u
#define RTCP_MOST_SHOWS_US 5000000u	/* 1.9 s at 128 kbit/s, gamma of 0.2 */
#define RTCP_VERIFY_PKTS 2u
#define RTCP_REFUTING_PKTS 64u	/* beyond twice B: the bound for small buckets */
#define RTCP_MOST_WAIT 8u		/* times eta */
#define RTCP_WAIT_US 2000000u
#define RTCP_MOST_STATE_BYTES 250u	/* of a connection, R-TCP appendix N */

enum rtcp_phase {
	RTCP_FREE,		/* no limiter */
	RTCP_CAPPED,
	RTCP_PROBING,
	RTCP_REFILLING,
	RTCP_LIFTED,
	RTCP_VERIFYING,		/* starts with the knowledge of an earlier connection */
};

struct rtcp_flow {
	u32 since;		/* rtcp_stamp(): start of the phase, or of its rounds */
	u32 began;		/* rtcp_stamp(): start of the probe */
	u32 srtt_us;		/* 0: unknown */
	u32 inflight_pkts;	/* at the last ACK or event */
	u8 phase;		/* enum rtcp_phase */
	u8 changes, heavy_losses;	/* of the client, as this flow has seen them */
	u8 met;			/* probes in a row that met the limit, below MOST_WAIT */
	u8 spared;		/* losses expected since its last one; rtcp_flows.h */
	bool active : 1;	/* is one of the client's flows with data */
	bool sharing : 1;	/* counts in g */
	bool policer_reset : 1;	/* BBRv1's own detector was reset */
	bool windowed : 1;	/* capped by a window, not by pacing */
	bool reopened : 1;	/* the base algorithm must search for the bandwidth again */
	u16 lifted_units;	/* delivered beyond {B, R} while LIFTED, in rtcp_noise_bytes() */
};

RTCP_ASSERT(state_is_small, sizeof(struct rtcp_flow) + sizeof(struct rtcp_client) <=
			    RTCP_MOST_STATE_BYTES);

/* --- the flow's share ---------------------------------------------------------------- */

/* R / g: the lowest cap of a flow. */
CCA_FN u32 rtcp_share_bytes_per_s(const struct rtcp_client *c)
{
	return cca_max_u32(c->bytes_per_s / cca_max_u32(c->sharing, 1), RTCP_LEAST_BYTES_PER_S);
}

CCA_FN u32 rtcp_flow_round_us(const struct rtcp_flow *f)
{
	return cca_max_u32(f->srtt_us, RTCP_MIN_US);
}

/* R / g sRTT. Below 2^32 x 2^26 / 10^6 < 2^39. */
CCA_FN u64 rtcp_flow_bdp(const struct rtcp_flow *f, const struct rtcp_client *c)
{
	return rtcp_carried_us(rtcp_share_bytes_per_s(c), rtcp_flow_round_us(f));
}

/* Equation 21: whether tokens are left beyond the packets in flight of all flows. */
CCA_FN bool rtcp_has_tokens(const struct rtcp_flow *f, const struct rtcp_client *c)
{
	u64 inflight_bytes = (u64)cca_min_u32(c->inflight_pkts, CCA_MAX_PKTS) * c->mss_bytes;

	return rtcp_tokens(c) > cca_max_u64(rtcp_flow_bdp(f, c), inflight_bytes);
}

/*
 * The bytes that a connection may have in flight while it verifies the limiter: the tokens, and
 * enough more for their delivery to count as a change. A window also adds the bytes that the
 * limiter passes in a round; pacing at R / g delivers these anyway. Below 2^43 + 2^40.
 */
CCA_FN u64 rtcp_verifying_bytes(const struct rtcp_flow *f, const struct rtcp_client *c)
{
	u64 tokens = rtcp_tokens(c), bdp = rtcp_flow_bdp(f, c);

	return (f->windowed ? tokens + bdp : cca_max_u64(tokens, bdp)) + rtcp_noise_bytes(c) +
	       RTCP_VERIFY_PKTS * c->mss_bytes;
}

CCA_FN bool rtcp_is_capped(const struct rtcp_flow *f, const struct rtcp_client *c)
{
	u64 inflight_bytes = (u64)cca_min_u32(c->inflight_pkts, CCA_MAX_PKTS) * c->mss_bytes;

	if (c->kind != RTCP_LIMITED || !f->srtt_us || f->phase == RTCP_LIFTED)
		return false;
	if (f->phase == RTCP_VERIFYING)
		return f->windowed || inflight_bytes >= rtcp_verifying_bytes(f, c);
	return !rtcp_has_tokens(f, c);
}

/* --- the phases: sections 5.1, 5.2 ------------------------------------------------------ */

CCA_FN void rtcp_enter(struct rtcp_flow *f, const struct rtcp_client *c, enum rtcp_phase phase)
{
	f->phase = (u8)phase;
	f->since = rtcp_stamp(c);
	f->began = f->since;
	f->lifted_units = 0;
}

/*
 * Whether the time us has passed since the phase, or its rounds, started. It is at most 1000 rounds
 * of 67 s. A stamp can represent that.
 */
CCA_FN bool rtcp_has_passed(const struct rtcp_flow *f, const struct rtcp_client *c, u64 us)
{
	return rtcp_since_us(c, f->since) >= us;
}

/* The time until the next probe. Overflow: 10^3 x 2^26 x 8. */
CCA_FN u64 rtcp_wait_us(const struct rtcp_flow *f, const struct rtcp_params *p)
{
	u64 eta_us = (u64)rtcp_flow_round_us(f) * p->probe_every_rounds;

	return cca_max_u64(eta_us, cca_min_u64(eta_us * (1u + f->met), RTCP_WAIT_US));
}

/*
 * The time in which gamma R / g delivers twice the noise threshold: the least time that a probe
 * needs to show a change. Overflow: noise below 2^25, x 2 x 10^9 < 2^57; gamma is at least 1, and
 * a share at least 1000 bytes/s.
 */
CCA_FN u64 rtcp_shows_us(const struct rtcp_flow *f, const struct rtcp_client *c,
			 const struct rtcp_params *p)
{
	u32 most_permille = f->windowed ? RTCP_WINDOW_GAIN_PERMILLE : 0xffffffffu;
	u64 gain = (u64)rtcp_share_bytes_per_s(c) *
		   cca_clamp_u32(p->probe_gain_permille, 1, most_permille);
	u64 shows_us = cca_div(2ull * rtcp_noise_bytes(c) * 1000 * CCA_USEC_PER_SEC, gain);
	u64 most_us = (u64)RTCP_MOST_PROBE_ROUNDS * rtcp_flow_round_us(f);

	/* The cap of a window is high enough to show a change within 16 rounds. */
	if (!f->windowed)
		most_us = cca_max_u64(most_us, RTCP_MOST_SHOWS_US);
	return cca_min_u64(shows_us, most_us);
}

/* The duration of a probe without tokens. */
CCA_FN u64 rtcp_probe_us(const struct rtcp_flow *f, const struct rtcp_client *c,
			 const struct rtcp_params *p)
{
	return cca_max_u64(RTCP_PROBE_ROUNDS * (u64)rtcp_flow_round_us(f), rtcp_shows_us(f, c, p));
}

/* How long the cap stays lifted after the last change. */
CCA_FN u64 rtcp_lifted_us(const struct rtcp_flow *f, const struct rtcp_client *c,
			  const struct rtcp_params *p)
{
	u32 rounds = f->windowed ? RTCP_WINDOW_ROUNDS : RTCP_PROBE_ROUNDS;
	u64 rounds_us = (u64)rounds * rtcp_flow_round_us(f);

	return f->windowed ? rounds_us : cca_max_u64(rounds_us, rtcp_shows_us(f, c, p));
}

CCA_FN void rtcp_probe(struct rtcp_flow *f, const struct rtcp_client *c,
		       const struct rtcp_params *p, bool changed, bool lost)
{
	u64 most_us = cca_max_u64((u64)RTCP_MOST_PROBE_ROUNDS * rtcp_flow_round_us(f),
				  rtcp_shows_us(f, c, p));

	if (changed) {
		f->met = 0;
		rtcp_enter(f, c, RTCP_LIFTED);
		return;
	}
	/* Packets lost within the first round were sent before the probe. */
	lost = lost && rtcp_since_us(c, f->began) >= rtcp_flow_round_us(f);
	/* The rounds start again while tokens are left. */
	if (rtcp_tokens(c) > c->mss_bytes && rtcp_since_us(c, f->began) < most_us)
		f->since = rtcp_stamp(c);
	if (!lost && !rtcp_has_passed(f, c, rtcp_probe_us(f, c, p)))
		return;
	if (lost)
		f->met = (u8)cca_min_u32(f->met + 1u, RTCP_MOST_WAIT - 1u);
	rtcp_enter(f, c, lost ? RTCP_REFILLING : RTCP_CAPPED);
}

/*
 * While the cap is lifted, counts the bytes of an ACK in excess of those that R passes since the
 * last ACK. The noise threshold is at least two bytes, because the MSS of an ACK is at least 1.
 */
CCA_FN void rtcp_count_lifted(struct rtcp_flow *f, const struct rtcp_client *c, u64 acked_bytes,
			      u64 passed_us)
{
	u64 over_bytes = rtcp_less(acked_bytes, rtcp_carried_us(c->bytes_per_s, passed_us));
	u64 units = cca_max_u64(cca_div(over_bytes, rtcp_noise_bytes(c)), 1);

	f->lifted_units = (u16)cca_min_u64(f->lifted_units + units, 0xffffu);
}

/* Lower bound of the bytes delivered beyond {B, R} since the cap was lifted. < 2^16 x 2^25. */
CCA_FN u64 rtcp_lifted_bytes(const struct rtcp_flow *f, const struct rtcp_client *c)
{
	return (u64)f->lifted_units * rtcp_noise_bytes(c);
}

/*
 * Whether there is another limiter, or none. Either the delivery rate was at least 1.5 R for as
 * long as convergence takes, or the excess requires a bucket of more than three times B. A smaller
 * difference is within the error of a restarted estimate.
 */
CCA_FN bool rtcp_is_refuted(const struct rtcp_flow *f, const struct rtcp_client *c,
			    const struct rtcp_params *p)
{
	u64 rounds_us = (u64)rtcp_flow_round_us(f) * p->convergence_rounds;
	u64 since_us = rtcp_since_us(c, f->began), excess_bytes = rtcp_lifted_bytes(f, c);

	if (excess_bytes >= 2 * c->bucket_bytes + RTCP_REFUTING_PKTS * c->mss_bytes)
		return true;
	return since_us >= rounds_us &&
	       2 * excess_bytes >= rtcp_carried_us(c->bytes_per_s, since_us);
}

/*
 * The cap is lifted, and {B, R} still changes. With several flows this can be another client's
 * missing limiter; rtcp_flows.h detects that.
 */
CCA_FN void rtcp_stay_lifted(struct rtcp_flow *f, struct rtcp_client *c,
			     const struct rtcp_params *p)
{
	f->since = rtcp_stamp(c);
	if (c->flows > 1 || !rtcp_is_refuted(f, c, p))
		return;
	rtcp_release(c);
	f->phase = RTCP_FREE;
	f->reopened = true;
}

CCA_FN void rtcp_flow_step(struct rtcp_flow *f, struct rtcp_client *c,
			   const struct rtcp_params *p, bool lost)
{
	bool changed = f->changes != c->changes, heavy = f->heavy_losses != c->heavy_losses;
	u64 round_us = rtcp_flow_round_us(f);

	f->changes = c->changes;
	f->heavy_losses = c->heavy_losses;
	if (c->kind != RTCP_LIMITED) {
		f->phase = RTCP_FREE;
		return;
	}
	if (f->phase == RTCP_FREE || (heavy && f->phase != RTCP_CAPPED)) {
		rtcp_enter(f, c, RTCP_CAPPED);
		return;
	}
	switch (f->phase) {
	case RTCP_CAPPED:
		if (rtcp_has_passed(f, c, rtcp_wait_us(f, p))) {
			rtcp_forget_excess(c, f->windowed);
			rtcp_enter(f, c, RTCP_PROBING);
		}
		break;
	case RTCP_PROBING:
		rtcp_probe(f, c, p, changed, lost);
		break;
	case RTCP_REFILLING:
		if (rtcp_has_passed(f, c, round_us))
			rtcp_enter(f, c, RTCP_CAPPED);
		break;
	case RTCP_VERIFYING:
		if (changed) {
			rtcp_enter(f, c, RTCP_LIFTED);
			f->reopened = true;
		} else if (lost && rtcp_tokens(c) <= c->mss_bytes) {
			rtcp_enter(f, c, RTCP_CAPPED);
		}
		break;
	default:
		if (changed)
			rtcp_stay_lifted(f, c, p);
		else if (rtcp_has_passed(f, c, rtcp_lifted_us(f, c, p)))
			rtcp_enter(f, c, RTCP_CAPPED);
		break;
	}
}

/* --- the caps ------------------------------------------------------------------------------ */

/* Overflow: 2^39 x (10^3 + 2^16) < 2^56. The MSS is at least 1. */
CCA_FN u32 rtcp_cap_pkts(const struct rtcp_flow *f, const struct rtcp_client *c,
			 const struct rtcp_params *p)
{
	u32 gain = 1000 + cca_min_u32(p->probe_gain_permille, 1u << 16);
	u64 bytes, pkts;

	if (!rtcp_is_capped(f, c))
		return RTCP_NO_CAP_PKTS;
	bytes = rtcp_flow_bdp(f, c);
	if (f->phase == RTCP_VERIFYING)
		bytes = rtcp_verifying_bytes(f, c);
	else if (f->phase == RTCP_PROBING)
		bytes = cca_max_u64(cca_div(bytes * gain, 1000),
				    bytes + rtcp_noise_bytes(c) / RTCP_MOST_PROBE_ROUNDS + 1u) +
			RTCP_PAIR * c->mss_bytes - 1u;
	else if (f->phase == RTCP_REFILLING)
		bytes = cca_div(bytes * 1000, gain);
	else
		bytes += cca_min_u64(rtcp_tokens(c), RTCP_PAIR * c->mss_bytes);
	pkts = cca_min_u64(cca_div(bytes, c->mss_bytes), CCA_MAX_PKTS) & ~1ull;
	return cca_max_u32((u32)pkts, RTCP_PAIR);
}

/* The cap of a pacing rate r. Overflow: 2^32 x (10^3 + 2^16). */
CCA_FN u64 rtcp_capped_rate(const struct rtcp_flow *f, const struct rtcp_client *c,
			    const struct rtcp_params *p, u64 bytes_per_s)
{
	u64 rate;

	if (!rtcp_is_capped(f, c))
		return bytes_per_s;
	rate = cca_min_u64(bytes_per_s, rtcp_share_bytes_per_s(c));
	if (f->phase == RTCP_REFILLING)
		return cca_div(rate * 1000, 1000 + cca_min_u32(p->probe_gain_permille, 1u << 16));
	if (f->phase != RTCP_PROBING)
		return rate;
	return cca_div(rate * (1000 + cca_min_u32(p->probe_gain_permille, 1u << 16)), 1000);
}

#endif /* CCA_RTCP_CAP_H */
