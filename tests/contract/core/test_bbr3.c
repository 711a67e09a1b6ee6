// SPDX-License-Identifier: MIT
/* kmod/core/bbr3.h: states, gains and windows; the tests of draft-ietf-ccwg-bbr-06, appendix A. */
#include "bbr3_flow.h"

#define LINK_BYTES_PER_S (MSS * SECOND / 600u * 1ull)

TEST(it_starts_with_the_initial_window_in_a_round_trip)
{
	open_bbr3(50 * MS);
	CHECK_EQ(f.d.cwnd_pkts, 10);
	CHECK_EQ(f.d.pacing_bytes_per_s, 10ull * MSS * 20 * 2770 / 1000);
	open_bbr3(0);
	CHECK_EQ(f.d.pacing_bytes_per_s, 10ull * MSS * 1000 * 2770 / 1000);
	f.ack.rtt_us = 40 * MS;
	flow_on_ack(&f, &f.ack);
	CHECK_EQ(f.d.pacing_bytes_per_s, 10ull * MSS * 25 * 2770 / 1000);
}

/* A.1, A.7: three round trips in a row with less than 25 % more than the best. */
TEST(a_plateau_ends_startup)
{
	static const struct { u32 pkts[5]; bool app_limited, full; } cases[] = {
		{ { 100, 100, 100, 100 }, false, true },
		{ { 100, 124, 124, 124 }, false, true },
		{ { 100, 125, 125, 125 }, false, false },
		{ { 100, 100, 100, 125 }, false, false },
		{ { 100, 100, 100, 100 }, true, false },
	};

	FOR_ROWS(cases) {
		u32 i;

		open_bbr3(50 * MS);
		f.ack.app_limited = c->app_limited;
		f.ack.inflight_pkts = 10000;
		for (i = 0; i < 4; i++)
			take_round(&f, c->pkts[i], 50 * MS);
		CHECK_EQ(f.bbr3.mode, c->full ? BBR3_DRAIN : BBR3_STARTUP);
		CHECK_EQ(f.bbr3.full, c->full);
	}
}

/* A.2: six ACKs with losses in a round trip of recovery, and more than 2 % of what was in flight. */
TEST(losses_end_startup_even_when_the_application_limits)
{
	static const struct { u32 events, lost_since_pkts; bool in_recovery, over; } cases[] = {
		{ 6, 3, true, true }, { 5, 3, true, false }, { 6, 2, true, false }, { 6, 3, false, false },
	};

	FOR_ROWS(cases) {
		u32 i;

		open_bbr3(50 * MS);
		take_round(&f, 100, 50 * MS);
		f.ack.app_limited = 1;
		f.ack.inflight_pkts = 300;
		if (c->in_recovery)
			take_event(&f, CCA_RECOVERY_ENTERED, 0, 300);
		for (i = 0; i < c->events; i++) {
			f.ack.rate_pkts = 0;
			f.ack.lost_pkts = 1;
			f.ack.delivered_pkts += f.ack.acked_pkts = 1;
			flow_on_ack(&f, &f.ack);
			f.ack.lost_pkts = 0;
		}
		f.ack.lost_since_pkts = c->lost_since_pkts;
		take_round(&f, 90, 50 * MS);
		CHECK_EQ(f.bbr3.mode, c->over ? BBR3_DRAIN : BBR3_STARTUP);
		/* bw RTTmin, or what was delivered in the round trip */
		CHECK_EQ(f.bbr3.long_pkts, c->over ? 100 : BBR3_NO_LIMIT_PKTS);
	}
}

TEST(drain_ends_with_the_queue_or_after_three_round_trips)
{
	u32 i;

	open_bbr3(50 * MS);
	f.ack.inflight_pkts = 150;
	for (i = 0; i < 4; i++)
		take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_DRAIN);
	CHECK_EQ(f.d.pacing_bytes_per_s, 2896000ull / 2 * 990 / 1000);
	for (i = 0; i < 3; i++) {
		take_round(&f, 100, 50 * MS);
		CHECK_EQ(f.bbr3.mode, BBR3_DRAIN);
	}
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_DOWN);
}

/* The table of section 5.6.1. */
TEST(each_state_has_its_gains)
{
	static const struct { enum bbr3_mode mode; u32 pacing_permille, cwnd_permille; } cases[] = {
		{ BBR3_STARTUP, 2770, 2000 }, { BBR3_DRAIN, 500, 2000 }, { BBR3_DOWN, 900, 2000 },
		{ BBR3_CRUISE, 1000, 2000 }, { BBR3_REFILL, 1000, 2000 }, { BBR3_UP, 1250, 2250 },
		{ BBR3_PROBE_RTT, 1000, 500 },
	};

	FOR_ROWS(cases) {
		open_bbr3(50 * MS);
		f.bbr3.mode = (u8)c->mode;
		CHECK_EQ(bbr3_pacing_gain(&f.bbr3, &f.p.bbr3), c->pacing_permille);
		CHECK_EQ(bbr3_cwnd_gain(&f.bbr3, &f.p.bbr3), c->cwnd_permille);
	}
}

