// SPDX-License-Identifier: MIT
/* kmod/core/roccet.h: LAUNCH, ORBITER and what stands between them and CUBIC. Losses: test_roccet_loss.c. */
#include "roccet_host.h"

#define W_MAX 77u	/* of a loss before */

/* --- LAUNCH ---------------------------------------------------------------------- */

/* Both conditions of Fig. 3 at their limits, in each sense of the comparison. */
TEST(launch_ends_slow_start_when_both_conditions_hold)
{
	static const struct { u32 sense, srrtt_pct, windows, acked; bool ends; } cases[] = {
		{ ROCCET_SHORT, 100, 60, 50, true },
		{ ROCCET_SHORT, 99, 60, 50, false },
		{ ROCCET_SHORT, 100, 60, 51, false },
		{ ROCCET_SHORT, 400, 1000, 1000, false },
		{ ROCCET_SHORT, 400, 50, 60, false },
		{ ROCCET_SHORT, 0, 1000, 0, false },
		{ ROCCET_FIGURE, 100, 60, 50, false },
		{ ROCCET_FIGURE, 100, 50, 60, true },
		{ ROCCET_FIGURE, 99, 50, 60, false },
		{ ROCCET_FIGURE, 100, 51, 60, false },
		{ ROCCET_EITHER, 100, 60, 50, true },
		{ ROCCET_EITHER, 100, 50, 60, true },
		{ ROCCET_EITHER, 100, 55, 60, false },
	};

	FOR_ROWS(cases) {
		open_roccet(101, NO_SSTHRESH);
		f.p.roccet.ack_sense = c->sense;
		set_measured(c->srrtt_pct, c->windows, c->acked);
		CHECK(roccet_launch(&f.roccet_alone, &f.p.roccet, f.ack.now_us, &f.w));
		CHECK_EQ(f.w.cwnd_pkts, c->ends ? 50 : 101);
		CHECK_EQ(f.w.ssthresh_pkts, c->ends ? 50 : NO_SSTHRESH);
		CHECK_EQ(f.roccet_alone.launches, c->ends);
		CHECK_EQ(f.roccet_alone.cubic.w_max_pkts, 0);
		CHECK(!f.roccet_alone.drains);
	}
}

/* "Otherwise, a CUBIC CE gets generated": beta, W_max, fast convergence. */
TEST(a_later_slow_start_ends_by_an_event_of_cubics)
{
	static const struct {
		u32 cwnd_pkts, w_max_pkts, fast, after_pkts, w_max_after_pkts;
	} cases[] = {
		{ 100, 0, 1, 70, 100 }, { 100, 200, 1, 70, 85 }, { 100, 200, 0, 70, 100 }, { 2, 0, 1, 2, 2 },
	};

	FOR_ROWS(cases) {
		open_roccet(c->cwnd_pkts, NO_SSTHRESH);
		f.p.roccet.fast_convergence = c->fast;
		f.roccet_alone.launched = true;
		f.roccet_alone.cubic.w_max_pkts = c->w_max_pkts;
		set_measured(100, 200, 100);
		CHECK(roccet_launch(&f.roccet_alone, &f.p.roccet, f.ack.now_us, &f.w));
		CHECK_EQ(f.w.cwnd_pkts, c->after_pkts);
		CHECK_EQ(f.w.ssthresh_pkts, c->after_pkts);
		CHECK_EQ(f.roccet_alone.cubic.w_max_pkts, c->w_max_after_pkts);
	}
}

