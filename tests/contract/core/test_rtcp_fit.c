/* SPDX-License-Identifier: MIT */
/* rtcp_fit.h: candidates, rates and the best fit, against R-TCP's formulae and against areas. */
#include "rtcp_fit.h"

#include "check.h"
#include "../fuzz/fuzz.h"

static struct rtcp_fit f;
static struct rtcp_params defaults(void)
{
	struct rtcp_params p;

	cca_params_init(&p, CCA_ID_rtcp_cubic);
	return p;
}

/* What a busy limiter behind a fast link has let through, at t. */
static u64 let_through(u64 bucket_bytes, u32 bytes_per_s, u64 access_bytes_per_s, u64 t_us)
{
	u64 fast = access_bytes_per_s * t_us / 1000000, slow;

	slow = bucket_bytes + (u64)bytes_per_s * t_us / 1000000;
	return fast < slow ? fast : slow;
}

TEST(test_defaults_are_the_papers)
{
	struct rtcp_params p = defaults();

	CHECK_EQ(p.trigger_rounds, 7);
	CHECK_EQ(p.trigger_loss_permille, 200);
	CHECK_EQ(p.reduction_permille, 600);
	CHECK_EQ(p.candidates, 9);
	CHECK_EQ(p.convergence_rounds, 10);
	CHECK_EQ(p.probe_every_rounds, 20);
	CHECK_EQ(p.probe_gain_permille, 200);
}

/* Equations 34 to 36: A(t_h) = 10^6, theta = 0.6, omega = 9: B_l = 400,000, Omega = 75,000. */
TEST(test_candidates_are_those_of_appendix_f)
{
	static const u64 expected[] = { 0, 475000, 550000, 625000, 700000, 775000, 850000, 925000, 1000000 };
	struct rtcp_params p = defaults();
	u32 j;

	memset(&f, 0xa5, sizeof(f));
	rtcp_fit_begin(&f, &p, 1000000);
	CHECK_EQ(f.count, 9);
	for (j = 0; j < 9; j++)
		CHECK_EQ(rtcp_bucket(&f, j), expected[j]);
}

/* Equations 9 and 10: at t = 2 s, r_1 = (10^6 - 475,000) / 2 s; a later, lower quotient changes nothing. */
TEST(test_rates_are_the_largest_quotients)
{
	struct rtcp_params p = defaults();

	rtcp_fit_begin(&f, &p, 1000000);
	rtcp_fit_raise(&f, 1000000, rtcp_q20s(2000000));
	CHECK_EQ(f.rate_bytes_per_s[0], 500000);
	CHECK_EQ(f.rate_bytes_per_s[1], 262500);
	CHECK_EQ(f.rate_bytes_per_s[8], 0);
	rtcp_fit_raise(&f, 1100000, rtcp_q20s(4000000));
	CHECK_EQ(f.rate_bytes_per_s[1], 262500);
	CHECK_EQ(f.rate_bytes_per_s[8], 25000);
}

/* Equation 11: lines of b = 475,000 and 550,000 that are 37,500 bytes/s apart meet at 2 s. */
TEST(test_theorem_1_turns_at_twice_the_meeting_point)
{
	struct rtcp_params p = defaults();

	rtcp_fit_begin(&f, &p, 1000000);
	f.rate_bytes_per_s[1] = 137500;
	f.rate_bytes_per_s[2] = 100000;
	CHECK(rtcp_smaller_fits(&f, 2, rtcp_q20s(3999000)));
	CHECK(!rtcp_smaller_fits(&f, 2, rtcp_q20s(4001000)));
	f.rate_bytes_per_s[2] = 137500;
	CHECK(rtcp_smaller_fits(&f, 2, rtcp_q20s(RTCP_MAX_US)));
	f.rate_bytes_per_s[2] = 140000;
	CHECK(rtcp_smaller_fits(&f, 2, rtcp_q20s(RTCP_MAX_US)));
}

