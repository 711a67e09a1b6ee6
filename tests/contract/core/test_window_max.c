// SPDX-License-Identifier: MIT
/* kmod/core/window_max.h: against the true maximum of the window. */
#include "window_max.h"

#include "check.h"

#define STEPS 4000u

static struct cca_window_max m;
static u64 true_max(const u64 *values, const u32 *at, u32 newest, u32 window)
{
	u64 most = 0;
	u32 i;

	for (i = 0; i <= newest; i++)
		if (at[newest] - at[i] <= window)
			most = cca_max_u64(most, values[i]);
	return most;
}

TEST(the_result_lies_between_the_newest_and_the_largest)
{
	static u64 values[STEPS];
	static u32 at[STEPS];
	u32 seed = 7, window, i;

	for (window = 1; window <= 40; window += 13) {
		/* The counter wraps within the run. */
		u32 now = 0u - 500u;

		row = (int)window;
		cca_max_reset(&m, now, 0);
		for (i = 0; i < STEPS; i++) {
			now += cca_draw(&seed) % 3;
			at[i] = now;
			values[i] = cca_draw(&seed) % 1000;
			cca_max_add(&m, window, now, values[i]);
			CHECK(cca_max_of(&m) >= values[i]);
			CHECK(cca_max_of(&m) <= true_max(values, at, i, window));
			CHECK(m.best[0].value >= m.best[1].value);
			CHECK(m.best[1].value >= m.best[2].value);
		}
	}
}

TEST(a_peak_is_kept_for_the_window_and_no_longer)
{
	u32 i;

	cca_max_reset(&m, 100, 0);
	cca_max_add(&m, 10, 100, 500);
	for (i = 101; i <= 110; i++)
		CHECK_EQ(cca_max_add(&m, 10, i, 300), 500);
	CHECK_EQ(cca_max_add(&m, 10, 111, 300), 300);
}

TEST(values_that_fall_by_steps_follow_each_other)
{
	u32 i;

	cca_max_reset(&m, 0, 0);
	for (i = 0; i < 60; i++)
		cca_max_add(&m, 10, i, 1000 - i);
	/* The true maximum is 1000 - 49; three samples know the window in thirds. */
	CHECK(cca_max_of(&m) >= 1000 - 59 && cca_max_of(&m) <= 1000 - 49);
}

TEST(a_long_gap_forgets_all)
{
	cca_max_reset(&m, 0, 900);
	cca_max_add(&m, 10, 4, 800);
	cca_max_add(&m, 10, 7, 700);
	CHECK_EQ(cca_max_of(&m), 900);
	CHECK_EQ(cca_max_add(&m, 10, 30, 5), 5);
	CHECK_EQ(m.best[2].value, 5);
}

TEST(two_that_grow_old_at_once_are_dropped_together)
{
	cca_max_reset(&m, 0, 900);
	cca_max_add(&m, 10, 1, 800);
	cca_max_add(&m, 10, 9, 700);
	CHECK_EQ(cca_max_add(&m, 10, 12, 600), 700);
}

/* The second best is of a later quarter of the window, the third of a later half. */
TEST(lower_values_are_kept_for_when_the_maximum_grows_old)
{
	cca_max_reset(&m, 0, 900);
	CHECK_EQ(cca_max_add(&m, 40, 12, 100), 900);
	CHECK_EQ(cca_max_add(&m, 40, 35, 50), 900);
	CHECK_EQ(cca_max_add(&m, 40, 41, 10), 100);
	CHECK_EQ(cca_max_add(&m, 40, 53, 5), 50);
}
