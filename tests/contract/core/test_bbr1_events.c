// SPDX-License-Identifier: MIT
/* kmod/core/bbr1.h: recovery, timeouts, silence, and what algorithms on top may set. */
#include "bbr1_flow.h"

/* An ACK within the round trip: no sample. */
static void take_part(u32 acked_pkts, u32 lost_pkts, u32 inflight_pkts)
{
	f.ack.now_us += MS;
	f.ack.acked_pkts = acked_pkts;
	f.ack.lost_pkts = lost_pkts;
	f.ack.delivered_pkts += acked_pkts;
	f.ack.inflight_pkts = inflight_pkts;
	f.ack.rate_pkts = 0;
	f.ack.rate_interval_us = 0;
	flow_on_ack(&f, &f.ack);
	f.ack.lost_pkts = 0;
}

TEST(packets_are_conserved_for_a_round_trip_of_recovery)
{
	u32 before_pkts;

	open_probe_bw(1);
	take_round(&f, 100, 50 * MS);
	before_pkts = f.d.cwnd_pkts;
	take_event(&f, CCA_RECOVERY_ENTERED, 0, 90);
	CHECK_EQ(f.d.cwnd_pkts, 90);
	take_part(3, 2, 88);
	CHECK_EQ(f.d.cwnd_pkts, 91);		/* what is in flight, and what was delivered */
	take_part(3, 0, 91);
	CHECK_EQ(f.d.cwnd_pkts, 94);
	/* A round trip later it grows by what is delivered, and shrinks by what is lost. */
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr.conserve, false);
	before_pkts = cca_max_u32(before_pkts, f.d.cwnd_pkts);
	f.bbr.cwnd_pkts = 50;
	take_part(1, 5, 40);
	CHECK_EQ(f.d.cwnd_pkts, 46);
	f.bbr.cwnd_pkts = 3;
	take_part(0, 5, 40);
	CHECK_EQ(f.d.cwnd_pkts, 1);
	/* And is as before when all is repaired. */
	take_event(&f, CCA_RECOVERY_LEFT, 0, 40);
	CHECK(f.d.cwnd_pkts >= 200 && f.d.cwnd_pkts <= before_pkts);
}

TEST(a_timeout_leaves_one_packet_and_takes_growth_for_new)
{
	u32 before_pkts;

	open_probe_bw(1);
	before_pkts = f.d.cwnd_pkts;
	take_event(&f, CCA_TIMEOUT, 0, 0);
	CHECK_EQ(f.d.cwnd_pkts, 1);
	CHECK_EQ(f.bbr.full_bytes_per_s, 0);
	CHECK(f.bbr.lt.sampling);
	take_event(&f, CCA_TIMEOUT, 0, 0xffffffffu);
	CHECK_EQ(f.d.cwnd_pkts, CCA_MAX_PKTS);
	take_event(&f, CCA_RECOVERY_LEFT, 0, 0);
	CHECK(f.d.cwnd_pkts >= before_pkts);
}

TEST(an_undo_restores_the_window_and_forgets_the_policer)
{
	u32 before_pkts;

	open_probe_bw(1);
	before_pkts = f.d.cwnd_pkts;
	take_event(&f, CCA_TIMEOUT, 0, 0);
	take_event(&f, CCA_UNDO, 0, 50);
	CHECK_EQ(f.d.cwnd_pkts, before_pkts);
	CHECK(!f.bbr.in_recovery && !f.bbr.lt.sampling);
}

TEST(behind_silence_it_paces_at_the_bandwidth)
{
	open_probe_bw(1);
	f.bbr.phase = 0;
	take_event(&f, CCA_TRANSFER_STARTED, 0, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, 2896000ull * 990 / 1000);
	CHECK_EQ(f.bbr.idle_restart, true);
	CHECK_EQ(f.bbr.train_pkts, 0);
	/* In Startup it goes on as it was. */
	open_bbr1(50 * MS, 1);
	take_event(&f, CCA_IDLE_RESTART, 0, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, 10ull * MSS * 20 * 2885 / 1000);
}

TEST(silence_ends_a_probe_of_the_round_trip_whose_time_is_over)
{
	open_probe_bw(1);
	f.ack.now_us += 11 * SECOND;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr.mode, BBR1_PROBE_RTT);
	CHECK_EQ(f.d.cwnd_pkts, 4);
	take_event(&f, CCA_IDLE_RESTART, 0, 0);
	CHECK_EQ(f.bbr.mode, BBR1_PROBE_RTT);	/* not yet down to four packets */
	take_part(90, 0, 4);
	CHECK(f.bbr.probe_rtt_end_us != 0);
	take_event(&f, CCA_IDLE_RESTART, 0, 0);
	CHECK_EQ(f.bbr.mode, BBR1_PROBE_RTT);
	f.ack.now_us += SECOND;
	take_event(&f, CCA_IDLE_RESTART, 0, 0);
	CHECK_EQ(f.bbr.mode, BBR1_PROBE_BW);
	CHECK(f.d.cwnd_pkts > 100);
}

/* Before the pipe was ever full, Startup goes on behind it; recovery meanwhile keeps the window. */
TEST(a_probe_within_startup_goes_back_to_it)
{
	open_bbr1(50 * MS, 1);
	take_round(&f, 10, 50 * MS);
	f.ack.now_us += 11 * SECOND;
	f.ack.inflight_pkts = 4;
	take_round(&f, 10, 50 * MS);
	CHECK_EQ(f.bbr.mode, BBR1_PROBE_RTT);
	take_event(&f, CCA_RECOVERY_ENTERED, 0, 4);
	CHECK_EQ(f.bbr.prior_cwnd_pkts, 20);
	take_event(&f, CCA_RECOVERY_LEFT, 0, 4);
	take_round(&f, 4, 50 * MS);
	CHECK_EQ(f.bbr.mode, BBR1_PROBE_RTT);
	take_round(&f, 4, 250 * MS);
	CHECK_EQ(f.bbr.mode, BBR1_STARTUP);
	CHECK(f.d.cwnd_pkts >= 20);
}

TEST(another_algorithm_may_cap_its_pacing)
{
	open_probe_bw(1);
	f.bbr.phase = 2;
	bbr1_cap_pacing(&f.bbr, 1000000);
	take_round(&f, 100, 40 * MS);
	CHECK_EQ(f.d.pacing_bytes_per_s, 1000000);
	CHECK(f.bbr.pacing_bytes_per_s > 1000000);	/* the model goes on by itself */
	bbr1_cap_pacing(&f.bbr, 1ull << 36);
	take_event(&f, CCA_RECOVERY_ENTERED, 0, 90);
	CHECK_EQ(f.d.pacing_bytes_per_s, f.bbr.pacing_bytes_per_s);
	bbr1_cap_pacing(&f.bbr, 0);
	take_round(&f, 100, 40 * MS);
	CHECK_EQ(f.d.pacing_bytes_per_s, f.bbr.pacing_bytes_per_s);
}

/* Whole flows through a buffer that is too short: losses do not slow it down, but are repaired. */
TEST(a_short_buffer_does_not_keep_it_from_the_link)
{
	u32 delivered_pkts;

	open_run(40 * MS, 10, 3);
	path_run(&r, 3 * SECOND);
	delivered_pkts = r.delivered_pkts;
	path_run(&r, 10 * SECOND);
	CHECK(r.delivered_pkts - delivered_pkts > 10 * SECOND / 600 * 93 / 100);
	CHECK(r.lost_pkts > 0);
}
