// SPDX-License-Identifier: MIT
/* kmod/core/bbr1_lt.h: the policer detector, by rows and behind a token bucket. */
#include "bbr1_flow.h"

static void open_lt(void)
{
	struct cca_start start = { SECOND, 50 * MS, 10, 0, 1000 };

	open_flow(&f, BBR_ALONE, &start, 0);
}

/* A round trip of 50 ms in which that much was delivered and lost. */
static bool take(u32 pkts, u32 lost_pkts)
{
	f.ack.now_us += 50 * MS;
	f.ack.acked_pkts = pkts;
	f.ack.delivered_pkts += pkts;
	f.ack.lost_pkts = lost_pkts;
	return bbr1_lt_on_ack(&f.bbr.lt, &f.p.bbr, &f.ack, true, true);
}

TEST(an_interval_begins_at_a_loss)
{
	open_lt();
	take(50, 0);
	CHECK(!f.bbr.lt.sampling);
	take(50, 1);
	CHECK(f.bbr.lt.sampling);
	CHECK_EQ(f.bbr.lt.start_delivered_pkts, 100);
	CHECK_EQ(f.bbr.lt.start_lost_pkts, 1);
}

/* 50 packets a round trip, 10 lost in each but the last: 195 permille are 195 in 1000. */
TEST(it_lasts_four_to_sixteen_round_trips_and_ends_at_a_loss)
{
	static const struct { u32 rounds, last_lost_pkts; bool ended, sampling; } cases[] = {
		{ 3, 20, false, true },
		{ 4, 10, true, true },
		{ 4, 8, false, true },		/* 38 of 200: 190 permille */
		{ 4, 9, true, true },		/* 39 of 200 */
		{ 4, 0, false, true },		/* no loss at its end */
		{ 16, 0, false, true },
		{ 17, 10, false, false },	/* too long: thrown away */
	};

	FOR_ROWS(cases) {
		u32 i;

		open_lt();
		take(50, 1);
		for (i = 1; i < c->rounds; i++) {
			/* The losses of a long interval come where it may not end. */
			f.bbr.lt.lost_pkts += c->rounds > 4 ? 10 : 0;
			take(50, c->rounds > 4 ? 0 : 10);
		}
		take(50, c->last_lost_pkts);
		CHECK_EQ(f.bbr.lt.bytes_per_s != 0, c->ended);
		CHECK_EQ(f.bbr.lt.sampling, c->sampling);
		if (c->ended)
			CHECK_EQ(f.bbr.lt.bytes_per_s, 1000000);	/* 200 x 1000 in 200 ms */
	}
}

TEST(two_intervals_agree_within_an_eighth_or_4_kbit_per_s)
{
	static const struct { u64 a, b; bool agree; } cases[] = {
		{ 1000000, 1000000, true }, { 1125000, 1000000, true }, { 1125001, 1000000, false },
		{ 875000, 1000000, true }, { 874999, 1000000, false },
		{ 1500, 1000, true }, { 1501, 1000, false }, { 500, 1000, true },
	};

	FOR_ROWS(cases)
		CHECK_EQ(bbr1_lt_agrees(c->a, c->b), c->agree);
}

static void take_interval(u32 pkts)
{
	u32 i;

	for (i = 0; i < 4; i++)
		take(pkts, pkts / 4);
}

TEST(two_that_agree_give_their_mean_for_48_round_trips)
{
	u32 i;

	open_lt();
	take(50, 1);
	take_interval(80);
	CHECK(!f.bbr.lt.in_use);
	take_interval(50);
	CHECK(!f.bbr.lt.in_use);		/* 1.6 and 1 MB/s do not */
	take_interval(52);
	CHECK(f.bbr.lt.in_use);
	CHECK_EQ(f.bbr.lt.bytes_per_s, 1020000);
	for (i = 1; i < 48; i++)
		CHECK_EQ(take(50, 20), false);
	/* Only round trips, and only those of ProbeBW, count. */
	CHECK_EQ(bbr1_lt_on_ack(&f.bbr.lt, &f.p.bbr, &f.ack, false, true), false);
	CHECK_EQ(bbr1_lt_on_ack(&f.bbr.lt, &f.p.bbr, &f.ack, true, false), false);
	CHECK(f.bbr.lt.in_use);
	CHECK_EQ(take(50, 20), true);
	CHECK(!f.bbr.lt.in_use && !f.bbr.lt.sampling && !f.bbr.lt.bytes_per_s);
}