/* With round trips of 30 ms the first that ends behind 100 ms is the fourth. */
TEST(launch_looks_behind_100_ms_at_whole_round_trips)
{
	u32 i;

	open_roccet(1000, NO_SSTHRESH);
	take_ack(&f, MS, 1, 30 * MS);
	f.roccet_alone.srrtt_q16 = 10 * ONE_Q16;
	for (i = 1; i < 120; i++) {
		f.roccet_alone.srrtt_q16 = 10 * ONE_Q16;
		take_ack(&f, MS, 1, 30 * MS);
		CHECK_EQ(f.roccet_alone.launches, 0);
	}
	f.roccet_alone.srrtt_q16 = 10 * ONE_Q16;
	take_ack(&f, MS, 1, 30 * MS);
	CHECK_EQ(f.roccet_alone.launches, 1);
	CHECK_EQ(f.roccet_alone.phase, ROCCET_ORBITER);
}

/* 0.24 ms a packet and 30 ms: 125 in flight; slow start overshoots, but leaves by the delay. */
TEST(slow_start_is_left_soon_behind_twice_the_round_trip)
{
	static const struct link_of deep = { 240, 30 * MS, 1, ~0u };

	open_roccet(10, NO_SSTHRESH);
	run_link(&deep, SECOND);
	CHECK_EQ(f.roccet_alone.launches, 1);
	CHECK(f.w.cwnd_pkts >= 125 && f.w.cwnd_pkts <= 500);
}

/* Without a queue none of it is congestion: growth as in CUBIC without HyStart, packet for packet. */
TEST(without_a_queue_it_grows_as_cubic_does)
{
	struct cca_start start = { SECOND, 0, 10, 0, 1448 };
	struct cca_window w = { 10, 300, 0 };
	struct cubic_params params;
	struct cubic_state cubic;
	u32 i, dice = 1;

	open_roccet(10, 300);
	roccet_cubic_params(&f.p.roccet, &params);
	cubic_init(&cubic, &params, &start);
	for (i = 0; i < 50000; i++) {
		u32 draw = cca_draw(&dice);

		take_ack(&f, draw % 700, draw % 5, 50 * MS + draw % 40000);
		cubic_on_ack(&cubic, &params, &f.ack, &w);
		cubic_grow(&cubic, &params, &w, draw % 5);
		if (draw % 5000 == 0) {
			f.w.ssthresh_pkts = f.w.cwnd_pkts = roccet_ssthresh(&f.roccet_alone, &f.p.roccet, &f.w);
			w.ssthresh_pkts = w.cwnd_pkts = cubic_ssthresh(&cubic, &params, &w);
		}
		if (f.w.cwnd_pkts != w.cwnd_pkts || f.w.ssthresh_pkts != w.ssthresh_pkts)
			break;
	}
	CHECK_EQ(i, 50000);
	CHECK_EQ(f.roccet_alone.events + f.roccet_alone.launches, 0);
	CHECK(w.cwnd_pkts > 300 || w.ssthresh_pkts != 300);
}

/* --- ORBITER --------------------------------------------------------------------- */

TEST(orbiter_fires_when_both_conditions_hold)
{
	static const struct { u32 sense, srrtt_pct, windows, acked; bool fires; } cases[] = {
		{ ROCCET_SHORT, 100, 500, 399, true },
		{ ROCCET_SHORT, 100, 500, 400, false },	/* 20 % is not more than 20 % */
		{ ROCCET_SHORT, 99, 500, 399, false },
		{ ROCCET_SHORT, 900, 500, 500, false },
		{ ROCCET_SHORT, 100, 500, 700, false },
		{ ROCCET_FIGURE, 100, 500, 399, true },
		{ ROCCET_FIGURE, 100, 500, 700, false },
		{ ROCCET_EITHER, 100, 500, 399, true },
		{ ROCCET_EITHER, 100, 500, 601, true },
		{ ROCCET_EITHER, 100, 500, 600, false },
		{ ROCCET_SHORT, 100, 0, 0, false },
	};

	FOR_ROWS(cases) {
		open_roccet(100, 50);
		f.p.roccet.ack_sense = c->sense;
		f.roccet_alone.cubic.w_max_pkts = W_MAX;
		set_measured(c->srrtt_pct, c->windows, c->acked);
		CHECK(roccet_orbit(&f.roccet_alone, &f.p.roccet, f.ack.now_us, &f.w));
		CHECK_EQ(f.w.cwnd_pkts, c->fires ? 70 : 100);
		CHECK_EQ(f.roccet_alone.events, c->fires);
		CHECK_EQ(f.roccet_alone.drains, c->fires);
		CHECK_EQ(f.roccet_alone.cubic.w_max_pkts, c->fires ? 100 : W_MAX);
	}
}

