/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP: the flows of a client. R-TCP 2026, sections 4.4, 5.4 and 6.1 (SR-TCP).
 *
 *   connection  rtcp_flow_init()   with a client of its own, or the one in rtcp_clients.h
 *   transfer    rtcp_flow_starts() The first flow with data begins a transfer; others join it.
 *   each ACK    rtcp_flow_update_share()  updates u + v, and so which flows count in g
 *               rtcp_on_ack()      treats all ACKs as those of one flow
 *   end         rtcp_flow_leaves() The client keeps its knowledge of the limiter.
 *
 *   u + v >= R / g sRTT: the flow counts in g, and each flow in g gets R / g        (22)
 *
 * A second connection to a client with a known limiter uses its class, B, R and tokens from its
 * first packet on (stateful R-TCP), and verifies them (RTCP_VERIFYING, rtcp_probing.h). Only the
 * state that belongs to a transfer starts anew.
 *
 * CONTRADICTION. Several clients can share one address (a carrier's NAT), each with a limiter of
 * its own or none. A limiter drops packets of all flows that share it alike. While it drops a
 * share p of their packets, n packets of a flow include n p losses. If a flow has no loss
 * although RTCP_SPARED_PKTS were expected, another limiter serves it, and the client is SPLIT.
 * Its flows are then free, and continue with clients of their own (rtcp_flow_moves()) if the
 * host has some. Later connections get clients of their own from the start.
 *
 * p is an average over the packets of all flows, in which each packet has a weight of 1/8. Earlier
 * losses thus count for at most 8 further packets, and a flow that ends when the bucket becomes
 * empty does not count as spared. A p that results from a single loss does not count, because a
 * probe causes such a loss, and only in its own flow. Losses of timeouts are reported late and do
 * not count either.
 *
 * LIMITS. Two clients behind one address whose limiters both drop packets appear as one client
 * with the sum of the rates. A flow that moves during a transfer has no rate from before the end
 * of the bucket to compare with. Its limiter is found in one of its next transfers.
 */
#ifndef CCA_RTCP_FLOWS_H
#define CCA_RTCP_FLOWS_H

#include "rtcp_probing.h"

#define RTCP_RECENT_PKTS 8u		/* over which the recent share of losses is averaged */
#define RTCP_HEAVY_Q16 0x2000u		/* 1/8: more than one loss in the last 8 packets */
#define RTCP_SPARED_PKTS 30u
#define RTCP_SPARED_UNITS 8u		/* units of `spared` in rtcp_flow, per packet */

RTCP_ASSERT(spared_fits, RTCP_SPARED_PKTS * RTCP_SPARED_UNITS < 0xff);

/* --- flows with data --------------------------------------------------------------------- */

CCA_FN void rtcp_flow_init(struct rtcp_flow *f, const struct rtcp_client *c,
			   const struct rtcp_params *p, const struct cca_start *start)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->srtt_us = cca_min_u32(start->rtt_us, CCA_MAX_RTT_US);
	f->changes = c->changes;
	f->heavy_losses = c->heavy_losses;
	if (c->kind == RTCP_LIMITED && p->act)
		rtcp_enter(f, c, rtcp_is_papers(p) ? RTCP_CAPPED : RTCP_VERIFYING);
}

/*
 * The application has data again (section 4.4). The first of a client's flows with data begins a
 * transfer.
 */
CCA_FN void rtcp_flow_starts(struct rtcp_flow *f, struct rtcp_client *c, u64 now_us)
{
	if (!f->active && c->flows < 0xffffu) {
		f->active = true;
		c->flows++;
		c->recent_loss_q16 = 0;
	}
	if (c->flows <= 1)
		rtcp_client_on_transfer(c, now_us);
	f->met = 0;
	f->spared = 0;
	if (f->phase != RTCP_FREE && f->phase != RTCP_VERIFYING)
		rtcp_enter(f, c, RTCP_CAPPED);
}

/* The application has no data, or the connection ends: the flow no longer counts. */
CCA_FN void rtcp_flow_rests(struct rtcp_flow *f, struct rtcp_client *c)
{
	if (f->sharing && c->sharing)
		c->sharing--;
	if (f->active && c->flows)
		c->flows--;
	f->sharing = false;
	f->active = false;
}

/*
 * Equation 22. waiting_bytes: u + v of the flow, its unsent and its unacknowledged bytes. The host
 * calls this before it passes on an ACK. With 0 bytes the flow rests until the host starts it.
 */
CCA_FN void rtcp_flow_update_share(struct rtcp_flow *f, struct rtcp_client *c, u64 waiting_bytes)
{
	u32 others = c->sharing - (f->sharing ? 1u : 0u);
	u64 share_bytes = 0;

	if (!waiting_bytes) {
		rtcp_flow_rests(f, c);
		return;
	}
	/* No division is needed without R. */
	if (c->bytes_per_s)
		share_bytes = rtcp_carried_us(c->bytes_per_s / (others + 1), rtcp_flow_round_us(f));
	f->sharing = f->active && waiting_bytes >= share_bytes && others < 0xffffu;
	c->sharing = (u16)(others + (f->sharing ? 1u : 0u));
}

