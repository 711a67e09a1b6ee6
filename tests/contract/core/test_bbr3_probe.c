// SPDX-License-Identifier: MIT
/* kmod/core/bbr3_probe.h and bbr3_model.h: losses, the bounds they set, and events. */
#include "bbr3_flow.h"

TEST(a_round_trip_with_a_loss_leaves_what_it_delivered_but_at_least_beta)
{
	u32 cwnd_pkts;

	/* 90 of 100 packets delivered: 90 % are more than beta leaves */
	open_in(BBR3_CRUISE);
	take_round(&f, 90, 50 * MS);
	take_loss(100, 1);
	take_round(&f, 90, 50 * MS);
	take_round(&f, 90, 50 * MS);
	CHECK_EQ(f.bbr3.short_bytes_per_s, 2606400);
	/* 20 of 100: beta holds */
	open_in(BBR3_CRUISE);
	take_round(&f, 20, 50 * MS);
	cwnd_pkts = f.d.cwnd_pkts;
	take_loss(100, 1);
	take_round(&f, 20, 50 * MS);
	take_round(&f, 20, 50 * MS);
	CHECK_EQ(f.bbr3.short_bytes_per_s, 2896000ull * 7 / 10);
	CHECK_EQ(f.bbr3.short_pkts, cwnd_pkts * 7 / 10);
	CHECK_EQ(f.d.pacing_bytes_per_s, 2896000ull * 7 / 10 * 990 / 1000);
	CHECK(f.d.cwnd_pkts <= f.bbr3.short_pkts);
	/* Again, and by beta of what it was. */
	take_loss(100, 1);
	take_round(&f, 20, 50 * MS);
	take_round(&f, 20, 50 * MS);
	CHECK_EQ(f.bbr3.short_bytes_per_s, 2896000ull * 7 / 10 * 7 / 10);
	/* Before it probes it forgets. */
	f.bbr3.probe_wait_us = 0;
	take_round(&f, 20, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_REFILL);
	CHECK_EQ(f.bbr3.short_pkts, BBR3_NO_LIMIT_PKTS);
	CHECK_EQ(f.bbr3.short_bytes_per_s, BBR3_NO_LIMIT_BYTES_PER_S);
}

TEST(while_it_probes_a_round_trip_with_a_loss_leaves_all)
{
	open_in(BBR3_UP);
	take_loss(1000, 1);
	take_round(&f, 90, 50 * MS);
	take_round(&f, 90, 50 * MS);
	CHECK_EQ(f.bbr3.short_pkts, BBR3_NO_LIMIT_PKTS);
}

/* bw RTTmin is 100 packets, so that beta leaves 70. */
TEST(too_much_loss_in_a_probe_sets_inflight_long)
{
	static const struct {
		u32 tx_inflight_pkts, lost_pkts; bool limited; u32 long_pkts;
	} cases[] = {
		{ 150, 3, false, BBR3_NO_LIMIT_PKTS },	/* 2 % of 150 are 3 */
		{ 150, 4, false, 149 },
		{ 130, 10, false, 129 },
		{ 50, 2, false, 70 },
		{ 150, 4, true, BBR3_NO_LIMIT_PKTS },	/* but the probe ends */
		{ 0, 4, false, BBR3_NO_LIMIT_PKTS },	/* the host does not know */
	};

	FOR_ROWS(cases) {
		struct cca_loss loss = { 0, 0, c->tx_inflight_pkts, c->lost_pkts, c->limited };
		bool ends = c->tx_inflight_pkts && c->lost_pkts * 50 > c->tx_inflight_pkts;

		open_in(BBR3_UP);
		loss.delivered_pkts = f.ack.delivered_pkts;
		bbr3_on_loss(&f.bbr3, &f.p.bbr3, &loss);
		CHECK_EQ(f.bbr3.long_pkts, c->long_pkts);
		CHECK_EQ(f.bbr3.mode, ends ? BBR3_DOWN : BBR3_UP);
		CHECK_EQ(f.bbr3.probe_too_high, ends);
		/* Once a probe. */
		loss.tx_inflight_pkts = 80;
		loss.lost_since_pkts = 80;
		if (ends)
			bbr3_on_loss(&f.bbr3, &f.p.bbr3, &loss);
		CHECK_EQ(f.bbr3.long_pkts, c->long_pkts);
	}
}

/* Samples of the last probe may still come in: they set the bound, and the state stays. */
TEST(too_much_loss_after_a_probe_sets_inflight_long_alone)
{
	open_in(BBR3_DOWN);
	f.bbr3.probing_sample = true;
	take_loss(150, 4);
	CHECK_EQ(f.bbr3.mode, BBR3_DOWN);
	CHECK_EQ(f.bbr3.long_pkts, 149);
}

