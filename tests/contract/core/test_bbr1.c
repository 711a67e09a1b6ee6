// SPDX-License-Identifier: MIT
/* kmod/core/bbr1.h and bbr1_model.h: states, gains, windows, and a flow on a path. */
#include "bbr1_flow.h"

#define LINK_BYTES_PER_S (MSS * SECOND / 600u * 1ull)

TEST(it_starts_with_the_initial_window_in_a_round_trip)
{
	open_bbr1(50 * MS, 1);
	CHECK_EQ(f.bbr.mode, BBR1_STARTUP);
	CHECK_EQ(f.d.cwnd_pkts, 10);
	CHECK_EQ(f.d.pacing_bytes_per_s, 10ull * MSS * 20 * 2885 / 1000);
	/* Without a round trip, as if by 1 ms; the first sample corrects it. */
	open_bbr1(0, 1);
	CHECK_EQ(f.d.pacing_bytes_per_s, 10ull * MSS * 1000 * 2885 / 1000);
	f.ack.now_us += 40 * MS;
	f.ack.rtt_us = 40 * MS;
	flow_on_ack(&f, &f.ack);
	CHECK_EQ(f.d.pacing_bytes_per_s, 10ull * MSS * 25 * 2885 / 1000);
}

TEST(startup_paces_and_grows_by_its_gain)
{
	open_bbr1(50 * MS, 1);
	take_round(&f, 10, 50 * MS);
	CHECK_EQ(f.bbr.round_started, true);
	/* The guess was as high, and 1 % more: nothing lowers it before the pipe is full. */
	CHECK_EQ(f.d.pacing_bytes_per_s, 10ull * MSS * 20 * 2885 / 1000);
	CHECK_EQ(f.d.cwnd_pkts, 20);
	take_round(&f, 20, 50 * MS);
	CHECK_EQ(f.d.cwnd_pkts, 40);
	CHECK_EQ(f.d.pacing_bytes_per_s, 579200ull * 2885 / 1000 * 990 / 1000);
	CHECK_EQ(f.bbr.mode, BBR1_STARTUP);
}

/* Full: three round trips in a row with less than 25 % more. */
TEST(the_pipe_is_full_after_three_round_trips_without_growth)
{
	static const struct { u32 pkts[4]; bool app_limited, full; } cases[] = {
		{ { 100, 100, 100, 100 }, false, true },
		{ { 100, 124, 124, 124 }, false, true },
		{ { 100, 125, 125, 125 }, false, false },
		{ { 100, 100, 100, 125 }, false, false },
		{ { 100, 110, 120, 124 }, false, true },
		{ { 100, 50, 50, 50 }, false, true },
		{ { 100, 100, 100, 100 }, true, false },
	};

	FOR_ROWS(cases) {
		u32 i;

		open_bbr1(50 * MS, 1);
		f.ack.app_limited = c->app_limited;
		f.ack.inflight_pkts = 10000;
		for (i = 0; i < 4; i++)
			take_round(&f, c->pkts[i], 50 * MS);
		CHECK_EQ(f.bbr.mode, c->full ? BBR1_DRAIN : BBR1_STARTUP);
	}
}

TEST(drain_ends_when_the_product_is_in_flight)
{
	u32 i;

	open_bbr1(50 * MS, 1);
	f.ack.inflight_pkts = 1000;
	for (i = 0; i < 4; i++)
		take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr.mode, BBR1_DRAIN);
	/* ln 2 / 2 of the bandwidth */
	CHECK_EQ(f.d.pacing_bytes_per_s, 2896000ull * (1000000 / 2885) / 1000 * 990 / 1000);
	/* 100 packets and three quanta, of which the pacing rate makes 2 */
	f.ack.inflight_pkts = bbr1_inflight_pkts(&f.bbr, 2896000, 1000) + 1;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr.mode, BBR1_DRAIN);
	f.ack.inflight_pkts--;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr.mode, BBR1_PROBE_BW);
}

