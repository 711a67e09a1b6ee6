/* SPDX-License-Identifier: MIT */
/* rtcp_detect.h: trigger, classification and tokens, behind a limiter in closed form. */
#include "rtcp_limiter.h"

#include "../fuzz/fuzz.h"

static struct limited l;

static void check_operator_1(void)
{
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
	CHECK(is_within(l.c.bytes_per_s, 249780, 5));
	CHECK(is_within(l.c.bucket_bytes, 707600, 10));
}

/* --- trigger: section 4.1 ---------------------------------------------------------------- */

static void open_quiet(void)
{
	open_limited(&l, 733000, 250000);
	give_ack(&l, 100 * MS, 100, 0);
}

/* alpha = 7 rounds of 36 ms from the first loss on: 252 ms. beta = 0.2. */
TEST(test_loss_beyond_beta_over_alpha_rounds_triggers)
{
	static const struct {
		u32 lost, delivered;
		bool triggers;
	} cases[] = {
		{ 200, 800, false }, { 201, 799, true }, { 1, 0, true }, { 10, 1000, false }, { 900, 100, true },
	};

	FOR_ROWS(cases) {
		open_quiet();
		give_ack(&l, 1 * MS, c->delivered, c->lost);
		CHECK_EQ(l.c.fit.count, 0);
		give_ack(&l, 251 * MS, 0, 0);
		CHECK_EQ(l.c.fit.count, 0);
		give_ack(&l, 1 * MS, 0, 0);
		CHECK_EQ(l.c.fit.count, c->triggers ? 9 : 0);
	}
}

TEST(test_rounds_begin_with_a_loss_and_begin_anew_behind_it)
{
	open_quiet();
	give_ack(&l, 1 * MS, 1000, 10);
	give_ack(&l, 260 * MS, 0, 0);
	CHECK(!l.c.losing);
	/* What was delivered before the next loss does not count. */
	give_ack(&l, 900 * MS, 1000, 0);
	give_ack(&l, 1 * MS, 7, 3);
	give_ack(&l, 260 * MS, 0, 0);
	CHECK_EQ(l.c.fit.count, 9);
}

TEST(test_a_spurious_loss_does_not_count)
{
	open_quiet();
	give_ack(&l, 1 * MS, 0, 100);
	rtcp_client_on_undo(&l.c);
	give_ack(&l, 260 * MS, 10, 0);
	CHECK_EQ(l.c.fit.count, 0);
}

TEST(test_a_timeout_counts_what_it_took_for_lost)
{
	open_quiet();
	rtcp_client_on_timeout(&l.c, &l.p, l.ack.now_us + 1 * MS, 50);
	give_ack(&l, 261 * MS, 10, 0);
	CHECK_EQ(l.c.fit.count, 9);
}

/* Equations 6 and 12: 300 packets in 353 ms. */
TEST(test_the_trigger_gives_the_range_and_the_rate_before)
{
	open_quiet();
	give_ack(&l, 1 * MS, 200, 100);
	give_ack(&l, 252 * MS, 0, 0);
	CHECK_EQ(rtcp_bucket(&l.c.fit, 8), 300 * MSS);
	CHECK(is_within(l.c.trigger_bytes_per_s, 300ull * MSS * 1000 / 353, 1));
}

TEST(test_without_a_round_trip_nothing_triggers)
{
	open_limited(&l, 733000, 250000);
	l.rtt_us = 0;
	give_ack(&l, 100 * MS, 100, 900);
	give_ack(&l, 10 * SECOND, 100, 900);
	CHECK_EQ(l.c.fit.count, 0);
}

/* --- classification: section 4.3 ------------------------------------------------------------ */

TEST(test_a_limiter_is_found)
{
	open_limited(&l, 707600, 249780);	/* operator 1, in payload */
	run_limited(&l, 1 * SECOND);
	CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
	run_limited(&l, 2 * SECOND);
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
	CHECK(is_within(l.c.bytes_per_s, 249780, 5));
	CHECK(is_within(l.c.bucket_bytes, 707600, 8));
	run_limited(&l, 60 * SECOND);
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
	CHECK(is_within(l.c.bytes_per_s, 249780, 1));
}

