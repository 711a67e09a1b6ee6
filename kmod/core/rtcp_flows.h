/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP: the flows of a client. R-TCP 2026, sections 4.4, 5.4 and 6.1 (SR-TCP).
 *
 *   connection  rtcp_flow_init()   with the client: one of its own, or the one of rtcp_clients.h
 *   transfer    rtcp_flow_starts() of the first flow with data begins one; the others join it
 *   each ACK    rtcp_flow_weigh()  u + v: who counts in g, and who has nothing to send
 *               rtcp_on_ack()      all ACKs count as those of one flow
 *   end         rtcp_flow_leaves() what is known of the limiter stays with the client
 *
 *   u + v >= R / g sRTT: the flow counts in g, with which each is given R / g       (22)
 *
 * A second connection to a client whose limiter is known uses its class, B, R and tokens from its
 * first packet on (stateful R-TCP), and verifies them (RTCP_VERIFYING, rtcp_cap.h). Only what
 * limits a transfer is begun anew.
 *
 * CONTRADICTION. Behind one address may be several clients (a carrier's NAT), each with a
 * limiter of its own or none. A limiter that flows share drops from all of them alike: while it
 * drops a share p of what they send together, n packets of a flow hold n p of the losses. A
 * flow without one although RTCP_SPARED_PKTS were due is behind another limiter: the client is
 * SPLIT. Its flows are free then, and go on with clients of their own (rtcp_flow_moves())
 * where the host has some; what comes later gets one from the start.
 *
 * p is that of the last packets of all, each with a weight of 1/8, so that what was dropped before
 * counts for no more than 8 packets behind it: a flow that ends as the bucket runs empty is
 * not spared. A p that a single loss gives counts for nothing: that is a probe's, and hits the
 * flow that probes. Losses of timeouts, which are told late, do not count.
 *
 * LIMITS. Two clients behind one address, with limiters of their own that both drop, are taken
 * for one with the sum. A flow that moves in the middle of a transfer has no rate before the
 * bucket's end to compare with: its limiter is found in one of its next transfers.
 */
#ifndef CCA_RTCP_FLOWS_H
#define CCA_RTCP_FLOWS_H

#include "rtcp_cap.h"

#define RTCP_RECENT_PKTS 8u		/* that the recent share of losses is of */
#define RTCP_HEAVY_Q16 0x2000u		/* 1/8: more than one loss in the last 8 packets */
#define RTCP_SPARED_PKTS 30u
#define RTCP_SPARED_UNITS 8u		/* of a packet, in rtcp_flow */

RTCP_ASSERT(spared_fits, RTCP_SPARED_PKTS * RTCP_SPARED_UNITS < 0xff);

/* --- who has data ----------------------------------------------------------------------- */

CCA_FN void rtcp_flow_init(struct rtcp_flow *f, const struct rtcp_client *c,
			   const struct cca_start *start)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->srtt_us = cca_min_u32(start->rtt_us, CCA_MAX_RTT_US);
	f->changes = c->changes;
	f->heavies = c->heavies;
	if (c->kind == RTCP_LIMITED)
		rtcp_enter(f, c, RTCP_VERIFYING);
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
		c->recent_loss_q16 = 0;
	}
	if (c->flows <= 1)
		rtcp_client_on_transfer(c, now_us);
	f->met = 0;
	f->spared = 0;
	if (f->phase != RTCP_FREE && f->phase != RTCP_VERIFYING)
		rtcp_enter(f, c, RTCP_CAPPED);
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

/*
 * Equation 22: u + v of a flow, in bytes, what is unsent and what is not yet acknowledged. With
 * each ACK, ahead of it. None: it rests until the host says that it starts.
 */
CCA_FN void rtcp_flow_weigh(struct rtcp_flow *f, struct rtcp_client *c, u64 waiting_bytes)
{
	u32 others = c->sharing - (f->sharing ? 1u : 0u);
	u64 share_bytes = 0;

	if (!waiting_bytes) {
		rtcp_flow_rests(f, c);
		return;
	}
	/* Without an R the division is spared. */
	if (c->bytes_per_s)
		share_bytes = rtcp_carried_us(c->bytes_per_s / (others + 1), rtcp_flow_round_us(f));
	f->sharing = f->active && waiting_bytes >= share_bytes && others < 0xffffu;
	c->sharing = (u16)(others + (f->sharing ? 1u : 0u));
}

/* The sum over the flows, modulo 2^32 as its parts: exact, whatever the order of the flows. */
CCA_FN void rtcp_set_inflight(struct rtcp_flow *f, struct rtcp_client *c, u32 pkts)
{
	c->inflight_pkts += pkts - f->inflight_pkts;
	f->inflight_pkts = pkts;
}

/* The connection ends. Nothing but init, with this or another client, may follow. */
CCA_FN void rtcp_flow_leaves(struct rtcp_flow *f, struct rtcp_client *c)
{
	rtcp_flow_rests(f, c);
	rtcp_set_inflight(f, c, 0);
}

/* From a client that is split to one of its own, which this initialises. */
CCA_FN void rtcp_flow_moves(struct rtcp_flow *f, struct rtcp_client *from,
			    struct rtcp_client *own, u64 now_us)
{
	u32 inflight_pkts = f->inflight_pkts;
	bool active = f->active;

	rtcp_flow_leaves(f, from);
	rtcp_client_init(own, now_us);
	f->phase = RTCP_FREE;
	f->changes = own->changes;
	f->heavies = own->heavies;
	rtcp_set_inflight(f, own, inflight_pkts);
	if (active)
		rtcp_flow_starts(f, own, now_us);
}

/* --- contradiction ------------------------------------------------------------------------ */

/* The recent share of losses, with these packets. Overflow: 8 x 2^16, and 2^24 x 2^16. */
CCA_FN void rtcp_note_share(struct rtcp_client *c, u64 acked_pkts, u64 lost_pkts)
{
	u64 all = acked_pkts + lost_pkts, pkts = cca_min_u64(all, RTCP_RECENT_PKTS);
	u64 share_q16 = cca_div(lost_pkts * 0xffffu, cca_max_u64(all, 1));

	c->recent_loss_q16 = (u16)((c->recent_loss_q16 * (RTCP_RECENT_PKTS - pkts) +
				    share_q16 * pkts) / RTCP_RECENT_PKTS);
}

/*
 * An ACK of a flow, ahead of its part in the client's state. At most 8 packets count: what they
 * were due is below 2^16 x 2^3 x 2^3.
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
	c->windowed |= f->windowed;
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
