// SPDX-License-Identifier: MIT
/* kmod/core/bbr1.h: recovery, timeouts, silence, and what algorithms on top may set. */
#include "bbr1_flow.h"

static struct bbr1_run r;

/* An ACK within the round trip: no sample. */
static void take_part(struct bbr1_flow *f, u32 acked_pkts, u32 lost_pkts, u32 inflight_pkts)
{
	f->ack.now_us += MS;
	f->ack.acked_pkts = acked_pkts;
	f->ack.lost_pkts = lost_pkts;
	f->ack.delivered_pkts += acked_pkts;
	f->ack.inflight_pkts = inflight_pkts;
	f->ack.rate_pkts = 0;
	f->ack.rate_interval_us = 0;
	bbr1_on_ack(&f->s, &f->p, &f->ack, &f->d);
	f->ack.lost_pkts = 0;
}

TEST(packets_are_conserved_for_a_round_trip_of_recovery)
{
	struct bbr1_flow f;
	u32 before_pkts;

	open_probe_bw(&f, 1);
	take_round(&f, 100, 50 * MS);
	before_pkts = f.d.cwnd_pkts;
	take_event(&f, CCA_RECOVERY_ENTERED, 90);
	CHECK_EQ(f.d.cwnd_pkts, 90);
	take_part(&f, 3, 2, 88);
	CHECK_EQ(f.d.cwnd_pkts, 91);		/* what is in flight, and what was delivered */
	take_part(&f, 3, 0, 91);
	CHECK_EQ(f.d.cwnd_pkts, 94);
	/* A round trip later it grows by what is delivered, and shrinks by what is lost. */
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.s.conserve, false);
	before_pkts = cca_max_u32(before_pkts, f.d.cwnd_pkts);
	f.s.cwnd_pkts = 50;
	take_part(&f, 1, 5, 40);
	CHECK_EQ(f.d.cwnd_pkts, 46);
	f.s.cwnd_pkts = 3;
	take_part(&f, 0, 5, 40);
	CHECK_EQ(f.d.cwnd_pkts, 1);
	/* And is as before when all is repaired. */
	take_event(&f, CCA_RECOVERY_LEFT, 40);
	CHECK(f.d.cwnd_pkts >= 200 && f.d.cwnd_pkts <= before_pkts);
}

TEST(a_timeout_leaves_one_packet_and_takes_growth_for_new)
{
	struct bbr1_flow f;
	u32 before_pkts;

	open_probe_bw(&f, 1);
	before_pkts = f.d.cwnd_pkts;
	take_event(&f, CCA_TIMEOUT, 0);
	CHECK_EQ(f.d.cwnd_pkts, 1);
	CHECK_EQ(f.s.full_bytes_per_s, 0);
	CHECK(f.s.lt.sampling);
	take_event(&f, CCA_TIMEOUT, 0xffffffffu);
	CHECK_EQ(f.d.cwnd_pkts, CCA_MAX_PKTS);
	take_event(&f, CCA_RECOVERY_LEFT, 0);
	CHECK(f.d.cwnd_pkts >= before_pkts);
}

TEST(an_undo_restores_the_window_and_forgets_the_policer)
{
	struct bbr1_flow f;
	u32 before_pkts;

	open_probe_bw(&f, 1);
	before_pkts = f.d.cwnd_pkts;
	take_event(&f, CCA_TIMEOUT, 0);
	take_event(&f, CCA_UNDO, 50);
	CHECK_EQ(f.d.cwnd_pkts, before_pkts);
	CHECK(!f.s.in_recovery && !f.s.lt.sampling);
}

TEST(behind_silence_it_paces_at_the_bandwidth)
{
	struct bbr1_flow f;

	open_probe_bw(&f, 1);
	f.s.phase = 0;
	take_event(&f, CCA_TRANSFER_STARTED, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, 2896000ull * 990 / 1000);
	CHECK_EQ(f.s.idle_restart, true);
	CHECK_EQ(f.s.train_pkts, 0);
	/* In Startup it goes on as it was. */
	open_bbr1(&f, 50 * MS, 1);
	take_event(&f, CCA_IDLE_RESTART, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, 10ull * MSS * 20 * 2885 / 1000);
}

