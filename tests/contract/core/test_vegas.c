// SPDX-License-Identifier: MIT
/* kmod/core/vegas.h: Brakmo and Peterson 1995, section III, by rows and on a path with a queue. */
#define ONLY_ID CCA_ID_vegas
#include "path.h"

#define U32_TOP 0xffffffffu
#define BASE_MS 50u			/* the link holds 50 packets, each of which takes 1 ms */
#define MOST_OUT 4096u

/* A flow over a link of a packet in 1 ms. Each packet sent has its RTT, by its place in the queue. */
static struct flow f;
static u32 rtts_us[MOST_OUT], sent, delivered;

static void send_what_may(void)
{
	while (sent - delivered < f.w.cwnd_pkts) {
		u32 out = ++sent - delivered;

		rtts_us[sent % MOST_OUT] = cca_max_u32(out, BASE_MS) * MS;
	}
}

static void open_link(u32 cwnd_pkts, u32 ssthresh_pkts)
{
	struct cca_start start = { 0, 0, cwnd_pkts, 0, MSS };

	open_flow(&f, CCA_ID_vegas, &start, 0);
	f.w.ssthresh_pkts = ssthresh_pkts;
	sent = delivered = 0;
	send_what_may();
}

static void take_one(u32 rtt_us)
{
	f.ack.rtt_us = rtt_us;
	f.ack.acked_pkts = 1;
	f.ack.delivered_pkts = ++delivered;
	f.ack.inflight_pkts = sent - delivered;
	flow_on_ack(&f, &f.ack);
	if (f.ack.cwnd_limited)
		flow_grow(&f, 1);
	send_what_may();
}

/* All packets that are out now are ACKed, so that the next ACK ends the round trip. */
static void take_window(void)
{
	u32 end = sent;

	while (delivered != end)
		take_one(rtts_us[(delivered + 1) % MOST_OUT]);
}

TEST(the_thresholds_are_those_of_vegas_1_3)
{
	struct vegas_params p;

	cca_params_init(&p, CCA_ID_vegas);
	CHECK_EQ(p.alpha_pkts, 1);
	CHECK_EQ(p.beta_pkts, 3);
	CHECK_EQ(p.gamma_pkts, 1);
}

/* Section III-C: exponential growth in every other round trip, and a fixed window in between. */
TEST(an_empty_queue_doubles_the_window_in_every_other_round_trip)
{
	static const u32 windows[] = { 6, 6, 12, 12, 24, 24, 48, 48 };

	open_link(3, NO_SSTHRESH);
	FOR_ROWS(windows) {
		take_window();
		CHECK_EQ(f.w.cwnd_pkts, *c);
	}
	CHECK_EQ(f.w.ssthresh_pkts, NO_SSTHRESH);
}

TEST(slow_start_stops_at_ssthresh)
{
	open_link(10, 16);
	take_window();
	CHECK_EQ(f.w.cwnd_pkts, 16);
	take_window();			/* its first ACK ends the round trip: one packet more */
	CHECK_EQ(f.w.cwnd_pkts, 17);
	take_window();
	CHECK_EQ(f.w.cwnd_pkts, 18);
}

/* 10, 20, 40, 80: the path holds 50, so that 30 are queued. */
TEST(more_than_gamma_in_the_queue_ends_slow_start)
{
	u32 i;

	open_link(10, NO_SSTHRESH);
	for (i = 0; i < 6; i++)
		take_window();
	CHECK_EQ(f.w.cwnd_pkts, 80);
	CHECK_EQ(f.w.ssthresh_pkts, NO_SSTHRESH);
	take_one(80 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 80);
	CHECK_EQ(f.w.ssthresh_pkts, 80);
	/* With a gamma of as many it goes on. */
	open_link(10, NO_SSTHRESH);
	f.p.vegas.gamma_pkts = 30;
	for (i = 0; i < 7; i++)
		take_window();
	CHECK_EQ(f.w.cwnd_pkts, 160);
}

