/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP: the phases of a capped flow, and how the cap is probed (R-TCP 2026, sections 5.1, 5.2). A
 * round is an sRTT. The parameter `probing` selects one of two machines.
 *
 * probing 1, the paper's:
 *
 *        eta rounds                          {B, R} has changed
 *   CAPPED --------> PROBING (1 + gamma) ----------------------> LIFTED
 *      ^                |   three rounds unchanged                  |   three rounds unchanged
 *      +----------------+------------------------------------------+
 *
 *   A limit ends only if R rises above theta R_h, and the client is then cleared (rtcp_detect.h).
 *   A connection to a limited client is capped from its first packet on.
 *   CHOICE: the eta rounds are those under the cap, without the three rounds of a probe.
 *
 * probing 0, this project's. All of its differences from the above are deviations:
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
 * DEVIATION: a change lifts a window's cap for six rounds. A small window grows slowly, and would
 * not show another change within three. Back under the cap it would start again, without end.
 */
#ifndef CCA_RTCP_PROBING_H
#define CCA_RTCP_PROBING_H

#include "rtcp_cap.h"

#define RTCP_PROBE_ROUNDS 3u
#define RTCP_WINDOW_ROUNDS 6u
#define RTCP_WINDOW_GAIN_PERMILLE 500u
#define RTCP_MOST_SHOWS_US 5000000u	/* 1.9 s at 128 kbit/s, gamma of 0.2 */
#define RTCP_REFUTING_PKTS 64u	/* beyond twice B: the bound for small buckets */
#define RTCP_MOST_WAIT 8u		/* times eta */
#define RTCP_WAIT_US 2000000u

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

/* A step with probing 0. */
CCA_FN void rtcp_own_step(struct rtcp_flow *f, struct rtcp_client *c, const struct rtcp_params *p,
			  bool changed, bool lost)
{
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
		if (rtcp_has_passed(f, c, rtcp_flow_round_us(f)))
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

/*
 * A step with probing 1, in which losses have no effect. If the parameter has changed, the flow may
 * be in a phase of the other machine, which then ends like a probe.
 */
CCA_FN void rtcp_paper_step(struct rtcp_flow *f, struct rtcp_client *c,
			    const struct rtcp_params *p, bool changed)
{
	u32 rounds = f->phase == RTCP_CAPPED ? p->probe_every_rounds : RTCP_PROBE_ROUNDS;

	if (changed && f->phase != RTCP_CAPPED) {
		rtcp_enter(f, c, RTCP_LIFTED);
		return;
	}
	if (!rtcp_has_passed(f, c, (u64)rtcp_flow_round_us(f) * rounds))
		return;
	rtcp_enter(f, c, f->phase == RTCP_CAPPED ? RTCP_PROBING : RTCP_CAPPED);
}

/* lost: whether the ACK reports lost packets. */
CCA_FN void rtcp_flow_step(struct rtcp_flow *f, struct rtcp_client *c,
			   const struct rtcp_params *p, bool lost)
{
	bool changed = f->changes != c->changes, heavy = f->heavy_losses != c->heavy_losses;

	f->changes = c->changes;
	f->heavy_losses = c->heavy_losses;
	if (c->kind != RTCP_LIMITED || !p->act)
		f->phase = RTCP_FREE;
	else if (f->phase == RTCP_FREE)
		rtcp_enter(f, c, RTCP_CAPPED);
	else if (rtcp_is_papers(p))
		rtcp_paper_step(f, c, p, changed);
	else if (heavy && f->phase != RTCP_CAPPED)
		rtcp_enter(f, c, RTCP_CAPPED);
	else
		rtcp_own_step(f, c, p, changed, lost);
}

#endif /* CCA_RTCP_PROBING_H */