/* 100 packets are the product; 3 quanta more, even, and 2 more while probing up. */
TEST(windows_have_room_for_quanta)
{
	static const struct { u32 gain_permille; u64 pacing; u8 phase; u32 pkts; } cases[] = {
		{ 1000, 100000, 2, 104 },		/* below 1.2 Mbit/s: one packet */
		{ 1000, 150000, 2, 106 },
		{ 1000, 2896000, 2, 106 },
		{ 1250, 2896000, 2, 132 },		/* 125 + 6, even */
		{ 1250, 2896000, 0, 134 },
		{ 2000, 1ull << 37, 2, 200 + 3 * 45 + 1 },	/* 65536 bytes */
	};

	FOR_ROWS(cases) {
		open_probe_bw(1);
		f.bbr.pacing_bytes_per_s = c->pacing;
		f.bbr.phase = c->phase;
		CHECK_EQ(bbr1_inflight_pkts(&f.bbr, 2896000, c->gain_permille), c->pkts);
	}
}

TEST(a_cycle_may_begin_anywhere_but_at_the_lower_gain)
{
	u32 seen[8] = { 0 };
	u32 hash, i;

	for (hash = 0; hash < 400; hash++) {
		open_probe_bw(hash * 2654435761u);
		seen[f.bbr.phase]++;
	}
	for (i = 0; i < 8; i++)
		CHECK_EQ(seen[i] != 0, i != 1);
}

TEST(the_cycle_paces_at_its_gains)
{
	static const u32 gains[8] = { 1250, 750, 1000, 1000, 1000, 1000, 1000, 1000 };
	u32 i;

	open_probe_bw(1);
	f.bbr.phase = 7;
	f.bbr.phase_start_us = f.ack.now_us;
	for (i = 0; i < 20; i++) {
		f.ack.inflight_pkts = i % 8 ? 110 : 130;
		take_round(&f, 100, 51 * MS);
		CHECK_EQ(f.bbr.phase, i % 8);
		/* RTTmin is 50 ms: the sample says 100 in 51 */
		CHECK_EQ(bbr1_pacing_gain(&f.bbr, &f.p.bbr), gains[i % 8]);
		CHECK_EQ(f.d.pacing_bytes_per_s,
			 cca_max_of(&f.bbr.bandwidth) * gains[i % 8] / 1000 * 990 / 1000);
	}
}

/* Of the third on each lasts RTTmin; a host's wrong number counts as the nearest that is right. */
TEST(a_cycle_has_as_many_phases_as_are_set)
{
	static const struct { u32 set, phases; } cases[] = { { 3, 3 }, { 8, 8 }, { 64, 64 }, { 0, 3 }, { 1000, 64 } };

	FOR_ROWS(cases) {
		u32 i, begins = 0;

		open_probe_bw(1);
		f.p.bbr.cycle_phases = c->set;
		f.bbr.phase = (u8)(c->phases - 1);
		for (i = 0; i < 2 * c->phases; i++) {
			f.ack.inflight_pkts = f.bbr.phase ? 110 : 130;
			take_round(&f, 100, 51 * MS);
			CHECK(f.bbr.phase < c->phases);
			begins += f.bbr.phase == 0;
		}
		CHECK_EQ(begins, 2);
	}
}

/* Prior in flight: what is in flight and this ACK's 1 packet. */
TEST(phases_last_as_long_as_their_purpose)
{
	static const struct {
		u8 phase; u32 elapsed_us, inflight_pkts, lost_pkts; bool over;
	} cases[] = {
		{ 0, 50000, 500, 1, false },
		{ 0, 50001, 133, 0, true },
		{ 0, 50001, 132, 0, false },
		{ 0, 50001, 10, 1, true },
		{ 1, 50001, 500, 0, true },
		{ 1, 1, 106, 0, false },
		{ 1, 1, 105, 0, true },
		{ 2, 50000, 1, 1, false },
		{ 2, 50001, 1, 0, true },
	};

	FOR_ROWS(cases) {
		open_probe_bw(1);
		f.bbr.pacing_bytes_per_s = 2896000;
		f.bbr.phase = c->phase;
		f.bbr.phase_start_us = f.ack.now_us;
		f.ack.now_us += c->elapsed_us;
		f.ack.inflight_pkts = c->inflight_pkts;
		f.ack.acked_pkts = c->lost_pkts ? 0 : 1;
		f.ack.lost_pkts = c->lost_pkts;
		CHECK_EQ(bbr1_phase_is_over(&f.bbr, &f.p.bbr, &f.ack), c->over);
	}
}