TEST(a_round_trip_moves_the_window_by_what_is_queued)
{
	static const struct {
		u32 cwnd_pkts, ssthresh_pkts, base_rtt_us, rtt_us;
		bool doubles;
		u32 cwnd_after_pkts, ssthresh_after_pkts;
	} cases[] = {
		/* linear mode: Diff = cwnd (RTT - BaseRTT) / RTT */
		{ 50, 10, 50000, 50000, false, 51, 10 },	/* 0 */
		{ 51, 10, 50000, 50900, false, 52, 10 },	/* 0.9 */
		{ 51, 10, 50000, 51000, false, 51, 10 },	/* 1: alpha */
		{ 52, 10, 50000, 52000, false, 52, 10 },	/* 2 */
		{ 53, 10, 50000, 53000, false, 53, 10 },	/* 3: beta */
		{ 53, 10, 50000, 53100, false, 52, 10 },	/* 3.1 */
		{ 80, 80, 50000, 80000, true, 79, 79 },		/* stays below no ssthresh */
		/* slow start: compared where the window was fixed */
		{ 51, 90, 50000, 51000, false, 51, 90 },	/* 1: gamma */
		{ 52, 90, 50000, 52000, false, 52, 52 },
		{ 52, 90, 50000, 52000, true, 52, 90 },
		/* limits */
		{ 2, 2, 1000, 90000, false, 2, 2 },		/* 1.98 of 2 */
		{ 5, 2, 1, 90000, false, 4, 2 },
		{ 1, 1, 50000, 50000, false, 2, 1 },
		{ 0, 0, 50000, 50000, false, 1, 0 },
		{ 1u << 24, 2, 50000, 50000, false, 1u << 24, 2 },
		{ 1u << 24, 2, 1, 1u << 26, false, (1u << 24) - 1, 2 },
		{ U32_TOP, 2, 1, 1u << 26, false, U32_TOP - 1, 2 },
	};

	FOR_ROWS(cases) {
		struct cca_window w = { c->cwnd_pkts, c->ssthresh_pkts, 7 };
		struct vegas_params p;
		struct vegas_state s;

		cca_params_init(&p, CCA_ID_vegas);
		vegas_init(&s);
		s.base_rtt_us = c->base_rtt_us;
		s.ended_rtt_us = c->rtt_us;
		s.doubles = c->doubles;
		vegas_grow(&s, &p, &w, 0);
		CHECK_EQ(w.cwnd_pkts, c->cwnd_after_pkts);
		CHECK_EQ(w.ssthresh_pkts, c->ssthresh_after_pkts);
		CHECK_EQ(w.credit_pkts, 7);
		/* A round trip counts once. */
		vegas_grow(&s, &p, &w, 0);
		CHECK_EQ(w.cwnd_pkts, c->cwnd_after_pkts);
	}
}

/*
 * The window stays where alpha to beta packets are queued. From above it stops at beta. From below
 * it stops a packet above alpha, because a distinguished packet leaves before the packet that the
 * window has grown by.
 */
TEST(the_queue_settles_between_alpha_and_beta)
{
	static const struct { u32 start_pkts, alpha_pkts, beta_pkts, cwnd_pkts; } cases[] = {
		{ 80, 1, 3, 53 }, { 20, 1, 3, 52 }, { 51, 1, 3, 51 }, { 80, 2, 4, 54 },
		{ 20, 2, 4, 53 }, { 200, 10, 20, 70 }, { 20, 10, 20, 61 },
	};

	FOR_ROWS(cases) {
		u32 i;

		open_link(c->start_pkts, c->start_pkts);
		f.p.vegas.alpha_pkts = c->alpha_pkts;
		f.p.vegas.beta_pkts = c->beta_pkts;
		f.vegas.base_rtt_us = BASE_MS * MS;
		for (i = 0; i < 150; i++)
			take_window();
		CHECK_EQ(f.w.cwnd_pkts, c->cwnd_pkts);
		take_window();
		take_window();
		CHECK_EQ(f.w.cwnd_pkts, c->cwnd_pkts);
	}
}

