// SPDX-License-Identifier: MIT
/* kmod/core/reno.h: RFC 5681, a row an equation and its edges. */
#include "reno.h"

#include "check.h"

#define NO_SSTHRESH 0x7fffffffu		/* as Linux starts */
#define U32_TOP 0xffffffffu

static struct reno_state s;
TEST(the_window_grows_as_rfc_5681_says)
{
	static const struct {
		u32 cwnd_pkts, ssthresh_pkts, credit_pkts, acked_pkts;
		u32 cwnd_after_pkts, credit_after_pkts;
	} cases[] = {
		/* slow start, eq. 2: by what was ACKed */
		{ 10, NO_SSTHRESH, 0, 1, 11, 0 },
		{ 10, NO_SSTHRESH, 0, 10, 20, 0 },
		{ 10, 20, 0, 10, 20, 0 },
		{ 10, NO_SSTHRESH, 3, 1, 11, 3 },
		/* the ACKs beyond ssthresh count for congestion avoidance */
		{ 10, 12, 0, 5, 12, 3 },
		{ 10, 12, 0, 14, 13, 0 },
		/* congestion avoidance, eq. 3: one packet a window */
		{ 10, 10, 0, 1, 10, 1 },
		{ 10, 10, 8, 1, 10, 9 },
		{ 10, 10, 9, 1, 11, 0 },
		{ 10, 10, 9, 2, 11, 1 },
		{ 10, 5, 0, 25, 12, 5 },	/* a stretched ACK: two windows and a half */
		{ 10, 10, 0, 0, 10, 0 },
		/* limits */
		{ 0, 0, 0, 1, 2, 0 },		/* a window of none counts as one */
		{ 0, 0, 0, 0, 0, 0 },
		{ 1, 1, 0, 1, 2, 0 },
		{ (1u << 24) - 1, NO_SSTHRESH, 0, 9, 1u << 24, 0 },
		{ 1u << 24, 1, (1u << 24) - 1, 1, 1u << 24, 0 },
		{ 10, 10, 0, U32_TOP, 10 + (1u << 24) / 10, (1u << 24) % 10 },
		{ 10, U32_TOP, 0, U32_TOP, 1u << 24, (1u << 24) % (1u << 24) + 10 },
	};

	FOR_ROWS(cases) {
		struct cca_window w = { c->cwnd_pkts, c->ssthresh_pkts, c->credit_pkts };

		reno_init(&s);
		reno_grow(&s, &w, c->acked_pkts);
		CHECK_EQ(w.cwnd_pkts, c->cwnd_after_pkts);
		CHECK_EQ(w.credit_pkts, c->credit_after_pkts);
		CHECK_EQ(w.ssthresh_pkts, c->ssthresh_pkts);
	}
}

TEST(slow_start_without_room_uses_no_ack)
{
	struct cca_window w = { 10, 10, 0 };

	CHECK_EQ(reno_slow_start(&w, 5), 5);
	w.ssthresh_pkts = 3;
	CHECK_EQ(reno_slow_start(&w, 5), 5);
	CHECK_EQ(w.cwnd_pkts, 10);
}

TEST(slow_start_doubles_in_a_round_trip)
{
	struct cca_window w = { 10, NO_SSTHRESH, 0 };
	u32 round, acks;

	reno_init(&s);
	for (round = 0; round < 5; round++)
		for (acks = w.cwnd_pkts; acks; acks--)
			reno_grow(&s, &w, 1);
	CHECK_EQ(w.cwnd_pkts, 320);
}

TEST(avoidance_adds_a_packet_in_a_round_trip)
{
	struct cca_window w = { 100, 100, 0 };
	u32 round, acks;

	reno_init(&s);
	for (round = 0; round < 50; round++)
		for (acks = w.cwnd_pkts; acks; acks--)
			reno_grow(&s, &w, 1);
	CHECK_EQ(w.cwnd_pkts, 150);
	CHECK_EQ(w.credit_pkts, 0);
}

TEST(a_loss_halves_and_an_undo_restores)
{
	static const struct { u32 cwnd_pkts, ssthresh_pkts; } cases[] = {
		{ 100, 50 }, { 101, 50 }, { 5, 2 }, { 4, 2 }, { 3, 2 }, { 2, 2 }, { 1, 2 },
		{ 0, 2 }, { 1u << 24, 1u << 23 }, { U32_TOP, U32_TOP / 2 },
	};

	FOR_ROWS(cases) {
		struct cca_window w = { c->cwnd_pkts, NO_SSTHRESH, 0 };

		reno_init(&s);
		w.ssthresh_pkts = reno_ssthresh(&s, &w);
		CHECK_EQ(w.ssthresh_pkts, c->ssthresh_pkts);
		w.cwnd_pkts = 1;
		CHECK_EQ(reno_undo(&s, &w), cca_max_u32(c->cwnd_pkts, 1));
		w.cwnd_pkts = U32_TOP;		/* has grown past it since */
		CHECK_EQ(reno_undo(&s, &w), U32_TOP);
	}
}

TEST(a_halved_window_does_not_grow_by_what_the_larger_one_earned)
{
	struct cca_window w = { 100, 50, 99 };

	reno_init(&s);
	w.ssthresh_pkts = reno_ssthresh(&s, &w);
	CHECK_EQ(w.credit_pkts, 0);
	w.cwnd_pkts = w.ssthresh_pkts;
	reno_grow(&s, &w, 49);
	CHECK_EQ(w.cwnd_pkts, 50);
	reno_grow(&s, &w, 1);
	CHECK_EQ(w.cwnd_pkts, 51);
	/* The same for a host that lowers the window by itself. */
	w.cwnd_pkts = 20;
	w.ssthresh_pkts = 20;
	w.credit_pkts = 20;
	reno_grow(&s, &w, 19);
	CHECK_EQ(w.cwnd_pkts, 20);
	reno_grow(&s, &w, 1);
	CHECK_EQ(w.cwnd_pkts, 21);
}

TEST(an_ack_alone_changes_nothing)
{
	struct reno_state s, before;
	struct cca_ack ack;

	memset(&ack, 0xff, sizeof(ack));
	reno_init(&s);
	before = s;
	reno_on_ack(&s, &ack);
	CHECK(!memcmp(&s, &before, sizeof(s)));
}