TEST(a_flow_fills_the_link_without_a_queue)
{
	u32 delivered_pkts;

	open_run(40 * MS, 500, 7);
	path_run(&r, 2 * SECOND);
	CHECK_EQ(r.f.bbr.mode, BBR1_PROBE_BW);
	CHECK_EQ(r.f.bbr.min_rtt_us, 40000);	/* of the handshake */
	CHECK(cca_max_of(&r.f.bbr.bandwidth) >= LINK_BYTES_PER_S * 99 / 100);
	CHECK(cca_max_of(&r.f.bbr.bandwidth) <= LINK_BYTES_PER_S * 101 / 100);
	r.largest_delay_us = 0;
	delivered_pkts = r.delivered_pkts;
	path_run(&r, 5 * SECOND);
	CHECK(r.delivered_pkts - delivered_pkts > 5 * SECOND / 600 * 97 / 100);
	CHECK(r.largest_delay_us < 16 * MS);	/* a quarter of the product, and some */
}

TEST(every_ten_seconds_four_packets_are_in_flight_for_200_ms)
{
	u64 entered_us = 0, left_us = SECOND;
	u32 probes = 0;

	open_run(40 * MS, 500, 7);
	while (r.now_us < 41 * SECOND) {
		u8 mode = r.f.bbr.mode;

		path_step(&r);
		if (mode != BBR1_PROBE_RTT && r.f.bbr.mode == BBR1_PROBE_RTT) {
			entered_us = r.now_us;
			CHECK(entered_us - left_us >= 9900 * MS && entered_us - left_us < 10200 * MS);
		}
		if (mode == BBR1_PROBE_RTT && r.f.bbr.mode != BBR1_PROBE_RTT) {
			probes++;
			left_us = r.now_us;
			CHECK(left_us - entered_us >= 200 * MS && left_us - entered_us < 350 * MS);
			CHECK_EQ(r.f.bbr.mode, BBR1_PROBE_BW);
			CHECK(r.f.d.cwnd_pkts > 100);
		}
		if (r.f.bbr.mode == BBR1_PROBE_RTT && r.f.bbr.probe_rtt_end_us)
			CHECK(r.inflight_pkts <= 4 && r.f.d.cwnd_pkts == 4);
	}
	CHECK_EQ(probes, 3);
	/* What it delivers meanwhile is no measure of the link. */
	CHECK(cca_max_of(&r.f.bbr.bandwidth) >= LINK_BYTES_PER_S * 99 / 100);
}

TEST(what_arrives_in_one_go_widens_the_window)
{
	u32 i, cwnd_pkts;

	open_probe_bw(1);
	for (i = 0; i < 3; i++)
		take_round(&f, 100, 50 * MS);
	cwnd_pkts = f.d.cwnd_pkts;
	/* A hundred packets ACKed 20 ms after a hundred: 60 more than bw explains. */
	f.ack.now_us += 20 * MS;
	f.ack.acked_pkts = 100;
	f.ack.delivered_pkts += 100;
	f.ack.rate_pkts = 140;
	f.ack.rate_interval_us = 70 * MS;
	flow_on_ack(&f, &f.ack);
	CHECK(bbr1_aggregation_pkts(&f.bbr) >= 60);
	CHECK(f.d.cwnd_pkts >= cwnd_pkts);
	/* Forgotten by halves of five round trips. */
	for (i = 0; i < 11; i++)
		take_round(&f, 50, 50 * MS);
	CHECK(bbr1_aggregation_pkts(&f.bbr) <= 50);
}

TEST(a_lone_packets_ack_renews_no_old_minimum)
{
	open_probe_bw(1);
	f.ack.now_us += 11 * SECOND;
	f.bbr.idle_restart = true;
	take_round(&f, 1, 90 * MS);
	CHECK_EQ(f.bbr.min_rtt_us, 50 * MS);
	f.bbr.idle_restart = true;
	take_round(&f, 2, 60 * MS);
	CHECK_EQ(f.bbr.min_rtt_us, 60 * MS);
	CHECK_EQ(f.bbr.mode, BBR1_PROBE_BW);	/* silence has drained the queue */
	CHECK_EQ(f.bbr.idle_restart, false);
}