/* Equation 5, less the area below A, which all have in common: b t + r t^2 / 2. */
static long double area(const struct rtcp_fit *f, u32 j, long double t_s)
{
	return (long double)rtcp_bucket(f, j) * t_s +
	       (long double)f->rate_bytes_per_s[j] * t_s * t_s / 2;
}

/* Any growing A(t), from before the trigger on: the one chosen leaves the least area (Theorem 2). */
TEST(test_the_best_fit_leaves_the_least_area)
{
	struct dice d = { 7 };
	struct rtcp_params p = defaults();
	u32 compared = 0;

	for (row = 1; row <= 400; row++) {
		u64 t_us = 100000 + dice_below(&d, 1000000), acked = 100000 + dice_below(&d, 3000000);
		u32 i, j;

		p.candidates = 5 + dice_below(&d, 13);
		rtcp_fit_begin(&f, &p, acked);
		for (i = 0; i < 200; i++) {
			u64 q20s = rtcp_q20s(t_us);
			long double t_s = (long double)q20s / (1 << 20);

			rtcp_fit_raise(&f, acked, q20s);
			rtcp_fit_choose(&f, q20s);
			for (j = 0; j < f.count; j++)
				CHECK(area(&f, f.best, t_s) <= area(&f, j, t_s) * 1.00001L + 2 * t_s * t_s);
			compared += f.best && f.best + 1u < f.count;
			t_us += 1000 + dice_below(&d, 60000);
			acked += dice_one_in(&d, 10) ? dice_below(&d, 60000) : dice_below(&d, 3000);
		}
	}
	row = 0;
	CHECK(compared > 1000);
}

/*
 * B 4 KB to 3 MB, R 0.2 to 20 Mbit/s, triggered some time behind the bucket's end: from 2 t_h on
 * (2.2 t_h where B is below b_1) b is off by at most Omega and r by at most 2 Omega / t, where B is
 * within the range of candidates. A packet of slack, for A(t) moves by whole ones.
 */
TEST(test_a_limiter_is_found_within_the_stated_errors)
{
	struct dice d = { 11 };
	struct rtcp_params p = defaults();
	u32 found = 0;

	for (row = 1; row <= 600; row++) {
		u64 bucket = 4000 + dice_below(&d, 2996000), access = 12500000, t_us, end_us, trigger_us;
		u32 rate = 25000 + dice_below(&d, 2475000);

		end_us = bucket * 1000000 / (access - rate);
		trigger_us = end_us + 20000 + dice_below(&d, 400000);
		rtcp_fit_begin(&f, &p, let_through(bucket, rate, access, trigger_us));
		if (bucket < rtcp_bucket(&f, 1) - f.step_bytes)
			continue;
		found++;
		for (t_us = trigger_us; t_us < 20 * trigger_us; t_us += 3000) {
			u64 acked = let_through(bucket, rate, access, t_us), step = f.step_bytes;
			u64 error = 2 * step * 1000000 / t_us + 1448 * 1000000ull / t_us + 2;

			rtcp_fit_on_ack(&f, acked, rtcp_q20s(t_us));
			CHECK(rtcp_fit_line(&f, rtcp_q20s(t_us)) + 1 >= acked);
			if (t_us < (bucket < rtcp_bucket(&f, 1) ? 22u : 20u) * trigger_us / 10 + 3000)
				continue;
			CHECK(rtcp_fit_bucket(&f) + step + 1448 >= bucket);
			CHECK(rtcp_fit_bucket(&f) <= bucket + step + 1448);
			CHECK(rtcp_fit_rate(&f) + error >= rate);
			CHECK(rtcp_fit_rate(&f) <= rate + error);
		}
	}
	row = 0;
	CHECK(found > 150);
}

