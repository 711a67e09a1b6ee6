/* SPDX-License-Identifier: MIT */
/* rtcp_flows.h: flows that share a client, what outlives them, and what contradicts it. */
#include "rtcp_limiter.h"

static struct limited l;
static struct rtcp_flow flows[3];
static struct cca_ack ack;

/* A client whose limiter is known, 250,000 bytes/s and 700,000 bytes, the bucket empty; its flows have data. */
static void open_flows(u32 n)
{
	struct cca_start start = { SECOND, 100 * MS, 10, 0, MSS };
	u32 i;

	open_limited(&l, 700000, 250000);
	memset(&ack, 0, sizeof(ack));
	ack.now_us = SECOND;
	ack.mss_bytes = MSS;
	memset(flows, 0xa5, sizeof(flows));
	for (i = 0; i < n; i++) {
		rtcp_flow_init(&flows[i], &l.c, &l.p, &start);
		rtcp_flow_starts(&flows[i], &l.c, SECOND);
	}
	/* They have found it themselves: there is nothing to verify. */
	know_limit(&l.c, 250000, 100 * MS);
	CHECK_EQ(l.c.flows, n);
}

static void take(struct rtcp_flow *f, u32 acked_pkts, u32 lost_pkts, u32 inflight_pkts)
{
	ack.now_us += 10 * MS;
	ack.rtt_us = 100 * MS;
	ack.acked_pkts = acked_pkts;
	ack.lost_pkts = lost_pkts;
	ack.inflight_pkts = inflight_pkts;
	rtcp_on_ack(f, &l.c, &l.p, &ack);
}

/* --- equation 22 ------------------------------------------------------------------------- */

TEST(test_flows_share_the_rate)
{
	struct rtcp_flow *f = &flows[0], *other = &flows[1];

	open_flows(2);
	rtcp_flow_update_share(f, &l.c, 25000);
	CHECK_EQ(l.c.sharing, 1);
	rtcp_flow_step(f, &l.c, &l.p, false);
	CHECK_EQ(rtcp_capped_rate(f, &l.c, &l.p, 1000000), 250000);
	/* With another one a share is 12,500 bytes. */
	rtcp_flow_update_share(other, &l.c, 12490);
	CHECK_EQ(l.c.sharing, 1);
	rtcp_flow_update_share(other, &l.c, 12500);
	rtcp_flow_update_share(other, &l.c, 12500);
	CHECK_EQ(l.c.sharing, 2);
	CHECK_EQ(rtcp_capped_rate(f, &l.c, &l.p, 1000000), 125000);
	/* The window, 8.6 packets, in pairs. */
	CHECK_EQ(rtcp_cap_pkts(f, &l.c, &l.p), 8);
	/* With less than a share it counts no more, and with none it rests. */
	rtcp_flow_update_share(other, &l.c, 12490);
	CHECK_EQ(l.c.sharing, 1);
	CHECK_EQ(l.c.flows, 2);
	rtcp_flow_update_share(other, &l.c, 1000000);
	rtcp_flow_update_share(other, &l.c, 0);
	rtcp_flow_update_share(other, &l.c, 0);
	CHECK_EQ(l.c.sharing, 1);
	CHECK_EQ(l.c.flows, 1);
	rtcp_flow_update_share(other, &l.c, 1000000);
	CHECK_EQ(l.c.sharing, 1);
	rtcp_flow_starts(other, &l.c, ack.now_us);
	rtcp_flow_update_share(other, &l.c, 1000000);
	CHECK_EQ(l.c.sharing, 2);
}

/* Of g flows each gets R / g, to the byte. */
TEST(test_three_flows_get_a_third_each)
{
	u32 i;

	open_flows(3);
	for (i = 0; i < 3; i++)
		rtcp_flow_update_share(&flows[i], &l.c, 1u << 20);
	for (i = 0; i < 3; i++) {
		rtcp_flow_step(&flows[i], &l.c, &l.p, false);
		CHECK_EQ(rtcp_capped_rate(&flows[i], &l.c, &l.p, 1000000), 83333);
	}
}

/* --- transfers ------------------------------------------------------------------------------ */

