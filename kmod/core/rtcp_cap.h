/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP: the cap that keeps a flow within the rate limiter that rtcp_detect.h has found (R-TCP
 * 2026, section 5). rtcp_probing.h decides in which phase a flow is. This state belongs to a flow;
 * the limiter, its tokens e and the lock belong to the client.
 *
 *   cwnd   <= R / g sRTT, probing (1 + gamma) R / g sRTT         (14, 15)
 *   pacing <= R / g, probing (1 + gamma) R / g                   (16, 17)
 *   no cap while e > R / g sRTT                                  (21)
 *   verifying: no cap while in flight < max(e, R / g sRTT) + noise + 2 packets
 *   g: the client's flows that have data for R / g sRTT or more  (22)
 *
 * With the parameter `act` 0 R-TCP only observes, and the base algorithm decides about all packets.
 * With `probing` 1 the cap is the paper's. Deviations marked (0) apply to `probing` 0 only.
 *
 * DEVIATION: equation 21 applies to every transfer, not only from the second on. Otherwise the
 * bandwidth that the cap leaves unused would be lost, and a limit that was lifted would look like
 * a full bucket. A window that is rounded down would also lower the estimate of R: A(t) falls below
 * the line, a larger B with a smaller R fits it better, and the cap follows R.
 * DEVIATION: in equation 21 e must also exceed the packets in flight, because A(t) does not include
 * them.
 * DEVIATION: equation 21 compares e with R / g sRTT, where the paper has R: each flow has a share.
 * DEVIATION (0): a probe paces at (1 + gamma) min(r, R), where r is the rate that BBR measured
 * under the cap. With min(r, (1 + gamma) R) the rate would stay at r.
 * DEVIATION (0): a window consists of pairs of packets, because a receiver acknowledges pairs and
 * delays the ACK of an odd packet. A cap that is rounded down stays below R, one that is rounded
 * up stays above. It is rounded down, with one pair more while there are tokens for it. The cap
 * of a probe is rounded up. A probe lasts for at most 16 rounds. In these it sends more packets
 * beyond R than the noise threshold, for any gamma and g, so each flow's own probe can show a
 * change.
 * DEVIATION: no window is below two packets, with either probing. One packet would wait for a
 * delayed ACK each round.
 */
#ifndef CCA_RTCP_CAP_H
#define CCA_RTCP_CAP_H

#include "rtcp_detect.h"

#define RTCP_PAIR 2u			/* packets; no cap is lower */
#define RTCP_NO_CAP_PKTS 0xffffffffu
#define RTCP_MOST_PROBE_ROUNDS 16u
#define RTCP_VERIFY_PKTS 2u
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

CCA_FN bool rtcp_is_capped(const struct rtcp_flow *f, const struct rtcp_client *c,
			   const struct rtcp_params *p)
{
	u64 inflight_bytes = (u64)cca_min_u32(c->inflight_pkts, CCA_MAX_PKTS) * c->mss_bytes;

	if (!p->act || c->kind != RTCP_LIMITED || !f->srtt_us || f->phase == RTCP_LIFTED)
		return false;
	if (f->phase == RTCP_VERIFYING)
		return f->windowed || inflight_bytes >= rtcp_verifying_bytes(f, c);
	return !rtcp_has_tokens(f, c);
}

/* --- the caps ------------------------------------------------------------------------------ */

/* 1 + gamma, in permille. */
CCA_FN u32 rtcp_gain_permille(const struct rtcp_params *p)
{
	return 1000 + cca_min_u32(p->probe_gain_permille, 1u << 16);
}

/* The bytes of a window under the cap. Overflow: 2^39 x (10^3 + 2^16) < 2^56. */
CCA_FN u64 rtcp_cap_bytes(const struct rtcp_flow *f, const struct rtcp_client *c,
			  const struct rtcp_params *p)
{
	u64 bytes = rtcp_flow_bdp(f, c);

	switch (f->phase) {
	case RTCP_VERIFYING:
		return rtcp_verifying_bytes(f, c);
	case RTCP_PROBING:
		return cca_max_u64(cca_div(bytes * rtcp_gain_permille(p), 1000),
				   bytes + rtcp_noise_bytes(c) / RTCP_MOST_PROBE_ROUNDS + 1u) +
		       RTCP_PAIR * c->mss_bytes - 1u;
	case RTCP_REFILLING:
		return cca_div(bytes * 1000, rtcp_gain_permille(p));
	default:
		return bytes + cca_min_u64(rtcp_tokens(c), RTCP_PAIR * c->mss_bytes);
	}
}

/* Equations 14 and 15, rounded down to packets. Overflow: as above. The MSS is at least 1. */
CCA_FN u32 rtcp_paper_cap_pkts(const struct rtcp_flow *f, const struct rtcp_client *c,
			       const struct rtcp_params *p)
{
	u64 bytes = rtcp_flow_bdp(f, c);

	if (f->phase == RTCP_PROBING)
		bytes = cca_div(bytes * rtcp_gain_permille(p), 1000);
	return cca_clamp_u32((u32)cca_min_u64(cca_div(bytes, c->mss_bytes), CCA_MAX_PKTS),
			     RTCP_PAIR, CCA_MAX_PKTS);
}

/* The cap of a window. The MSS is at least 1. */
CCA_FN u32 rtcp_cap_pkts(const struct rtcp_flow *f, const struct rtcp_client *c,
			 const struct rtcp_params *p)
{
	u64 pkts;

	if (!rtcp_is_capped(f, c, p))
		return RTCP_NO_CAP_PKTS;
	if (rtcp_is_papers(p))
		return rtcp_paper_cap_pkts(f, c, p);
	pkts = cca_min_u64(cca_div(rtcp_cap_bytes(f, c, p), c->mss_bytes), CCA_MAX_PKTS) & ~1ull;
	return cca_max_u32((u32)pkts, RTCP_PAIR);
}

/* The cap of a pacing rate r. Overflow: 2^32 x (10^3 + 2^16). */
CCA_FN u64 rtcp_capped_rate(const struct rtcp_flow *f, const struct rtcp_client *c,
			    const struct rtcp_params *p, u64 bytes_per_s)
{
	u64 most = rtcp_share_bytes_per_s(c), gain = rtcp_gain_permille(p);

	if (!rtcp_is_capped(f, c, p))
		return bytes_per_s;
	if (f->phase == RTCP_PROBING && rtcp_is_papers(p))
		return cca_min_u64(bytes_per_s, cca_div(most * gain, 1000));
	most = cca_min_u64(bytes_per_s, most);
	if (f->phase == RTCP_REFILLING)
		return cca_div(most * 1000, gain);
	return f->phase == RTCP_PROBING ? cca_div(most * gain, 1000) : most;
}

#endif /* CCA_RTCP_CAP_H */