TEST(both_bounds_are_parameters)
{
	open_roccet(100, 50);
	f.p.roccet.srrtt_bound_pct = 150;
	f.p.roccet.ack_tolerance_pct = 40;
	set_measured(149, 500, 0);
	CHECK(roccet_orbit(&f.roccet_alone, &f.p.roccet, f.ack.now_us, &f.w));
	set_measured(150, 500, 300);
	CHECK(roccet_orbit(&f.roccet_alone, &f.p.roccet, f.ack.now_us, &f.w));
	CHECK_EQ(f.roccet_alone.events, 0);
	set_measured(150, 500, 299);
	CHECK(roccet_orbit(&f.roccet_alone, &f.p.roccet, f.ack.now_us, &f.w));
	CHECK_EQ(f.roccet_alone.events, 1);
}

TEST(orbiter_looks_every_5_smoothed_round_trips)
{
	open_roccet(100, 50);
	set_measured(300, 500, 0);
	f.roccet_alone.srtt_us_q3 = 8 * 200 * MS;
	f.roccet_alone.interval_start_us = f.ack.now_us;
	CHECK(!roccet_orbit(&f.roccet_alone, &f.p.roccet, f.ack.now_us + SECOND - 1, &f.w));
	CHECK_EQ(f.roccet_alone.events, 0);
	CHECK(roccet_orbit(&f.roccet_alone, &f.p.roccet, f.ack.now_us + SECOND, &f.w));
	CHECK_EQ(f.roccet_alone.events, 1);
}

/* "W_max is only set if the current cwnd is larger than the old W_max." */
TEST(an_event_leaves_beta_and_only_raises_w_max)
{
	static const struct {
		u32 beta, cwnd_pkts, w_max_pkts, after_pkts, w_max_after_pkts;
	} cases[] = {
		{ 700, 100, 50, 70, 100 }, { 700, 100, 200, 70, 200 }, { 500, 100, 0, 50, 100 },
		{ 950, 100, 100, 95, 100 }, { 700, 2, 0, 2, 2 }, { 700, 0xffffffffu, 0, 11744051, 1u << 24 },
	};

	FOR_ROWS(cases) {
		open_roccet(c->cwnd_pkts, 1);
		f.p.roccet.beta_permille = c->beta;
		f.roccet_alone.cubic.w_max_pkts = c->w_max_pkts;
		f.w.credit_pkts = 9;
		roccet_congestion_event(&f.roccet_alone, &f.p.roccet, &f.w, f.ack.now_us);
		CHECK_EQ(f.w.cwnd_pkts, c->after_pkts);
		CHECK_EQ(f.w.ssthresh_pkts, c->after_pkts);
		CHECK_EQ(f.w.credit_pkts, 0);
		CHECK_EQ(f.roccet_alone.cubic.w_max_pkts, c->w_max_after_pkts);
		CHECK(!f.roccet_alone.cubic.in_epoch);
		/* It is no loss that could prove spurious. */
		CHECK_EQ(roccet_undo(&f.roccet_alone, &f.w), c->after_pkts);
	}
}