/* epsilon rounds of 36 ms behind the earliest estimate, which is b_0 until 2 t_h. */
TEST(test_an_estimate_is_watched_for_epsilon_rounds)
{
	u64 earliest_us;

	open_limited(&l, 707600, 249780);
	earliest_us = 2 * (empty_at_us(&l) + 7 * 36 * MS) + 10 * 36 * MS;
	run_limited(&l, earliest_us - 8 * MS);
	CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
	run_limited(&l, SECOND);
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
	l.p.convergence_rounds = 100;
	open_limited(&l, 707600, 249780);
	l.p.convergence_rounds = 100;
	run_limited(&l, earliest_us + 80 * 36 * MS);
	CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
	run_limited(&l, 5 * SECOND);
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
}

/*
 * B 4 KB to 3 MB, R 0.2 to 20 Mbit/s: what equation 13 admits, by the closed form's own R_h, is
 * found, R within 5 %; what is far from it is never taken for a limiter.
 */
TEST(test_limiters_are_found_where_equation_13_holds)
{
	struct dice d = { 3 };
	u32 found = 0, refused = 0;

	for (row = 1; row <= 150; row++) {
		u64 bucket = 4000 + dice_below(&d, dice_one_in(&d, 2) ? 2996000 : 200000), t_us;
		u32 rate = 25000 + dice_below(&d, dice_one_in(&d, 2) ? 2475000 : 400000);
		u64 share;

		open_limited(&l, bucket, rate);
		t_us = empty_at_us(&l) + 7 * l.rtt_us;
		share = (u64)rate * 1000 * t_us / 1000000 * 1000 / (bucket + rate * t_us / 1000000);
		run_limited(&l, 30 * SECOND);
		if (share < 540000) {
			found++;
			CHECK_EQ(l.c.kind, RTCP_LIMITED);
			CHECK(is_within(l.c.bytes_per_s, rate, 5));
		} else if (share > 660000) {
			refused++;
			CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
		}
	}
	row = 0;
	CHECK(found > 40);
	CHECK(refused > 10);
}

TEST(test_a_steady_link_is_no_limiter_however_much_it_loses)
{
	u32 i;

	open_limited(&l, 0, 0);
	for (i = 0; i < 20000; i++)
		give_ack(&l, 4 * MS, 2, i % 5000 < 100 ? 20 : i % 2);
	CHECK_EQ(l.c.fit.count, 9);
	CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
}

/* A quarter of the rate before on average, but by turns much less and much more: A leaves the line. */
TEST(test_a_rate_that_wavers_does_not_converge)
{
	u32 i;

	open_limited(&l, 0, 0);
	for (i = 0; i < 100; i++)
		give_ack(&l, 4 * MS, 20, i > 90 ? 200 : 0);
	for (i = 0; i < 2500; i++)
		give_ack(&l, 4 * MS, i / 60 % 2 ? 9 : 1, i < 100 ? 10 : 0);
	CHECK_EQ(l.c.fit.count, 9);
	CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
}

/*
 * A link whose rate wavers around a line and follows it for a second every three, as a recorded one
 * may, with a loss each 40 ms: a second is long enough for epsilon rounds, and too short beside t.
 */
TEST(test_a_rate_that_is_steady_for_some_rounds_only_does_not_converge)
{
	static const u32 pkts[] = { 2, 6, 4 };
	u32 i;

	open_limited(&l, 0, 0);
	for (i = 0; i < 4000; i++)
		give_ack(&l, 4 * MS, 12, i > 3950 ? 50 : 0);
	for (i = 0; i < 30000; i++)
		give_ack(&l, 4 * MS, pkts[i / 250 % 3], i % 10 == 0);
	CHECK_EQ(l.c.fit.count, 9);
	CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
}

/* An estimate that the flow does not use up is not confirmed by staying what it is. */
TEST(test_a_flow_that_stops_confirms_nothing)
{
	u32 i;

	open_limited(&l, 707600, 249780);
	run_limited(&l, 600 * MS);
	for (i = 0; i < 10; i++)
		give_ack(&l, SECOND, 1, 0);
	CHECK_EQ(l.c.fit.count, 9);
	CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
}

/* A sender that keeps below R itself, or a link of that rate: on the line, but nothing is lost there. */
TEST(test_a_rate_beyond_which_nothing_is_refused_is_no_limiter)
{
	open_limited(&l, 707600, 249780);
	l.refuses = false;
	run_limited(&l, 20 * SECOND);
	CHECK_EQ(l.c.fit.count, 9);
	CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
	l.refuses = true;
	run_limited(&l, 200 * MS);
	check_operator_1();
}