/* A.5: the pipe is full again. */
TEST(a_plateau_ends_the_probe)
{
	u32 i;

	open_in(BBR3_UP);
	for (i = 0; i < 3; i++) {
		CHECK_EQ(f.bbr3.mode, BBR3_UP);
		take_round(&f, 100, 50 * MS);
	}
	CHECK_EQ(f.bbr3.mode, BBR3_DOWN);
	CHECK_EQ(f.bbr3.probe_too_high, false);
	/* A round trip later its samples make room for those of the next cycle. */
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.cycle_bytes_per_s[1], 0);
	CHECK_EQ(bbr3_max_bandwidth(&f.bbr3), 2896000);
}

/* inflight_long is 120: a bound that holds the flow back is no plateau. */
TEST(a_bound_that_limits_is_no_full_pipe)
{
	static const struct { bool limited; u32 cwnd_pkts; bool goes_down; } cases[] = {
		{ true, 120, false }, { true, 119, true }, { false, 120, true },
	};

	FOR_ROWS(cases) {
		open_in(BBR3_UP);
		f.bbr3.long_pkts = 120;
		f.bbr3.cwnd_pkts = c->cwnd_pkts;
		f.bbr3.full_now = true;
		f.ack.cwnd_limited = c->limited;
		CHECK_EQ(bbr3_is_time_to_go_down(&f.bbr3, &f.ack), c->goes_down);
		CHECK_EQ(f.bbr3.full_now, c->goes_down);
	}
}

/* It rises by 1, 2, 4 packets a round trip. */
TEST(inflight_long_rises_while_it_limits)
{
	u32 i, rise, long_pkts;

	open_in(BBR3_UP);
	f.bbr3.long_pkts = 120;
	f.ack.tx_inflight_pkts = 110;
	f.ack.cwnd_limited = 1;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.d.cwnd_pkts, 120);
	for (i = 0, rise = 0; i < 3; i++) {
		long_pkts = f.bbr3.long_pkts;
		take_round(&f, 120, 50 * MS);
		bbr3_reset_full(&f.bbr3, 0);
		CHECK(f.bbr3.long_pkts - long_pkts >= rise);
		rise = f.bbr3.long_pkts - long_pkts;
	}
	CHECK(rise >= 4);
	/* What was in flight without loss is safe, wherever it was sent. */
	f.ack.tx_inflight_pkts = 400;
	take_round(&f, 120, 50 * MS);
	CHECK(f.bbr3.long_pkts >= 400);
	/* Too much lost: it stays. */
	f.ack.tx_inflight_pkts = 500;
	f.ack.lost_since_pkts = 11;
	long_pkts = f.bbr3.long_pkts;
	take_round(&f, 120, 50 * MS);
	CHECK_EQ(f.bbr3.long_pkts, long_pkts);
}

/* Section 5.3.3.6. */
TEST(the_probe_behind_one_with_losses_is_cut_short_and_repeated)
{
	open_in(BBR3_UP);
	take_loss(150, 4);
	CHECK_EQ(f.bbr3.mode, BBR3_DOWN);
	f.ack.lost_pkts = 0;
	f.ack.inflight_pkts = 90;
	take_round(&f, 100, 50 * MS);
	f.bbr3.probe_wait_us = 0;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_REFILL);
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_UP);
	f.ack.inflight_pkts = f.bbr3.long_pkts - 1;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_UP);
	f.ack.inflight_pkts = f.bbr3.long_pkts;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_DOWN);
	CHECK_EQ(f.bbr3.probe_cut_short, true);
	/* It lost nothing: up at once, and this time to stay. */
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_REFILL);
	CHECK_EQ(f.bbr3.probe_cut_short, false);
}

TEST(it_cruises_once_there_is_headroom)
{
	static const struct { u32 long_pkts, inflight_pkts; bool cruises; } cases[] = {
		{ BBR3_NO_LIMIT_PKTS, 100, true }, { BBR3_NO_LIMIT_PKTS, 101, false },
		{ 100, 85, true }, { 100, 86, false },
	};

	FOR_ROWS(cases) {
		open_in(BBR3_DOWN);
		f.bbr3.long_pkts = c->long_pkts;
		f.ack.inflight_pkts = c->inflight_pkts;
		CHECK_EQ(bbr3_is_time_to_cruise(&f.bbr3, &f.p.bbr3, &f.ack), c->cruises);
	}
}

TEST(the_next_probe_is_due_by_time_or_by_round_trips)
{
	open_in(BBR3_DOWN);
	CHECK(f.bbr3.probe_wait_us >= 2 * SECOND && f.bbr3.probe_wait_us < 3 * SECOND);
	CHECK(f.bbr3.rounds_since_probe <= 1);
	CHECK(!bbr3_is_time_to_probe(&f.bbr3, &f.p.bbr3, f.bbr3.cycle_start_us + f.bbr3.probe_wait_us));
	CHECK(bbr3_is_time_to_probe(&f.bbr3, &f.p.bbr3, f.bbr3.cycle_start_us + f.bbr3.probe_wait_us + 1));
	f.bbr3.rounds_since_probe = 62;
	CHECK(!bbr3_is_time_to_probe(&f.bbr3, &f.p.bbr3, f.bbr3.cycle_start_us));
	f.bbr3.rounds_since_probe = 63;
	CHECK(bbr3_is_time_to_probe(&f.bbr3, &f.p.bbr3, f.bbr3.cycle_start_us));
	f.bbr3.rounds_since_probe = 20;
	f.bbr3.cwnd_pkts = 20;		/* as many as Reno takes to fill a pipe of 20 */
	CHECK(bbr3_is_time_to_probe(&f.bbr3, &f.p.bbr3, f.bbr3.cycle_start_us));
}