/* For 100 ms the window stays and nothing is looked at, whatever is measured. */
TEST(the_drain_lasts_100_ms)
{
	u32 i;

	open_roccet(100, 50);
	set_measured(100, 500, 0);
	roccet_congestion_event(&f.roccet_alone, &f.p.roccet, &f.w, f.ack.now_us);
	for (i = 1; i < 100; i++) {
		f.roccet_alone.srrtt_q16 = 50 * ONE_Q16;
		take_ack(&f, MS, 3, MS);
		CHECK_EQ(f.w.cwnd_pkts, 70);
		CHECK(f.roccet_alone.drains);
		CHECK_EQ(f.roccet_alone.events, 1);
	}
	f.roccet_alone.srrtt_q16 = 0;
	take_ack(&f, MS, 3, MS);
	CHECK(!f.roccet_alone.drains);
	for (i = 0; i < 200; i++) {
		f.roccet_alone.srrtt_q16 = 0;
		take_ack(&f, MS, 3, MS);
	}
	CHECK(f.w.cwnd_pkts > 70);
}

TEST(the_drain_may_be_none)
{
	open_roccet(100, 50);
	f.p.roccet.drain_us = 0;
	roccet_congestion_event(&f.roccet_alone, &f.p.roccet, &f.w, f.ack.now_us);
	take_ack(&f, MS, 1, 50 * MS);
	CHECK(!f.roccet_alone.drains);
}

/* --- on a link ------------------------------------------------------------------- */

/* A greedy flow over a queue without end: round trips stay about twice the path's, the link full. */
TEST(round_trips_stay_near_the_bound)
{
	static const struct link_of links[] = {
		{ 240, 30 * MS, 1, ~0u }, { 240, 30 * MS, 2, ~0u }, { 240, 40 * MS, 8, ~0u },
		{ 1200, 40 * MS, 2, ~0u }, { 480, 100 * MS, 2, ~0u },
	};

	FOR_ROWS(links) {
		u32 i, most_us = 0, least_us = ~0u;

		open_roccet(10, NO_SSTHRESH);
		run_link(c, 10ull * SECOND);
		for (i = 0; i < 2000; i++) {
			run_link(c, 10 * MS);
			most_us = cca_max_u32(most_us, link_rtt_us(c));
			least_us = cca_min_u32(least_us, f.w.cwnd_pkts * c->gap_us);
		}
		CHECK(f.roccet_alone.events >= 2);
		CHECK(most_us < c->rtt_us * 5 / 2);
		CHECK(least_us > c->rtt_us);
	}
}

/*
 * Section III: a window of which less is used does not grow and is not lost; CUBIC
 * keeps it. The receiver lets 400 packets out, twice what fills path and bound.
 */
TEST(a_frozen_window_is_left)
{
	static const struct link_of bounded = { 240, 30 * MS, 2, 400 };

	open_roccet(800, 700);
	f.roccet_alone.launched = true;
	f.ack.cwnd_limited = false;
	/* The path's round trip has been seen. */
	take_ack(&f, MS, 1, 30 * MS);
	run_link(&bounded, 5ull * SECOND);
	CHECK(f.roccet_alone.events >= 2);
	CHECK(f.w.cwnd_pkts < 300);
	/* By the smoothed RTT only what is not used counts: 400 of 500 are. */
	open_roccet(500, 400);
	f.p.roccet.round_rtt = ROCCET_SMOOTHED_RTT;
	take_ack(&f, MS, 1, 30 * MS);
	run_link(&bounded, 5ull * SECOND);
	CHECK_EQ(f.roccet_alone.events, 0);
	CHECK_EQ(f.w.cwnd_pkts, 500);
}

/* Half of the rate: several events, and not one too many once the queue is gone. */
TEST(a_link_that_slows_down_is_answered_by_several_events)
{
	static const struct link_of fast = { 240, 30 * MS, 2, ~0u }, slow = { 480, 30 * MS, 2, ~0u };
	u32 events;

	open_roccet(10, NO_SSTHRESH);
	run_link(&fast, 15ull * SECOND);
	events = f.roccet_alone.events;
	run_link(&slow, 3ull * SECOND);
	CHECK(f.roccet_alone.events >= events + 2);
	CHECK(link_rtt_us(&slow) < 75 * MS);
	CHECK(f.w.cwnd_pkts * 480 >= 30 * MS);
}
