// SPDX-License-Identifier: MIT
/* kmod/core/cubic.h: how slow start ends, by HyStart and by HyStart++. */
#include "cubic_flow.h"

/* Samples of a round trip that has just begun, ACKs 3 ms apart: no train. */
static void take_samples(u32 count, u32 rtt_us)
{
	while (count--)
		take_ack(&f, 3 * MS, 1, rtt_us);
}

static bool left_slow_start(void)
{
	return f.w.ssthresh_pkts != NO_SSTHRESH;
}

/* An eighth of the least round trip, at least 4 and at most 16 ms, and more than that. */
TEST(a_rise_of_the_delay_ends_it)
{
	static const struct { u32 min_rtt_ms, rtt_ms; bool over; } cases[] = {
		{ 20, 24, false }, { 20, 25, true },
		{ 64, 72, false }, { 64, 73, true },
		{ 400, 416, false }, { 400, 417, true },
	};

	FOR_ROWS(cases) {
		open_cubic(16, NO_SSTHRESH);
		take_samples(4, c->min_rtt_ms * MS);
		f.cubic.hystart.started = false;	/* a round trip begins */
		take_samples(7, c->rtt_ms * MS);
		CHECK(!left_slow_start());
		take_samples(1, c->rtt_ms * MS);
		CHECK_EQ(left_slow_start(), c->over);
		CHECK_EQ(f.w.cwnd_pkts, c->over ? 16 + 11 : 16 + 12);
	}
}

TEST(one_small_sample_of_the_round_trip_is_enough_to_go_on)
{
	open_cubic(16, NO_SSTHRESH);
	take_samples(1, 20 * MS);
	f.cubic.hystart.started = false;
	take_samples(4, 60 * MS);
	take_samples(1, 21 * MS);
	take_samples(8, 60 * MS);
	CHECK(!left_slow_start());
}

/*
 * Begun below the low window: the ACK of packet 1 finds 10 in flight, so that the
 * round trip ends with packet 11 and the eight samples behind it are one's own.
 */
TEST(round_trips_are_counted_from_the_first_ack_on)
{
	open_cubic(10, NO_SSTHRESH);
	take_samples(11, 20 * MS);
	take_samples(7, 60 * MS);
	CHECK(!left_slow_start());
	take_samples(1, 60 * MS);
	CHECK_EQ(f.w.ssthresh_pkts, 10 + 11 + 7);
}

/* RTTmin 100 ms: ACKs that follow within 2 ms and span more than 50.5 ms. */
TEST(a_train_of_acks_that_spans_half_of_the_path_ends_it)
{
	static const struct { u32 gap_us, acks; bool over; } cases[] = {
		{ 1000, 51, false }, { 1000, 52, true }, { 2000, 26, false }, { 2000, 27, true },
		{ 2001, 90, false },
	};

	FOR_ROWS(cases) {
		u32 i;

		/* Large enough for the round trip not to end meanwhile. */
		open_cubic(1000, NO_SSTHRESH);
		for (i = 0; i < c->acks; i++)
			take_ack(&f, i ? c->gap_us : 1, 1, 100 * MS);
		CHECK_EQ(left_slow_start(), c->over);
	}
}

TEST(small_windows_and_a_switch_keep_it)
{
	u32 i;

	open_cubic(10, NO_SSTHRESH);
	take_samples(5, 20 * MS);
	take_samples(1, 200 * MS);
	CHECK(!left_slow_start());
	open_cubic(100, NO_SSTHRESH);
	f.p.cubic.hystart = CUBIC_NO_HYSTART;
	for (i = 0; i < 100; i++)
		take_ack(&f, MS, 1, (20 + i) * MS);
	CHECK(!left_slow_start());
	/* Behind slow start it has no say. */
	open_cubic(100, 50);
	for (i = 0; i < 100; i++)
		take_ack(&f, MS, 1, (20 + i) * MS);
	CHECK_EQ(f.w.ssthresh_pkts, 50);
}

/* What a host shows of a recovery: a small window below ssthresh, and the queue that slow start left. */
static void recover(void)
{
	f.w.cwnd_pkts = 20;
	f.cubic.hystart.started = false;	/* a round trip begins */
	take_samples(30, 300 * MS);
}

TEST(it_ends_one_slow_start_until_a_timeout)
{
	u32 i;

	open_cubic(1000, NO_SSTHRESH);
	for (i = 0; i < 60; i++)
		take_ack(&f, MS, 1, 100 * MS);
	CHECK(left_slow_start());
	lose();
	CHECK(f.w.ssthresh_pkts >= 700);
	recover();
	CHECK(f.w.ssthresh_pkts >= 700);
	take_event(&f, CCA_TIMEOUT, 0, 0);
	take_samples(1, 100 * MS);
	recover();
	CHECK(f.w.ssthresh_pkts < 50);
	/* It did not end the first slow start: as in Linux, it looks on. */
	open_cubic(1000, NO_SSTHRESH);
	take_samples(1, 100 * MS);
	lose();
	recover();
	CHECK(f.w.ssthresh_pkts < 50);
}