/* Section 4.3 as it is: both conditions hold, and no packet need be lost. */
TEST(test_the_papers_classification_needs_no_refusals)
{
	open_limited(&l, 707600, 249780);
	l.p.probing = 1;
	l.refuses = false;
	run_limited(&l, 20 * SECOND);
	check_operator_1();
}

/* However many ACKs tell of it, and however much: rounds count. */
TEST(test_a_burst_of_loss_is_one_refusal)
{
	u32 i, burst;

	open_limited(&l, 707600, 249780);
	l.refuses = false;
	run_limited(&l, 5 * SECOND);
	for (burst = 1; burst <= RTCP_REFUSALS; burst++) {
		CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
		for (i = 0; i < 10; i++)
			give_ack(&l, 1 * MS, 0, 3);
		CHECK_EQ(l.c.refusals, burst);
		l.t_us += 10 * MS;
		run_limited(&l, 40 * MS);
	}
	check_operator_1();
}

/* Losses before the rate was what it is do not tell of it. */
TEST(test_refusals_count_from_when_the_estimate_is_what_it_is)
{
	open_limited(&l, 707600, 249780);
	l.refuses = false;
	run_limited(&l, empty_at_us(&l) + 400 * MS);
	CHECK_EQ(l.c.refusals, 0);
}

/* --- clocks, wraps, sizes ---------------------------------------------------------------------- */

TEST(test_counters_may_wrap_and_clocks_start_anywhere)
{
	static const u64 starts[] = { 0, SECOND, 1ull << 32, ~0ull - 100 * (u64)SECOND };
	struct rtcp_client first;
	u32 i;

	for (i = 0; i < 4; i++) {
		row = (int)i + 1;
		open_limited(&l, 707600, 249780);
		rtcp_client_init(&l.c, starts[i]);
		l.ack.now_us = starts[i];
		l.ack.delivered_pkts = 0xffffffffu - 100;
		run_limited(&l, 10 * SECOND);
		check_operator_1();
		if (!i)
			first = l.c;
		first.last_us = l.c.last_us;
		CHECK(!memcmp(&first, &l.c, sizeof(first)));
	}
}

TEST(test_a_clock_that_steps_back_stands_still)
{
	static const u32 at_ms[] = { 100, 300, 700, 2000 };
	u32 i;

	for (i = 0; i < 4; i++) {
		row = (int)i + 1;
		open_limited(&l, 707600, 249780);
		l.ack.now_us = 100 * (u64)SECOND;
		rtcp_client_init(&l.c, l.ack.now_us);
		run_limited(&l, at_ms[i] * MS);
		l.ack.now_us -= 50 * (u64)SECOND;
		run_limited(&l, 10 * SECOND);
		check_operator_1();
	}
}

/* ACKs of two flows, handled by two processors: each pair in the other order, 3 us apart. */
TEST(test_stamps_out_of_order_count_no_time_twice)
{
	u64 start_us;
	u32 i;

	open_quiet();
	start_us = l.c.clock_us;
	for (i = 0; i < 1000; i++) {
		l.ack.now_us += 13;
		rtcp_client_on_ack(&l.c, &l.p, &l.ack);
		l.ack.now_us -= 3;
		rtcp_client_on_ack(&l.c, &l.p, &l.ack);
	}
	CHECK_EQ(l.c.clock_us - start_us, 10003);
}

TEST(test_a_suspended_machine_begins_a_transfer)
{
	open_limited(&l, 707600, 249780);
	run_limited(&l, 5 * SECOND);
	check_operator_1();
	l.ack.now_us += 3600 * (u64)SECOND;
	give_ack(&l, 0, 10, 0);
	CHECK_EQ(l.c.fit.count, 0);
	CHECK_EQ(l.c.acked_bytes, 0);
	check_operator_1();
	/* The bucket has filled meanwhile. */
	CHECK_EQ(rtcp_tokens(&l.c), l.c.bucket_bytes - 10 * MSS);
}

TEST(test_a_new_mss_does_not_matter)
{
	open_limited(&l, 707600, 249780);
	run_limited(&l, 300 * MS);
	l.ack.mss_bytes = 536;
	run_limited(&l, 1 * SECOND);
	l.ack.mss_bytes = 8948;
	run_limited(&l, 5 * SECOND);
	check_operator_1();
}

