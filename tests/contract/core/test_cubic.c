// SPDX-License-Identifier: MIT
/* kmod/core/cubic.h: RFC 9438 by its equations, and what Linux adds. Slow start: test_hystart.c. */
#include "cubic_flow.h"

TEST(the_cube_root_is_exact)
{
	u64 r;

	for (r = 1; r < 1u << 21; r++) {
		if (cubic_root(r * r * r) != r || cubic_root(r * r * r - 1) != r - 1)
			break;
	}
	CHECK_EQ(r, 1u << 21);
	CHECK_EQ(cubic_root(0), 0);
	CHECK_EQ(cubic_root((1ull << 63) - 1), (1u << 21) - 1);
}

/* K = cbrt(rise / C), in 2^-10 s. */
TEST(k_follows_equation_2)
{
	static const struct { u32 c_permille, rise_pkts, k_q10s; } cases[] = {
		{ 400, 0, 0 },
		{ 400, 100, 6450 },		/* cbrt(250) = 6.2996 s */
		{ 400, 1, 1389 },		/* cbrt(2.5) = 1.3572 s */
		{ 1000, 27, 3072 },
		{ 1000, 8000, 20480 },
		{ 400, 1u << 24, 355784 },	/* cbrt(2^24 / 0.4) = 347.45 s */
		{ 10, 1u << 24, 1216764 },
		{ 10, 0xffffffffu, 1216764 },
		{ 0, 1u << 24, 1216764 },
	};

	FOR_ROWS(cases) {
		struct cubic_params p;

		cca_params_init(&p, CCA_ID_cubic);
		p.c_permille = c->c_permille;
		/* The last digit is lost where 2^30 is not a multiple of C. */
		CHECK(cubic_k_q10s(&p, c->rise_pkts) - c->k_q10s + 1 <= 2);
	}
}

/* W_cubic(t) = 0.4 (t - K)^3 + W_max. */
TEST(the_target_follows_equation_1)
{
	static const struct { u32 k_q10s, plateau_pkts; u64 t_us; u32 target_pkts; } cases[] = {
		{ 5 * 1024, 1000, 0, 950 },
		{ 5 * 1024, 1000, 5000000, 1000 },
		{ 5 * 1024, 1000, 10000000, 1050 },
		{ 5 * 1024, 1000, 15000000, 1400 },
		{ 5 * 1024, 1000, 3000000, 997 },	/* 1000 - 3.2, rise rounded down */
		{ 0, 100, 10000000, 500 },
		{ 50 * 1024, 1000, 0, 0 },		/* below nothing */
		{ 0, 1, ~0ull, 1 + (1u << 24) },
		{ 0xffffffffu, 1, 0, 0 },
	};

	FOR_ROWS(cases) {
		open_cubic(10, 10);
		f.cubic.k_q10s = c->k_q10s;
		f.cubic.plateau_pkts = c->plateau_pkts;
		CHECK_EQ(cubic_target_pkts(&f.cubic, &f.p.cubic, c->t_us), c->target_pkts);
	}
}

/* The window itself: 1000 packets at 100 ms, K = cbrt(300 / 0.4) = 9.086 s. */
TEST(the_window_follows_the_cubic_function)
{
	static const struct { u32 round, cwnd_pkts; } points[] = {
		{ 20, 858 }, { 45, 962 }, { 90, 1000 }, { 120, 1009 }, { 160, 1129 },
	};
	u32 round, i = 0;

	open_cubic(1000, 1000);
	take_window(100 * MS);
	f.w.cwnd_pkts = 1000;
	lose();
	CHECK_EQ(f.w.cwnd_pkts, 700);
	for (round = 1; i < CCA_COUNT_OF(points); round++) {
		take_window(100 * MS);
		if (round != points[i].round)
			continue;
		row = (int)++i;
		/* What is reached trails the target by up to a round trip's growth. */
		CHECK(f.w.cwnd_pkts + 12 > points[i - 1].cwnd_pkts);
		CHECK(f.w.cwnd_pkts < points[i - 1].cwnd_pkts + 12);
	}
}

/* alpha = 3 (1 - beta) / (1 + beta) = 0.529 a round trip; a short RTT keeps cubic slower. */
TEST(short_paths_grow_as_reno_does)
{
	u32 round;

	open_cubic(100, 100);
	take_window(10 * MS);
	f.w.cwnd_pkts = 100;
	lose();
	for (round = 0; round < 100; round++)
		take_window(10 * MS);
	CHECK(f.w.cwnd_pkts >= 70 + 50 && f.w.cwnd_pkts <= 70 + 54);
	/* Without that region it is cubic's alone: 0.4 (1 - 4.217)^3 + 100 = 86.7 */
	open_cubic(100, 100);
	f.p.cubic.reno_friendly = 0;
	take_window(10 * MS);
	f.w.cwnd_pkts = 100;
	lose();
	for (round = 0; round < 100; round++)
		take_window(10 * MS);
	CHECK(f.w.cwnd_pkts >= 84 && f.w.cwnd_pkts <= 88);
}

TEST(growth_is_at_most_half_a_window_a_round_trip)
{
	open_cubic(100, 100);
	lose();
	take_ack(&f, MS, 1, 50 * MS);
	f.ack.now_us += 3600ull * SECOND;	/* frozen: the host did not ask */
	f.w.credit_pkts = 0;
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.cubic.acks_per_pkt, 2);
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 71);
}