TEST(a_timeout_leaves_one_packet_and_recovery_ends_with_the_window_of_before)
{
	u32 cwnd_pkts;

	open_in(BBR3_CRUISE);
	cwnd_pkts = f.d.cwnd_pkts;
	take_event(&f, CCA_TIMEOUT, 0, 0);
	CHECK_EQ(f.d.cwnd_pkts, 1);
	take_event(&f, CCA_RECOVERY_ENTERED, 0, 0);
	take_event(&f, CCA_RECOVERY_LEFT, 0, 0);
	CHECK_EQ(f.d.cwnd_pkts, cwnd_pkts);
}

/* Section 5.5.11. */
TEST(an_undo_takes_a_probe_up_again)
{
	open_in(BBR3_UP);
	take_loss(150, 4);
	CHECK_EQ(f.bbr3.mode, BBR3_DOWN);
	take_event(&f, CCA_UNDO, 0, 100);
	CHECK_EQ(f.bbr3.mode, BBR3_REFILL);
	CHECK_EQ(f.bbr3.long_pkts, BBR3_NO_LIMIT_PKTS);
	/* Startup as well, and only once. */
	open_bbr3(50 * MS);
	f.bbr3.mode = BBR3_DRAIN;
	f.bbr3.full = true;
	f.bbr3.undo_mode = BBR3_STARTUP;
	take_event(&f, CCA_UNDO, 0, 100);
	CHECK_EQ(f.bbr3.mode, BBR3_STARTUP);
	CHECK_EQ(f.bbr3.full, false);
	f.bbr3.mode = BBR3_CRUISE;
	take_event(&f, CCA_UNDO, 0, 100);
	CHECK_EQ(f.bbr3.mode, BBR3_CRUISE);
	/* ProbeRTT goes on; Startup follows it. */
	f.bbr3.mode = BBR3_PROBE_RTT;
	f.bbr3.full = true;
	f.bbr3.undo_mode = BBR3_STARTUP;
	take_event(&f, CCA_UNDO, 0, 100);
	CHECK_EQ(f.bbr3.mode, BBR3_PROBE_RTT);
	CHECK_EQ(f.bbr3.full, false);
	f.bbr3.undo_mode = BBR3_UP;
	take_event(&f, CCA_UNDO, 0, 100);
	CHECK_EQ(f.bbr3.mode, BBR3_PROBE_RTT);
}

TEST(silence_paces_at_the_bandwidth_and_ends_a_probe_of_the_round_trip)
{
	open_in(BBR3_UP);
	take_event(&f, CCA_TRANSFER_STARTED, 0, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, 2896000ull * 990 / 1000);
	open_in(BBR3_CRUISE);
	f.bbr3.mode = BBR3_PROBE_RTT;
	f.bbr3.short_pkts = 10;
	f.bbr3.probe_rtt_end_us = f.ack.now_us - 1;
	take_event(&f, CCA_IDLE_RESTART, 0, 0);
	CHECK_EQ(f.bbr3.mode, BBR3_CRUISE);
	CHECK_EQ(f.bbr3.short_pkts, BBR3_NO_LIMIT_PKTS);
	/* In Startup nothing changes; nor is an old minimum probed for behind silence. */
	open_bbr3(50 * MS);
	take_event(&f, CCA_IDLE_RESTART, 0, 0);
	CHECK_EQ(f.bbr3.mode, BBR3_STARTUP);
	f.ack.now_us += 6 * SECOND;
	take_round(&f, 10, 60 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_STARTUP);
	CHECK_EQ(f.bbr3.idle_restart, false);
	/* From Startup ProbeRTT goes back to it. */
	f.ack.now_us += 6 * SECOND;
	f.ack.inflight_pkts = 4;
	take_round(&f, 10, 60 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_PROBE_RTT);
	take_round(&f, 10, 60 * MS);
	take_round(&f, 10, 160 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_STARTUP);
}

TEST(a_minimum_is_forgotten_after_ten_seconds)
{
	open_in(BBR3_CRUISE);
	f.ack.now_us += 6 * SECOND;
	take_round(&f, 100, 80 * MS);
	CHECK_EQ(f.bbr3.probe_min_rtt_us, 80 * MS);
	CHECK_EQ(f.bbr3.min_rtt_us, 50 * MS);
	f.ack.now_us += 4 * SECOND;
	take_round(&f, 100, 90 * MS);
	CHECK_EQ(f.bbr3.min_rtt_us, 80 * MS);
}