/* The first of a client's flows to have data begins a transfer, the second joins it. */
TEST(test_a_transfer_begins_with_the_first_flow)
{
	struct cca_event ev = { CCA_TRANSFER_STARTED, SECOND, 0, 10, MSS };

	open_flows(2);
	rtcp_flow_rests(&flows[1], &l.c);
	take(&flows[0], 17, 0, 0);
	CHECK_EQ(l.c.acked_bytes, 17 * MSS);
	ev.now_us = ack.now_us;
	rtcp_on_event(&flows[1], &l.c, &l.p, &ev);
	CHECK_EQ(l.c.acked_bytes, 17 * MSS);
	take(&flows[1], 3, 0, 0);
	CHECK_EQ(l.c.acked_bytes, 20 * MSS);
	rtcp_flow_rests(&flows[0], &l.c);
	ev.kind = CCA_IDLE_RESTART;
	ev.now_us = ack.now_us;
	rtcp_on_event(&flows[1], &l.c, &l.p, &ev);
	CHECK_EQ(l.c.acked_bytes, 0);
}

/* Equation 21, for all flows: two of 9 packets in flight have spent 26,064 bytes. */
TEST(test_tokens_in_flight_are_spent_by_whatever_flow)
{
	open_flows(2);
	take(&flows[0], 0, 0, 9);
	take(&flows[1], 0, 0, 9);
	CHECK_EQ(l.c.inflight_pkts, 18);
	l.c.token_deficit_bytes = 700000 - 26060;
	CHECK(rtcp_is_capped(&flows[0], &l.c, &l.p));
	l.c.token_deficit_bytes = 700000 - 26070;
	CHECK(!rtcp_is_capped(&flows[0], &l.c, &l.p));
	take(&flows[1], 0, 0, 30);
	CHECK_EQ(l.c.inflight_pkts, 39);
	CHECK(rtcp_is_capped(&flows[0], &l.c, &l.p));
	rtcp_flow_leaves(&flows[1], &l.c);
	CHECK_EQ(l.c.inflight_pkts, 9);
	CHECK_EQ(l.c.flows, 1);
}

/* SR-TCP, section 6.1: class, B and R stay, and tokens come while nothing is sent: 2 s of R. */
TEST(test_a_second_connection_begins_with_what_the_first_has_found)
{
	struct cca_start start = { SECOND, 100 * MS, 10, 0, MSS };

	open_flows(1);
	take(&flows[0], 2, 0, 0);
	l.c.token_deficit_bytes = l.c.bucket_bytes;
	rtcp_flow_leaves(&flows[0], &l.c);
	start.now_us = ack.now_us + 2 * SECOND;
	rtcp_flow_init(&flows[1], &l.c, &l.p, &start);
	rtcp_flow_starts(&flows[1], &l.c, start.now_us);
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
	CHECK_EQ(l.c.flows, 1);
	CHECK_EQ(rtcp_tokens(&l.c), 500000);
	CHECK_EQ(l.c.acked_bytes, 0);
	/* Free while there are tokens, and then capped, but for what verifies the limiter. */
	rtcp_flow_step(&flows[1], &l.c, &l.p, false);
	CHECK(!rtcp_is_capped(&flows[1], &l.c, &l.p));
	ack.now_us = start.now_us;
	take(&flows[1], 330, 0, 10);
	CHECK_EQ(flows[1].phase, RTCP_VERIFYING);
	CHECK(!rtcp_is_capped(&flows[1], &l.c, &l.p));
	take(&flows[1], 0, 0, 40);
	CHECK(rtcp_is_capped(&flows[1], &l.c, &l.p));
	l.c.token_deficit_bytes = l.c.bucket_bytes;
	take(&flows[1], 0, 1, 10);
	CHECK_EQ(flows[1].phase, RTCP_CAPPED);
}

/* --- contradiction ---------------------------------------------------------------------------- */

