/* SPDX-License-Identifier: GPL-2.0 */
/* The text of R-TCP's flows and clients, as show.h. */
#ifndef CCATUNE_RTCP_TEXT_H
#define CCATUNE_RTCP_TEXT_H

#include "rtcp_ensemble.h"
#include "show.h"

static const char *const bbr1_modes[] __attribute__((unused)) = {
	[BBR1_STARTUP] = "startup",
	[BBR1_DRAIN] = "drain",
	[BBR1_PROBE_BW] = "probe_bw",
	[BBR1_PROBE_RTT] = "probe_rtt",
};

static const char *const bbr3_modes[] __attribute__((unused)) = {
	[BBR3_STARTUP] = "startup",
	[BBR3_DRAIN] = "drain",
	[BBR3_DOWN] = "down",
	[BBR3_CRUISE] = "cruise",
	[BBR3_REFILL] = "refill",
	[BBR3_UP] = "up",
	[BBR3_PROBE_RTT] = "probe_rtt",
};

static inline const char *rtcp_class_name(u8 kind)
{
	static const char *const classes[] = {
		[RTCP_UNKNOWN] = "unknown",
		[RTCP_LIMITED] = "limited",
		[RTCP_CLEARED] = "cleared",
		[RTCP_SPLIT] = "split",
	};

	return ccatune_name(CCATUNE_NAMES(classes), kind);
}

static inline const char *rtcp_mode(const struct rtcp_client *c, const struct rtcp_flow *flow)
{
	static const char *const phases[] = {
		[RTCP_FREE] = "free",
		[RTCP_CAPPED] = "capped",
		[RTCP_PROBING] = "probing",
		[RTCP_REFILLING] = "refilling",
		[RTCP_LIFTED] = "lifted",
		[RTCP_VERIFYING] = "verifying",
	};
	u8 phase = READ_ONCE(flow->phase);

	if (phase == RTCP_FREE && READ_ONCE(c->kind) == RTCP_UNKNOWN && READ_ONCE(c->fit.count))
		return "estimating";
	return ccatune_name(CCATUNE_NAMES(phases), phase);
}

/* B, R and the tokens are shown as 0 if no limiter is known. */
static inline void rtcp_show_client(struct seq_file *m, const struct rtcp_client *c)
{
	bool limited = c->kind == RTCP_LIMITED;

	seq_printf(m, " bucket_bytes=%llu limit_bytes_per_s=%u tokens_bytes=%llu",
		   (unsigned long long)(limited ? c->bucket_bytes : 0),
		   limited ? c->bytes_per_s : 0,
		   (unsigned long long)(limited ? rtcp_tokens(c) : 0));
}

/*
 * c, flow: copies, whose numbers may be of different moments. The bounds that the core states hold
 * for any values. shared: whether other connections have this client.
 */
static inline void rtcp_show_flow(struct seq_file *m, const struct rtcp_client *c,
				  const struct rtcp_flow *flow, const struct rtcp_params *params,
				  bool shared)
{
	u32 cap_pkts = rtcp_cap_pkts(flow, c, params);

	seq_printf(m, " limiter=%s", rtcp_class_name(c->kind));
	rtcp_show_client(m, c);
	if (cap_pkts == RTCP_NO_CAP_PKTS)
		seq_puts(m, " cap_pkts=-");
	else
		seq_printf(m, " cap_pkts=%u", cap_pkts);
	seq_printf(m, " sharing=%u shared=%u", c->sharing, shared);
}

#endif /* CCATUNE_RTCP_TEXT_H */