TEST(an_application_that_has_no_data_says_nothing_of_a_policer)
{
	open_lt();
	take(50, 1);
	take_interval(50);
	CHECK(f.bbr.lt.bytes_per_s != 0);
	f.ack.app_limited = 1;
	take(50, 10);
	CHECK(!f.bbr.lt.sampling && !f.bbr.lt.bytes_per_s);
}

TEST(it_can_be_switched_off_and_reset)
{
	open_lt();
	f.p.bbr.long_term = 0;
	take(50, 10);
	CHECK(!f.bbr.lt.sampling);
	open_bbr1(50 * MS, 1);
	f.ack.lost_pkts = 5;
	take_round(&f, 10, 50 * MS);
	CHECK(f.bbr.lt.sampling);
	bbr1_use_long_term(&f.bbr, false);
	f.ack.lost_pkts = 5;
	take_round(&f, 10, 50 * MS);
	CHECK(!f.bbr.lt.sampling);
	CHECK_EQ(f.bbr.lt.lost_pkts, 10);		/* what was lost is counted all the same */
	bbr1_use_long_term(&f.bbr, true);
	f.ack.lost_pkts = 5;
	take_round(&f, 10, 50 * MS);
	CHECK(f.bbr.lt.sampling);
}

TEST(no_interval_ends_within_a_millisecond_or_without_delivery)
{
	u32 i;

	open_lt();
	take(50, 1);
	f.ack.lost_pkts = 50;
	for (i = 0; i < 6; i++)
		bbr1_lt_on_ack(&f.bbr.lt, &f.p.bbr, &f.ack, true, true);
	CHECK_EQ(f.bbr.lt.bytes_per_s, 0);
	f.ack.now_us += 50 * MS;
	bbr1_lt_on_ack(&f.bbr.lt, &f.p.bbr, &f.ack, true, true);
	CHECK_EQ(f.bbr.lt.bytes_per_s, 0);
}

TEST(a_timeout_begins_an_interval_and_counts_what_it_lost)
{
	open_lt();
	bbr1_lt_on_timeout(&f.bbr.lt, 3 * SECOND, 77, 30);
	CHECK(f.bbr.lt.sampling);
	CHECK_EQ(f.bbr.lt.start_delivered_pkts, 77);
	CHECK_EQ(f.bbr.lt.start_lost_pkts, 30);
	bbr1_lt_on_timeout(&f.bbr.lt, 4 * SECOND, 99, 5);
	CHECK_EQ(f.bbr.lt.lost_pkts, 35);
	CHECK_EQ(f.bbr.lt.start_delivered_pkts, 77);
}

/*
 * A policer of 5 Mbit/s (2.4 ms a packet) with a bucket of 100 packets in front of
 * 20 Mbit/s: the rate is found, the flow then loses next to nothing, and after 48
 * round trips looks again.
 */
TEST(behind_a_policer_it_paces_at_the_policers_rate)
{
	u32 engaged = 0, released = 0, used_lost_pkts = 0, used_pkts = 0;
	u64 rate_sum = 0;
	bool used;

	open_run(40 * MS, 500, 7);
	r.token_time_us = 2400;
	r.bucket_pkts = 100;
	while (r.now_us < 61 * SECOND) {
		u32 lost_pkts = r.lost_pkts;

		used = r.f.bbr.lt.in_use;
		path_step(&r);
		if (!used && r.f.bbr.lt.in_use) {
			engaged++;
			rate_sum += r.f.bbr.lt.bytes_per_s;
		}
		released += used && !r.f.bbr.lt.in_use;
		if (used && r.f.bbr.lt.in_use) {
			used_pkts++;
			used_lost_pkts += r.lost_pkts - lost_pkts;
		}
	}
	CHECK(engaged >= 5 && released >= 4);
	/* 603,333 bytes/s; the interval may have begun with tokens left. */
	CHECK(rate_sum / cca_max_u32(engaged, 1) > MSS * SECOND / 2400ull * 95 / 100);
	CHECK(rate_sum / cca_max_u32(engaged, 1) < MSS * SECOND / 2400ull * 110 / 100);
	CHECK(used_lost_pkts * 50 < used_pkts);		/* 2 % */
}

TEST(without_it_losses_go_on)
{
	u32 share;

	open_run(40 * MS, 500, 7);
	bbr1_use_long_term(&r.f.bbr, false);
	r.token_time_us = 2400;
	r.bucket_pkts = 100;
	path_run(&r, 60 * SECOND);
	share = 100 * r.lost_pkts / (r.lost_pkts + r.delivered_pkts);
	CHECK(share >= 5);
}