/* A twentieth of the ACKs, and from the plateau up. */
TEST(before_any_loss_growth_does_not_stand_still)
{
	open_cubic(1000, 1000);
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.cubic.acks_per_pkt, 20);
	CHECK_EQ(f.cubic.k_q10s, 0);
	CHECK_EQ(f.cubic.plateau_pkts, 1000);
}

TEST(credit_of_slower_growth_is_one_packet)
{
	open_cubic(1000, 1000);
	f.w.credit_pkts = 500;
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.w.cwnd_pkts, 1001);
	CHECK_EQ(f.w.credit_pkts, 1);
}

TEST(an_unchanged_window_is_looked_at_32_times_a_second)
{
	u64 before_us;

	open_cubic(1u << 20, 100);
	f.cubic.w_max_pkts = 1;
	take_ack(&f, MS, 1, 50 * MS);
	before_us = f.cubic.refreshed_us;
	take_ack(&f, 31 * MS, 1, 50 * MS);
	CHECK_EQ(f.cubic.refreshed_us, before_us);
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.cubic.refreshed_us, before_us + 32 * MS);
}

TEST(a_loss_leaves_beta_and_fast_convergence_gives_up_more)
{
	static const struct {
		u32 cwnd_pkts, w_max_pkts, fast, ssthresh_pkts, w_max_after_pkts;
	} cases[] = {
		{ 1000, 0, 1, 700, 1000 },
		{ 1000, 1000, 1, 700, 1000 },
		{ 1000, 2000, 1, 700, 850 },	/* (1 + beta) / 2 */
		{ 1000, 2000, 0, 700, 1000 },
		{ 3, 10, 1, 2, 2 },
		{ 1, 0, 1, 2, 1 },
		{ 0, 0, 1, 2, 0 },
		{ 0xffffffffu, 0, 1, 11744051, 1u << 24 },
	};

	FOR_ROWS(cases) {
		open_cubic(c->cwnd_pkts, 10);
		f.cubic.w_max_pkts = c->w_max_pkts;
		f.p.cubic.fast_convergence = c->fast;
		f.w.credit_pkts = 9;
		CHECK_EQ(cubic_ssthresh(&f.cubic, &f.p.cubic, &f.w), c->ssthresh_pkts);
		CHECK_EQ(f.cubic.w_max_pkts, c->w_max_after_pkts);
		CHECK_EQ(f.w.credit_pkts, 0);
		f.w.cwnd_pkts = 1;
		CHECK_EQ(cubic_undo(&f.cubic, &f.w),
			 cca_max_u32(cca_min_u32(c->cwnd_pkts, 1u << 24), 1));
	}
}

TEST(a_timeout_forgets_and_other_events_do_not)
{
	open_cubic(100, 100);
	lose();
	take_ack(&f, MS, 1, 50 * MS);
	take_event(&f, CCA_RECOVERY_ENTERED, 0, 0);
	take_event(&f, CCA_RECOVERY_LEFT, 0, 0);
	take_event(&f, CCA_UNDO, 0, 0);
	CHECK(f.cubic.in_epoch);
	CHECK_EQ(f.cubic.w_max_pkts, 100);
	take_event(&f, CCA_TIMEOUT, 0, 0);
	CHECK(!f.cubic.in_epoch);
	CHECK_EQ(f.cubic.w_max_pkts, 0);
	CHECK_EQ(f.cubic.min_rtt_us, 0);
}

TEST(idle_time_is_no_time_of_the_epoch)
{
	u64 start_us;

	open_cubic(100, 100);
	lose();
	take_ack(&f, MS, 1, 50 * MS);
	start_us = f.cubic.epoch_start_us;
	take_ack(&f, 200 * MS, 1, 50 * MS);
	take_event(&f, CCA_TRANSFER_STARTED, 3 * SECOND, 0);
	CHECK_EQ(f.cubic.epoch_start_us, start_us + 3 * SECOND);
	take_event(&f, CCA_IDLE_RESTART, 2 * SECOND, 0);
	CHECK_EQ(f.cubic.epoch_start_us, start_us + 5 * SECOND);
	/* Outside of an epoch there is nothing to move. */
	take_event(&f, CCA_TIMEOUT, 0, 0);
	start_us = f.cubic.epoch_start_us;
	take_event(&f, CCA_TRANSFER_STARTED, SECOND, 0);
	CHECK_EQ(f.cubic.epoch_start_us, start_us);
}

/* The queue that filled before a loss takes time to go: its RTTs are no minimum. */
TEST(round_trips_of_an_epochs_first_second_are_left_out)
{
	open_cubic(100, 100);
	take_ack(&f, MS, 1, 50 * MS);
	CHECK_EQ(f.cubic.min_rtt_us, 50 * MS);
	take_ack(&f, 900 * MS, 1, 40 * MS);
	CHECK_EQ(f.cubic.min_rtt_us, 50 * MS);
	take_ack(&f, 200 * MS, 1, 45 * MS);
	CHECK_EQ(f.cubic.min_rtt_us, 45 * MS);
	take_ack(&f, MS, 1, 0);
	CHECK_EQ(f.cubic.min_rtt_us, 45 * MS);
	take_ack(&f, MS, 1, 0xffffffffu);
	CHECK_EQ(f.cubic.min_rtt_us, 45 * MS);
}