/* Triggered early, by losses of other causes: the range follows the bucket up. */
TEST(test_a_premature_range_is_extended)
{
	struct rtcp_params p = defaults();
	u64 t_us, bucket = 733000, access = 6250000;
	u32 rate = 250000;

	rtcp_fit_begin(&f, &p, let_through(bucket, rate, access, 50000));
	CHECK(rtcp_bucket(&f, 8) < bucket / 2);
	for (t_us = 50000; t_us < 60000000; t_us += 2000) {
		rtcp_fit_on_ack(&f, let_through(bucket, rate, access, t_us), rtcp_q20s(t_us));
		if (t_us > 8000000)
			CHECK(rtcp_fit_rate(&f) <= rate * 125 / 100);
	}
	CHECK(!f.from_zero);
	CHECK(rtcp_fit_bucket(&f) > 450000 && rtcp_fit_bucket(&f) <= bucket + 2 * f.step_bytes);
	CHECK(rtcp_fit_rate(&f) >= rate * 95 / 100 && rtcp_fit_rate(&f) <= rate * 105 / 100);
}

TEST(test_an_ack_extends_the_range_by_a_few_steps_at_most)
{
	struct rtcp_params p = defaults();
	u64 low, j;

	rtcp_fit_begin(&f, &p, 100000);
	low = f.low_bytes;
	/* Steep rates of old make the largest bucket fit best, however much is added. */
	for (j = 0; j < 9; j++)
		f.rate_bytes_per_s[j] = (u32)(1000000000u - j * 100000000u);
	rtcp_fit_on_ack(&f, 1000000000, rtcp_q20s(600000000));
	CHECK(f.low_bytes > low);
	CHECK(f.low_bytes <= low + RTCP_EXTENSIONS * f.step_bytes);
	CHECK(rtcp_bucket(&f, 8) <= 1000000000);
}

TEST(test_no_candidate_is_beyond_what_was_acknowledged)
{
	struct rtcp_params p = defaults();
	u32 i;

	rtcp_fit_begin(&f, &p, 100000);
	f.rate_bytes_per_s[7] = 4000000000u;
	for (i = 0; i < 1000; i++)
		rtcp_fit_on_ack(&f, 100000, rtcp_q20s(1000000 + i));
	CHECK_EQ(rtcp_bucket(&f, 8), 100000);
}

TEST(test_arithmetic_holds_at_its_bounds)
{
	struct rtcp_params p = defaults();

	CHECK_EQ(rtcp_q20s(0), 0);
	CHECK_EQ(rtcp_q20s(1000000), 1u << 20);
	CHECK_EQ(rtcp_q20s(~0ull), rtcp_q20s(RTCP_MAX_US));
	CHECK_EQ(rtcp_carried(0xffffffffu, 1u << 20), 0xffffffffu);
	CHECK_EQ(rtcp_carried_us(1000, 1500000), 1500);
	CHECK(rtcp_carried(0xffffffffu, rtcp_q20s(RTCP_MAX_US)) > 1ull << 52);
	CHECK_EQ(rtcp_rate(1000, 0), 1000u << 20);
	CHECK_EQ(rtcp_rate(~0ull, 1), RTCP_MAX_BYTES_PER_S);
	CHECK_EQ(rtcp_rate(0, 0), 0);
	CHECK_EQ(rtcp_rate(1000, 1u << 20), 1000);
	CHECK_EQ(rtcp_rate(1, 3u << 20), 1);
	rtcp_fit_begin(&f, &p, 0);
	CHECK_EQ(f.step_bytes, 1);
	rtcp_fit_on_ack(&f, 0, rtcp_q20s(RTCP_MIN_US));
	CHECK_EQ(rtcp_fit_rate(&f), 0);
	rtcp_fit_begin(&f, &p, ~0ull);
	rtcp_fit_on_ack(&f, RTCP_MAX_BYTES, rtcp_q20s(RTCP_MIN_US));
	rtcp_fit_on_ack(&f, RTCP_MAX_BYTES, rtcp_q20s(RTCP_MAX_US));
	CHECK(rtcp_fit_bucket(&f) <= RTCP_MAX_BYTES);
	p.candidates = 0;
	p.reduction_permille = 0;
	rtcp_fit_begin(&f, &p, 1000000);
	CHECK_EQ(f.count, RTCP_MIN_CANDIDATES);
}