TEST(slow_start_doubles_in_a_round_trip)
{
	u32 round;

	open_cubic(10, NO_SSTHRESH);
	for (round = 0; round < 3; round++)
		take_window(400 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 80);
}

/* --- HyStart++ ----------------------------------------------------------------- */

static void open_plus(u32 cwnd_pkts)
{
	open_cubic(cwnd_pkts, NO_SSTHRESH);
	f.p.cubic.hystart = CUBIC_HYSTART_PLUS;
}

static void take_flight(u32 rtt_us)
{
	u32 end_pkts = f.ack.delivered_pkts + f.w.cwnd_pkts;

	while (!cca_reached(f.ack.delivered_pkts, end_pkts))
		take_ack(&f, 100, 1, rtt_us);
}

/* RFC 9406 section 4.2: a quarter of the growth for five round trips. */
TEST(hystart_plus_slows_down_before_it_leaves)
{
	u32 round, before_pkts;

	open_plus(20);
	take_flight(50 * MS);
	take_flight(50 * MS);
	CHECK_EQ(f.cubic.hystart.css_rtt_us, 0);
	take_flight(60 * MS);
	CHECK_EQ(f.cubic.hystart.css_rtt_us, 60 * MS);
	for (round = 0; round < 20 && !left_slow_start(); round++)
		take_flight(60 * MS);
	CHECK(round >= 5 && round <= 6);
	CHECK_EQ(f.w.ssthresh_pkts <= f.w.cwnd_pkts, true);
	/* Four at a time, one counts: a quarter. */
	open_plus(100);
	f.cubic.hystart.started = true;
	f.cubic.hystart.round_end_pkts = 1000;
	f.cubic.hystart.css_rtt_us = 60 * MS;
	before_pkts = f.w.cwnd_pkts;
	take_ack(&f, MS, 4, 60 * MS);
	CHECK_EQ(f.w.cwnd_pkts, before_pkts + 1);
}

TEST(hystart_plus_goes_on_when_the_delay_falls_again)
{
	open_plus(20);
	take_flight(50 * MS);
	take_flight(50 * MS);
	take_flight(60 * MS);
	take_flight(60 * MS);
	CHECK(f.cubic.hystart.css_rtt_us != 0);
	take_flight(51 * MS);
	CHECK_EQ(f.cubic.hystart.css_rtt_us, 0);
	CHECK(!left_slow_start());
}

TEST(hystart_plus_knows_no_trains_and_counts_eight_packets_of_an_ack)
{
	u32 i;

	open_plus(1000);
	for (i = 0; i < 400; i++)
		take_ack(&f, MS, 1, 100 * MS);
	CHECK(!left_slow_start());
	open_plus(100);
	take_ack(&f, MS, 50, 100 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 108);
}

/* RFC 9406 section 4.3: behind a loss slow start is the standard one. */
TEST(hystart_plus_is_of_the_first_slow_start)
{
	u32 round, before_pkts;

	open_plus(200);
	lose();
	f.w.cwnd_pkts = 20;
	take_ack(&f, MS, 15, 50 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 35);
	f.w.cwnd_pkts = 20;
	for (round = 0; round < 3; round++)
		take_flight((50 + 20 * round) * MS);
	CHECK_EQ(f.cubic.hystart.css_rtt_us, 0);
	CHECK_EQ(f.w.ssthresh_pkts, 140);
	/* Behind silence it grows as standard slow start, too. */
	open_plus(100);
	f.cubic.hystart.started = true;
	f.cubic.hystart.round_end_pkts = 1000;
	f.cubic.hystart.css_rtt_us = 60 * MS;
	f.cubic.hystart.css_rounds = HYSTART_CSS_ROUNDS;
	take_samples(8, 60 * MS);
	CHECK(left_slow_start());
	f.w.cwnd_pkts = before_pkts = 20;
	take_ack(&f, MS, 4, 60 * MS);
	CHECK_EQ(f.w.cwnd_pkts, before_pkts + 4);
	/* So it does where a loss ends its conservative phase. */
	open_plus(100);
	f.cubic.hystart.started = true;
	f.cubic.hystart.round_end_pkts = 1000;
	f.cubic.hystart.css_rtt_us = 60 * MS;
	lose();
	f.w.cwnd_pkts = before_pkts = 20;
	take_ack(&f, MS, 4, 60 * MS);
	CHECK_EQ(f.w.cwnd_pkts, before_pkts + 4);
}