TEST(silence_ends_a_probe_of_the_round_trip_whose_time_is_over)
{
	struct bbr1_flow f;

	open_probe_bw(&f, 1);
	f.ack.now_us += 11 * SECOND;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.s.mode, BBR1_PROBE_RTT);
	CHECK_EQ(f.d.cwnd_pkts, 4);
	take_event(&f, CCA_IDLE_RESTART, 0);
	CHECK_EQ(f.s.mode, BBR1_PROBE_RTT);	/* not yet down to four packets */
	take_part(&f, 90, 0, 4);
	CHECK(f.s.probe_rtt_end_us != 0);
	take_event(&f, CCA_IDLE_RESTART, 0);
	CHECK_EQ(f.s.mode, BBR1_PROBE_RTT);
	f.ack.now_us += SECOND;
	take_event(&f, CCA_IDLE_RESTART, 0);
	CHECK_EQ(f.s.mode, BBR1_PROBE_BW);
	CHECK(f.d.cwnd_pkts > 100);
}

/* Before the pipe was ever full, Startup goes on behind it; recovery meanwhile keeps the window. */
TEST(a_probe_within_startup_goes_back_to_it)
{
	struct bbr1_flow f;

	open_bbr1(&f, 50 * MS, 1);
	take_round(&f, 10, 50 * MS);
	f.ack.now_us += 11 * SECOND;
	f.ack.inflight_pkts = 4;
	take_round(&f, 10, 50 * MS);
	CHECK_EQ(f.s.mode, BBR1_PROBE_RTT);
	take_event(&f, CCA_RECOVERY_ENTERED, 4);
	CHECK_EQ(f.s.prior_cwnd_pkts, 20);
	take_event(&f, CCA_RECOVERY_LEFT, 4);
	take_round(&f, 4, 50 * MS);
	CHECK_EQ(f.s.mode, BBR1_PROBE_RTT);
	take_round(&f, 4, 250 * MS);
	CHECK_EQ(f.s.mode, BBR1_STARTUP);
	CHECK(f.d.cwnd_pkts >= 20);
}

TEST(another_algorithm_may_cap_its_pacing)
{
	struct bbr1_flow f;

	open_probe_bw(&f, 1);
	f.s.phase = 2;
	bbr1_cap_pacing(&f.s, 1000000);
	take_round(&f, 100, 40 * MS);
	CHECK_EQ(f.d.pacing_bytes_per_s, 1000000);
	CHECK(f.s.pacing_bytes_per_s > 1000000);	/* the model goes on by itself */
	bbr1_cap_pacing(&f.s, 1ull << 36);
	take_event(&f, CCA_RECOVERY_ENTERED, 90);
	CHECK_EQ(f.d.pacing_bytes_per_s, f.s.pacing_bytes_per_s);
	bbr1_cap_pacing(&f.s, 0);
	take_round(&f, 100, 40 * MS);
	CHECK_EQ(f.d.pacing_bytes_per_s, f.s.pacing_bytes_per_s);
}

TEST(the_largest_numbers_stay_in_their_bounds)
{
	struct bbr1_flow f;
	u32 i;

	open_bbr1(&f, 0xffffffffu, 0);
	for (i = 0; i < 50; i++) {
		memset(&f.ack, 0xff, sizeof(f.ack));
		f.ack.now_us = (u64)i * SECOND;
		f.ack.lost_pkts = i % 2 ? 0xffffffffu : 0;
		bbr1_on_ack(&f.s, &f.p, &f.ack, &f.d);
		CHECK(f.d.cwnd_pkts >= 1 && f.d.cwnd_pkts <= CCA_MAX_PKTS);
		CHECK(f.d.pacing_bytes_per_s <= CCA_MAX_RATE_BYTES_PER_S);
	}
}

/* Whole flows through a buffer that is too short: losses do not slow it down, but are repaired. */
TEST(a_short_buffer_does_not_keep_it_from_the_link)
{
	u32 delivered_pkts;

	open_run(&r, 40 * MS, 10, 3);
	path_run(&r.path, 3 * SECOND);
	delivered_pkts = r.path.delivered_pkts;
	path_run(&r.path, 10 * SECOND);
	CHECK(r.path.delivered_pkts - delivered_pkts > 10 * SECOND / 600 * 93 / 100);
	CHECK(r.path.lost_pkts > 0);
}
