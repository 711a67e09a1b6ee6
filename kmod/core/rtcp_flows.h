/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP: the flows of a client.
 */
#ifndef CCA_RTCP_FLOWS_H
#define CCA_RTCP_FLOWS_H

#include "rtcp_cap.h"

CCA_FN void rtcp_flow_init(struct rtcp_flow *f, const struct rtcp_client *c,
			   const struct cca_start *start)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->srtt_us = cca_min_u32(start->rtt_us, CCA_MAX_RTT_US);
	f->changes = c->changes;
	f->heavies = c->heavies;
}

/*
 * The application has data, after it had none (section 4.4). Of a client's flows the first one
 * begins a transfer; a flow that never rested has been the only one all the time, or is not.
 */
CCA_FN void rtcp_flow_starts(struct rtcp_flow *f, struct rtcp_client *c, u64 now_us)
{
	if (!f->active && c->flows < 0xffffu) {
		f->active = true;
		c->flows++;
	}
	if (c->flows <= 1)
		rtcp_client_on_transfer(c, now_us);
	f->met = 0;
	if (f->phase != RTCP_FREE)
		rtcp_enter(f, c, RTCP_CAPPED);
}

/* Equation 22: u + v of a flow, in bytes; from a host whose client has several flows. */
CCA_FN void rtcp_flow_weigh(struct rtcp_flow *f, struct rtcp_client *c, u64 unsent_inflight_bytes)
{
	u32 others = c->sharing - (f->sharing ? 1u : 0u);
	u64 share_bytes = rtcp_carried_us(c->bytes_per_s / (others + 1), rtcp_flow_round_us(f));
	bool weighs = f->active && unsent_inflight_bytes >= share_bytes;

	f->sharing = weighs && others < 0xffffu;
	c->sharing = (u16)(others + (f->sharing ? 1u : 0u));
}

/* The application has no data, or the connection ends: it counts no more. */
CCA_FN void rtcp_flow_rests(struct rtcp_flow *f, struct rtcp_client *c)
{
	if (f->sharing && c->sharing)
		c->sharing--;
	if (f->active && c->flows)
		c->flows--;
	f->sharing = false;
	f->active = false;
}

CCA_FN void rtcp_on_ack(struct rtcp_flow *f, struct rtcp_client *c, const struct rtcp_params *p,
			const struct cca_ack *ack)
{
	u32 rtt_us = cca_min_u32(ack->rtt_us, CCA_MAX_RTT_US);

	/* RFC 6298's weight of 1/8. Overflow: 7 x 2^26. */
	if (rtt_us)
		f->srtt_us = f->srtt_us ? (f->srtt_us * 7 + rtt_us + 4) / 8 : rtt_us;
	f->inflight_pkts = ack->inflight_pkts;
	rtcp_client_on_ack(c, p, ack);
	rtcp_flow_step(f, c, p, ack->lost_pkts != 0);
}

CCA_FN void rtcp_on_event(struct rtcp_flow *f, struct rtcp_client *c, const struct rtcp_params *p,
			  const struct cca_event *ev)
{
	u32 gone_pkts = f->inflight_pkts > ev->inflight_pkts ?
		f->inflight_pkts - ev->inflight_pkts : 0;

	f->inflight_pkts = ev->inflight_pkts;
	switch (ev->kind) {
	case CCA_TIMEOUT:
		rtcp_client_on_timeout(c, p, ev->now_us, gone_pkts);
		break;
	case CCA_UNDO:
		rtcp_client_on_undo(c);
		break;
	case CCA_TRANSFER_STARTED:
	case CCA_IDLE_RESTART:
		rtcp_flow_starts(f, c, ev->now_us);
		break;
	default:
		break;
	}
}

#endif /* CCA_RTCP_FLOWS_H */