TEST(test_acks_for_bursts_do_not_matter)
{
	static const u32 step_us[] = { 500, 10 * MS, 36 * MS, 200 * MS };

	FOR_ROWS(step_us) {
		open_limited(&l, 707600, 249780);
		l.step_us = *c;
		run_limited(&l, 10 * SECOND);
		check_operator_1();
	}
}

/* A clock of 4 ms, as jiffies have it, and ACKs up to 8 ms late. */
TEST(test_a_coarse_clock_and_jitter_do_not_matter)
{
	struct dice d = { 5 };
	u64 exact_us;
	u32 i;

	open_limited(&l, 707600, 249780);
	for (i = 0, exact_us = 0; i < 2500; i++) {
		u64 now_us, before = l.given_bytes;
		u32 pkts;

		exact_us += 4 * MS;
		l.t_us = exact_us > 8 * MS ? exact_us - dice_below(&d, 8 * MS) : exact_us;
		if (limited_bytes(&l) <= before)
			continue;
		pkts = (u32)((limited_bytes(&l) - before) / MSS);
		l.given_bytes += (u64)pkts * MSS;
		now_us = SECOND + exact_us / 4000 * 4000;
		if (pkts)
			give_ack(&l, (u32)(now_us - l.ack.now_us), pkts, lost_beside(&l, pkts));
	}
	check_operator_1();
}

TEST(test_a_long_transfer_ends_before_its_numbers_do)
{
	u32 i;

	open_limited(&l, 707600, 249780);
	run_limited(&l, 10 * SECOND);
	for (i = 0; i < 20000; i++)
		give_ack(&l, 60 * SECOND, 60 * 172, 0);	/* 14 days at R */
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
	CHECK(is_within(l.c.bytes_per_s, 249780, 5));
	CHECK(rtcp_transfer_us(&l.c) < RTCP_MAX_US);
	for (i = 0; i < 5000; i++)
		give_ack(&l, 1 * MS, CCA_MAX_PKTS, 0);
	CHECK(l.c.acked_bytes < RTCP_MAX_BYTES);
}

/* --- later transfers, tokens, un-detection ------------------------------------------------------ */

static void open_found(void)
{
	open_limited(&l, 707600, 249780);
	run_limited(&l, 20 * SECOND);
	check_operator_1();
}

/* Equations 19, 20: what is left and what idle time brings, at most B. */
TEST(test_tokens_gather_while_idle_up_to_b)
{
	u64 left;

	open_found();
	left = rtcp_tokens(&l.c);
	CHECK(left < 20000);
	next_transfer(&l, 2 * SECOND, 0);
	CHECK(is_within(rtcp_tokens(&l.c), left + 2ull * l.c.bytes_per_s, 1));
	next_transfer(&l, 60 * SECOND, 0);
	CHECK_EQ(rtcp_tokens(&l.c), l.c.bucket_bytes);
	give_ack(&l, 10 * MS, 100, 0);
	CHECK_EQ(rtcp_tokens(&l.c), l.c.bucket_bytes - 100 * MSS);
}

TEST(test_a_loss_takes_tokens_and_heavy_loss_takes_all)
{
	u64 before;

	open_found();
	next_transfer(&l, 60 * SECOND, 0);
	before = rtcp_tokens(&l.c);
	give_ack(&l, 0, 50, 1);
	CHECK_EQ(before - rtcp_tokens(&l.c), 50 * MSS + RTCP_LOSS_WEIGHT * MSS);
	CHECK_EQ(l.c.heavy_losses, 0);
	give_ack(&l, 0, 10, 30);
	CHECK_EQ(rtcp_tokens(&l.c), 0);
	CHECK(l.c.heavy_losses > 0);
}

/* A transfer that met a bucket half full does not make it smaller; one that met a full one larger. */
TEST(test_b_is_the_largest_of_all_transfers)
{
	u64 half;

	open_limited(&l, 350000, 249780);
	run_limited(&l, 20 * SECOND);
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
	half = l.c.bucket_bytes;
	CHECK(is_within(half, 350000, 12));
	next_transfer(&l, 10 * SECOND, 707600);
	run_limited(&l, 20 * SECOND);
	check_operator_1();
	next_transfer(&l, 1 * SECOND, 300000);
	run_limited(&l, 20 * SECOND);
	check_operator_1();
}