/* Updates the sum over the flows. Modulo 2^32 it is exact in any order of the flows. */
CCA_FN void rtcp_set_inflight(struct rtcp_flow *f, struct rtcp_client *c, u32 pkts)
{
	c->inflight_pkts += pkts - f->inflight_pkts;
	f->inflight_pkts = pkts;
}

/* The connection ends. Only rtcp_flow_init() may follow, with this or another client. */
CCA_FN void rtcp_flow_leaves(struct rtcp_flow *f, struct rtcp_client *c)
{
	rtcp_flow_rests(f, c);
	rtcp_set_inflight(f, c, 0);
}

/* Moves the flow from a SPLIT client to its own one, which this initialises. */
CCA_FN void rtcp_flow_moves(struct rtcp_flow *f, struct rtcp_client *from,
			    struct rtcp_client *own, u64 now_us)
{
	u32 inflight_pkts = f->inflight_pkts;
	bool active = f->active;

	rtcp_flow_leaves(f, from);
	rtcp_client_init(own, now_us);
	f->phase = RTCP_FREE;
	f->changes = own->changes;
	f->heavy_losses = own->heavy_losses;
	rtcp_set_inflight(f, own, inflight_pkts);
	if (active)
		rtcp_flow_starts(f, own, now_us);
}

/* --- contradiction ------------------------------------------------------------------------ */

/* Adds packets to the recent share of losses. Overflow: 8 x 2^16, and 2^24 x 2^16. */
CCA_FN void rtcp_note_share(struct rtcp_client *c, u64 acked_pkts, u64 lost_pkts)
{
	u64 all = acked_pkts + lost_pkts, pkts = cca_min_u64(all, RTCP_RECENT_PKTS);
	u64 share_q16 = cca_div(lost_pkts * 0xffffu, cca_max_u64(all, 1));

	c->recent_loss_q16 = (u16)((c->recent_loss_q16 * (RTCP_RECENT_PKTS - pkts) +
				    share_q16 * pkts) / RTCP_RECENT_PKTS);
}

/*
 * Compares the losses of a flow with those of its client, before the ACK changes the client. At
 * most 8 packets count, so the expected losses stay below 2^16 x 2^3 x 2^3.
 */
CCA_FN void rtcp_compare(struct rtcp_flow *f, struct rtcp_client *c, const struct cca_ack *ack)
{
	u32 acked_pkts = cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS);
	u32 lost_pkts = cca_min_u32(ack->lost_pkts, CCA_MAX_PKTS), due;

	if (c->flows < 2 || c->kind == RTCP_SPLIT)
		return;
	rtcp_note_share(c, acked_pkts, lost_pkts);
	if (lost_pkts) {
		f->spared = 0;
		return;
	}
	if (c->recent_loss_q16 < RTCP_HEAVY_Q16)
		return;
	due = (cca_min_u32(acked_pkts, RTCP_RECENT_PKTS) * c->recent_loss_q16 *
	       RTCP_SPARED_UNITS) >> 16;
	f->spared = (u8)cca_min_u32(f->spared + due, 0xff);
	if (f->spared > RTCP_SPARED_PKTS * RTCP_SPARED_UNITS)
		c->kind = RTCP_SPLIT;
}

/* --- entry points --------------------------------------------------------------------------- */

CCA_FN void rtcp_on_ack(struct rtcp_flow *f, struct rtcp_client *c, const struct rtcp_params *p,
			const struct cca_ack *ack)
{
	u32 rtt_us = cca_min_u32(ack->rtt_us, CCA_MAX_RTT_US);
	u64 acked_pkts = cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS), before_us = c->clock_us;

	/* RFC 6298's weight of 1/8. Overflow: 7 x 2^26. */
	if (rtt_us)
		f->srtt_us = f->srtt_us ? (f->srtt_us * 7 + rtt_us + 4) / 8 : rtt_us;
	rtcp_set_inflight(f, c, ack->inflight_pkts);
	rtcp_compare(f, c, ack);
	c->windowed |= f->windowed && !rtcp_is_papers(p);
	rtcp_client_on_ack(c, p, ack);
	if (f->phase == RTCP_LIFTED && f->changes != c->changes)
		rtcp_count_lifted(f, c, acked_pkts * c->mss_bytes, c->clock_us - before_us);
	rtcp_flow_step(f, c, p, ack->lost_pkts != 0);
}

CCA_FN void rtcp_on_event(struct rtcp_flow *f, struct rtcp_client *c, const struct rtcp_params *p,
			  const struct cca_event *ev)
{
	u32 gone_pkts = f->inflight_pkts > ev->inflight_pkts ?
		f->inflight_pkts - ev->inflight_pkts : 0;

	rtcp_set_inflight(f, c, ev->inflight_pkts);
	switch (ev->kind) {
	case CCA_TIMEOUT:
		f->spared = 0;
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