/* One loses half of its packets, the other none. p is 1/2, and 3/8 with two more: 3/4 of a packet are 5 units. */
TEST(test_flows_of_which_one_never_loses_are_split)
{
	open_flows(2);
	for (row = 1; row < 100 && l.c.kind != RTCP_SPLIT; row++) {
		take(&flows[0], 4, 4, 8);
		take(&flows[1], 2, 0, 8);
	}
	/* More than 240 units are 49 times 5. */
	CHECK_EQ(row, 1 + 49);
	CHECK_EQ(l.c.kind, RTCP_SPLIT);
	row = 0;
	/* Nothing is capped, and nothing learned, any more. */
	take(&flows[0], 4, 4, 8);
	CHECK_EQ(flows[0].phase, RTCP_FREE);
	CHECK_EQ(rtcp_cap_pkts(&flows[0], &l.c, &l.p), RTCP_NO_CAP_PKTS);
	CHECK_EQ(l.c.kind, RTCP_SPLIT);
}

/* One that loses a single packet out of 16 is behind the same limiter as the one that loses half of them. */
TEST(test_flows_that_both_lose_are_not)
{
	open_flows(2);
	for (row = 1; row < 500; row++) {
		take(&flows[0], 4, 4, 8);
		take(&flows[1], 2, row % 16 ? 0 : 1, 8);
	}
	CHECK(l.c.kind != RTCP_SPLIT);
}

/* What one drops in a burst is not held against the packets that come behind it. */
TEST(test_a_flow_that_ends_as_the_bucket_runs_empty_is_not)
{
	open_flows(2);
	take(&flows[0], 10, 200, 8);
	for (row = 1; row < 500; row++)
		take(&flows[1], 2, 0, 8);
	row = 0;
	CHECK(l.c.kind != RTCP_SPLIT);
	CHECK(flows[1].spared > 0 && flows[1].spared <= RTCP_RECENT_PKTS * RTCP_SPARED_UNITS);
}

/* A probe's loss, one in a while, is not held against those that do not probe. */
TEST(test_single_losses_are_not_compared)
{
	u32 i;

	open_flows(2);
	for (row = 1; row < 500; row++) {
		take(&flows[0], 0, 1, 8);
		for (i = 0; i < 20; i++)
			take(&flows[1], 2, 0, 8);
	}
	row = 0;
	CHECK_EQ(flows[1].spared, 0);
}

/* A timeout is a loss as well; a flow alone is compared with none. */
TEST(test_what_is_due_is_forgotten_with_a_loss)
{
	struct cca_event ev = { CCA_TIMEOUT, SECOND, 0, 10, MSS };

	open_flows(2);
	take(&flows[0], 4, 4, 8);
	take(&flows[1], 2, 0, 8);
	CHECK_EQ(flows[1].spared, 5);
	ev.now_us = ack.now_us;
	rtcp_on_event(&flows[1], &l.c, &l.p, &ev);
	CHECK_EQ(flows[1].spared, 0);
	rtcp_flow_rests(&flows[0], &l.c);
	take(&flows[1], 2, 0, 8);
	CHECK_EQ(flows[1].spared, 0);
}

/* With a client of its own a flow looks anew, and takes along what is in flight. */
TEST(test_a_flow_of_a_split_client_goes_on_with_one_of_its_own)
{
	struct rtcp_client own;

	open_flows(2);
	take(&flows[0], 2, 0, 7);
	take(&flows[1], 2, 0, 5);
	rtcp_flow_update_share(&flows[1], &l.c, 1000000);
	l.c.kind = RTCP_SPLIT;
	flows[1].windowed = true;
	memset(&own, 0x5a, sizeof(own));
	rtcp_flow_moves(&flows[1], &l.c, &own, ack.now_us);
	CHECK_EQ(l.c.flows, 1);
	CHECK_EQ(l.c.sharing, 0);
	CHECK_EQ(l.c.inflight_pkts, 7);
	CHECK_EQ(own.kind, RTCP_UNKNOWN);
	CHECK(!own.windowed);
	CHECK_EQ(own.flows, 1);
	CHECK_EQ(own.inflight_pkts, 5);
	CHECK_EQ(flows[1].phase, RTCP_FREE);
	rtcp_on_ack(&flows[1], &own, &l.p, &ack);
	CHECK(own.windowed);
	/* One that rests does so there, too. */
	rtcp_flow_rests(&flows[0], &l.c);
	rtcp_flow_moves(&flows[0], &l.c, &own, ack.now_us);
	CHECK_EQ(own.flows, 0);
	CHECK_EQ(l.c.inflight_pkts, 0);
}