TEST(the_least_round_trip_is_that_of_the_empty_path)
{
	open_link(60, 10);
	take_one(0);
	CHECK_EQ(f.vegas.base_rtt_us, 0);
	take_one(70 * MS);
	take_one(60 * MS);
	take_one(80 * MS);
	CHECK_EQ(f.vegas.base_rtt_us, 60 * MS);
	take_one(U32_TOP);
	CHECK_EQ(f.vegas.base_rtt_us, 60 * MS);
}

TEST(a_round_trip_waits_for_the_sample_of_its_packet)
{
	u32 i;

	open_link(10, 5);
	for (i = 0; i < 10; i++)
		take_one(50 * MS);
	take_one(0);
	CHECK_EQ(f.w.cwnd_pkts, 10);
	take_one(50 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 11);
}

TEST(a_window_that_is_not_used_stays)
{
	u32 i;

	open_link(10, NO_SSTHRESH);
	f.ack.cwnd_limited = false;
	for (i = 0; i < 8; i++)
		take_window();
	CHECK_EQ(f.w.cwnd_pkts, 10);
	CHECK_EQ(f.w.ssthresh_pkts, NO_SSTHRESH);
}

TEST(an_event_voids_the_round_trip)
{
	static const enum cca_event_kind kinds[] = {
		CCA_RECOVERY_ENTERED, CCA_RECOVERY_LEFT, CCA_TIMEOUT, CCA_UNDO,
		CCA_TRANSFER_STARTED, CCA_IDLE_RESTART,
	};

	FOR_ROWS(kinds) {
		struct cca_event ev = { *c, 0, 0, 0, 0 };
		u32 i;

		open_link(10, 5);
		take_window();
		vegas_on_event(&f.vegas, &ev);
		/* This ACK would have ended it. It begins another. */
		take_one(50 * MS);
		CHECK_EQ(f.w.cwnd_pkts, 10);
		for (i = 0; i < 10; i++)
			take_one(50 * MS);
		CHECK_EQ(f.w.cwnd_pkts, 11);
	}
}

TEST(slow_start_after_a_timeout_begins_with_growth)
{
	struct cca_event ev = { CCA_TIMEOUT, 0, 0, 0, 0 };

	open_link(10, NO_SSTHRESH);
	take_window();
	take_one(50 * MS);		/* the next round trip has a fixed window */
	f.w.ssthresh_pkts = vegas_ssthresh(&f.vegas, &f.w);
	f.w.cwnd_pkts = 1;
	vegas_on_event(&f.vegas, &ev);
	sent = delivered;
	send_what_may();
	take_window();
	CHECK_EQ(f.w.cwnd_pkts, 2);
}

TEST(a_loss_halves_and_an_undo_restores)
{
	static const struct { u32 cwnd_pkts, ssthresh_pkts; } cases[] = {
		{ 100, 50 }, { 101, 50 }, { 4, 2 }, { 3, 2 }, { 1, 2 }, { 0, 2 },
		{ 1u << 24, 1u << 23 }, { U32_TOP, U32_TOP / 2 },
	};

	FOR_ROWS(cases) {
		struct cca_window w = { c->cwnd_pkts, NO_SSTHRESH, 0 };
		struct vegas_state s;

		vegas_init(&s);
		w.ssthresh_pkts = vegas_ssthresh(&s, &w);
		CHECK_EQ(w.ssthresh_pkts, c->ssthresh_pkts);
		w.cwnd_pkts = 1;
		CHECK_EQ(vegas_undo(&s, &w), cca_max_u32(c->cwnd_pkts, 1));
		w.cwnd_pkts = U32_TOP;
		CHECK_EQ(vegas_undo(&s, &w), U32_TOP);
	}
}

TEST(the_counter_of_packets_may_wrap)
{
	u32 i;

	open_link(10, 5);
	sent = 5;
	delivered = U32_TOP - 4;
	for (i = 0; i < 10; i++)
		take_one(50 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 10);
	take_one(50 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 11);
}