TEST(test_more_than_there_are_tokens_for_is_a_change)
{
	u8 changes;

	open_found();
	run_limited(&l, 60 * SECOND);
	changes = l.c.changes;
	run_limited(&l, 1 * SECOND);
	CHECK_EQ(l.c.changes, changes);
	give_ack(&l, 4 * MS, 30, 0);
	CHECK_EQ((u8)(l.c.changes - changes), 1);
	CHECK_EQ(rtcp_tokens(&l.c), 0);
}

/* Two packets and 4 ms of R; eight packets where a window is what is capped. */
TEST(test_what_counts_as_noise)
{
	open_found();
	CHECK_EQ(rtcp_noise_bytes(&l.c), 2 * MSS + l.c.bytes_per_s / 256);
	l.c.windowed = true;
	CHECK_EQ(rtcp_noise_bytes(&l.c), 8 * MSS + l.c.bytes_per_s / 256);
}

/* Two probes that end in a loss add up to no change: the bucket was empty when each lost. */
TEST(test_what_came_through_up_to_a_loss_is_forgotten)
{
	u8 changes;

	for (row = 0; row < 2; row++) {
		open_found();
		l.c.token_deficit_bytes = l.c.bucket_bytes;
		changes = l.c.changes;
		give_ack(&l, 0, 2, row ? 1 : 0);
		give_ack(&l, 0, 2, 0);
		CHECK_EQ((u8)(l.c.changes - changes), row ? 0 : 1);
	}
}

/* theta is 0.6: an estimate of 0.63 of the rate before is none that cleared, one of 0.64 is. */
TEST(test_a_limit_is_cleared_by_a_sixteenth_above_theta)
{
	open_found();
	l.c.before_bytes_per_s = 1000000;
	l.c.bytes_per_s = 600000;
	CHECK(!rtcp_is_lifted(&l.c));
	l.c.bytes_per_s = 637499;
	CHECK(!rtcp_is_lifted(&l.c));
	l.c.bytes_per_s = 637500;
	CHECK(rtcp_is_lifted(&l.c));
	l.c.before_bytes_per_s = 0xffffffff;
	l.c.bytes_per_s = 0xffffffff;
	CHECK(rtcp_is_lifted(&l.c));
}

/* A limiter that is no more: another one is looked for from now on, and found. */
TEST(test_a_released_client_is_as_new_and_finds_the_next_limiter)
{
	open_found();
	rtcp_release(&l.c);
	CHECK_EQ(l.c.kind, RTCP_UNKNOWN);
	CHECK_EQ(rtcp_tokens(&l.c), 0);
	CHECK_EQ(rtcp_transfer_us(&l.c), 0);
	l.bucket_bytes = 300000;
	l.bytes_per_s = 500000;
	l.t_us = l.given_bytes = 0;
	run_limited(&l, 20 * SECOND);
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
	CHECK(is_within(l.c.bytes_per_s, 500000, 5));
	CHECK(is_within(l.c.bucket_bytes, 300000, 12));
}

/* Section 4.4: R grows beyond theta R_h, and no limiter is looked for again. */
TEST(test_a_lifted_limit_is_cleared_for_good)
{
	u32 i;

	open_found();
	for (i = 0; i < 2500; i++)
		give_ack(&l, 4 * MS, 14, 0);	/* 40 Mbit/s */
	CHECK_EQ(l.c.kind, RTCP_CLEARED);
	next_transfer(&l, 10 * SECOND, 707600);
	run_limited(&l, 20 * SECOND);
	CHECK_EQ(l.c.kind, RTCP_CLEARED);
}

/* Without losses nothing triggers in a later transfer; that the limit is gone is a change, over and over. */
TEST(test_a_limit_lifted_between_transfers_is_a_change)
{
	u32 i, changes = 0;
	u8 before;

	open_found();
	next_transfer(&l, 10 * SECOND, 0);
	for (i = 0; i < 2500; i++) {
		before = l.c.changes;
		give_ack(&l, 4 * MS, 14, 0);
		changes += before != l.c.changes;
	}
	CHECK(changes > 2000);
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
}

TEST(test_a_full_bucket_is_not_taken_for_a_lifted_limit)
{
	open_limited(&l, 350000, 249780);
	run_limited(&l, 20 * SECOND);
	l.loss_us = 0;
	next_transfer(&l, 60 * SECOND, 707600);
	run_limited(&l, 30 * SECOND);
	CHECK_EQ(l.c.kind, RTCP_LIMITED);
}