TEST(each_state_has_its_bounds)
{
	static const struct {
		enum bbr3_mode mode; u32 long_pkts, short_pkts, cap_pkts;
	} cases[] = {
		{ BBR3_STARTUP, 100, BBR3_NO_LIMIT_PKTS, BBR3_NO_LIMIT_PKTS },
		{ BBR3_UP, 100, BBR3_NO_LIMIT_PKTS, 100 },
		{ BBR3_DOWN, 100, BBR3_NO_LIMIT_PKTS, 100 },
		{ BBR3_CRUISE, 100, BBR3_NO_LIMIT_PKTS, 85 },
		{ BBR3_PROBE_RTT, 100, BBR3_NO_LIMIT_PKTS, 85 },
		{ BBR3_CRUISE, 5, BBR3_NO_LIMIT_PKTS, 4 },
		{ BBR3_CRUISE, 6, BBR3_NO_LIMIT_PKTS, 5 },
		{ BBR3_CRUISE, BBR3_NO_LIMIT_PKTS, BBR3_NO_LIMIT_PKTS, BBR3_NO_LIMIT_PKTS },
		{ BBR3_CRUISE, 100, 60, 60 },
		{ BBR3_DRAIN, 100, 1, 4 },
	};

	FOR_ROWS(cases) {
		open_bbr3(50 * MS);
		f.bbr3.mode = (u8)c->mode;
		f.bbr3.long_pkts = c->long_pkts;
		f.bbr3.short_pkts = c->short_pkts;
		CHECK_EQ(bbr3_cap_pkts(&f.bbr3, &f.p.bbr3), c->cap_pkts);
	}
}

TEST(windows_have_room_for_three_quanta)
{
	open_in(BBR3_CRUISE);
	CHECK_EQ(bbr3_inflight_pkts(&f.bbr3, 2896000, 1000), 100);
	CHECK_EQ(bbr3_inflight_pkts(&f.bbr3, 28960, 1000), 6);
	f.bbr3.pacing_bytes_per_s = 1ull << 37;
	CHECK_EQ(bbr3_inflight_pkts(&f.bbr3, 2896000, 1000), 3 * 45);
	f.bbr3.mode = BBR3_UP;
	CHECK_EQ(bbr3_inflight_pkts(&f.bbr3, 2896000, 1000), 3 * 45 + 2);
	f.bbr3.min_rtt_us = 0;
	CHECK_EQ(bbr3_bdp_pkts(&f.bbr3, 2896000, 1000), 10);
}

TEST(a_flow_fills_the_link_and_cycles)
{
	static const u8 next[] = { BBR3_DRAIN, BBR3_DOWN, BBR3_CRUISE, BBR3_REFILL, BBR3_UP, BBR3_DOWN };
	u32 delivered_pkts, cycles = 0;

	open_run(40 * MS, 500);
	path_run(&r, 2 * SECOND);
	CHECK(bbr3_max_bandwidth(&r.f.bbr3) >= LINK_BYTES_PER_S * 98 / 100);
	CHECK(bbr3_max_bandwidth(&r.f.bbr3) <= LINK_BYTES_PER_S * 102 / 100);
	delivered_pkts = r.delivered_pkts;
	while (r.now_us < 42 * SECOND) {
		u8 mode = r.f.bbr3.mode;

		path_step(&r);
		if (mode == r.f.bbr3.mode)
			continue;
		cycles += r.f.bbr3.mode == BBR3_UP;
		if (mode == BBR3_PROBE_RTT)
			CHECK_EQ(r.f.bbr3.mode, BBR3_CRUISE);
		else if (r.f.bbr3.mode != BBR3_PROBE_RTT && !(mode == BBR3_DOWN && r.f.bbr3.mode == BBR3_REFILL))
			CHECK_EQ(r.f.bbr3.mode, next[mode]);
	}
	CHECK(cycles >= 10 && cycles <= 25);
	CHECK(r.delivered_pkts - delivered_pkts > 40 * SECOND / 600 * 94 / 100);
	CHECK_EQ(r.lost_pkts, 0);
}

TEST(every_five_seconds_half_of_the_product_is_in_flight)
{
	u64 entered_us = 0, left_us = SECOND;
	u32 probes = 0;

	open_run(40 * MS, 500);
	while (r.now_us < 23 * SECOND) {
		u8 mode = r.f.bbr3.mode;

		path_step(&r);
		if (mode != BBR3_PROBE_RTT && r.f.bbr3.mode == BBR3_PROBE_RTT) {
			entered_us = r.now_us;
			CHECK(entered_us - left_us >= 4900 * MS && entered_us - left_us < 5300 * MS);
		}
		if (mode == BBR3_PROBE_RTT && r.f.bbr3.mode != BBR3_PROBE_RTT) {
			probes++;
			left_us = r.now_us;
			CHECK(left_us - entered_us >= 200 * MS && left_us - entered_us < 350 * MS);
		}
		if (r.f.bbr3.mode == BBR3_PROBE_RTT && r.f.bbr3.probe_rtt_end_us)
			CHECK(r.inflight_pkts <= 36);
	}
	CHECK_EQ(probes, 4);
	CHECK(bbr3_max_bandwidth(&r.f.bbr3) >= LINK_BYTES_PER_S * 98 / 100);
}

TEST(a_short_buffer_sets_the_long_term_bound)
{
	u32 delivered_pkts, lost_pkts;

	open_run(40 * MS, 20);
	path_run(&r, 5 * SECOND);
	delivered_pkts = r.delivered_pkts;
	lost_pkts = r.lost_pkts;
	path_run(&r, 30 * SECOND);
	/* 67 packets of the path and 20 of the buffer */
	CHECK(r.f.bbr3.long_pkts >= 60 && r.f.bbr3.long_pkts <= 100);
	CHECK(r.delivered_pkts - delivered_pkts > 30 * SECOND / 600 * 85 / 100);
	CHECK((r.lost_pkts - lost_pkts) * 50 < r.delivered_pkts - delivered_pkts);
}
