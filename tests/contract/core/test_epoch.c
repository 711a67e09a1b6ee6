// SPDX-License-Identifier: MIT
/* kmod/core/epoch.h: PQSA equations 1, 2 and 6, and its rule of re-optimisation. */
#include "epoch.h"

#include "check.h"

#define MSS 1000u			/* a packet a millisecond is 1,000,000 bytes/s */
#define MS 1000u
#define SECOND 1000000u
#define EPOCH_MS 2000u
#define ESTIMATE_MS 250u
#define TARGET_US 100000u

/* Forty levels of 125,000 bytes/s; class 0: 95th percentile 50 ms, class 1: 100 ms. */
static struct ens_table table_of(u64 generation, u32 epsilon_pct)
{
	struct ens_table t = {
		.generation = generation, .epoch_ms = EPOCH_MS, .estimate_ms = ESTIMATE_MS,
		.epsilon_pct = epsilon_pct, .n_axes = 1, .axis = { { .step = 125000, .count = 40 } },
		.n_classes = 2, .classes = { { 95, TARGET_US / 2 }, { 95, TARGET_US } },
	};

	return t;
}

struct flow {
	struct ens_clock c;
	struct cca_ack ack;
};

static struct flow f;
static void open_flow(struct flow *f)
{
	struct cca_start start = { SECOND, 0, 10, 0xfffffff0u, MSS };

	memset(f, 0xa5, sizeof(*f));
	memset(&f->ack, 0, sizeof(f->ack));
	f->ack.now_us = start.now_us;
	f->ack.delivered_pkts = start.delivered_pkts;
	f->ack.mss_bytes = MSS;
	f->ack.rtt_us = 1;
	ens_clock_init(&f->c, &start, 1);
}

static void take_acks(struct flow *f, u32 count, u32 gap_us, u32 delay_us)
{
	while (count--) {
		f->ack.now_us += gap_us;
		f->ack.delivered_pkts++;
		ens_clock_on_ack(&f->c, &f->ack, delay_us);
	}
}

static enum ens_epoch_end end_epoch(struct flow *f, const struct ens_table *t)
{
	struct ens_values values = {};

	values.is_new = ens_clock_measured(&f->c);
	values.axis[0] = f->c.measured_bytes_per_s;
	return ens_clock_end_epoch(&f->c, t, f->ack.now_us, &values);
}

/* Epoch 0 behind the flow: state 8 from 1,000,000 bytes/s. */
static void open_epoch_1(struct flow *f, const struct ens_table *t)
{
	open_flow(f);
	take_acks(f, 500, MS, 0);
	CHECK_EQ(end_epoch(f, t), ENS_LOOKED_UP);
	CHECK_EQ(f->c.state, 8);
	CHECK_EQ(f->c.epoch, 1);
}

/* Eq. 1 over the last 250 ms; eq. 6: epoch 0 may be shorter, then over all of it. */
TEST(the_estimate_is_what_was_acknowledged_over_the_window)
{
	static const struct { u32 gap_us, count; u64 bytes_per_s; } cases[] = {
		{ 1000, 500, 1000000 },
		{ 1000, 100, 1000000 },		/* 100 ms in all */
		{ 100, 9000, 10000000 },
		{ 300000, 3, 3333 },		/* less than an ACK a window */
		{ 8000, 1, 125000 },
		{ 1000, 1, 0 },			/* the first burst goes on: gamma P / 32 is 7.8 ms */
		{ 1000, 0, 0 },
	};

	FOR_ROWS(cases) {
		open_flow(&f);
		take_acks(&f, 1, 0, 0);
		take_acks(&f, c->count, c->gap_us, 0);
		CHECK_EQ(ens_clock_measure(&f.c), c->bytes_per_s);
	}
}

TEST(the_estimate_forgets_what_is_older_than_its_window)
{
	open_flow(&f);
	take_acks(&f, 5000, 100, 0);
	take_acks(&f, 266, MS, 0);	/* gamma P, and a burst of 1/32 of it at each end */
	CHECK_EQ(ens_clock_measure(&f.c), 1000000);
}

TEST(epoch_0_ends_with_slow_start_and_others_with_their_time)
{
	struct ens_table t = table_of(1, 25);

	open_flow(&f);
	CHECK(!ens_clock_is_due(&f.c, SECOND + 10, true));
	CHECK(!ens_clock_is_due(&f.c, SECOND + 10, false));	/* nothing was measured yet */
	take_acks(&f, 2, 40 * MS, 0);
	CHECK(!ens_clock_is_due(&f.c, SECOND + 10, true));
	CHECK(ens_clock_is_due(&f.c, SECOND + 10, false));
	CHECK(!ens_clock_is_due(&f.c, SECOND + 30 * SECOND - 1, true));
	CHECK(ens_clock_is_due(&f.c, SECOND + 30 * SECOND, true));
	CHECK(!ens_clock_is_due(&f.c, 0, true));	/* a clock that stepped back */
	open_epoch_1(&f, &t);
	CHECK(!ens_clock_is_due(&f.c, f.ack.now_us + EPOCH_MS * MS - 1, false));
	CHECK(!ens_clock_is_due(&f.c, f.ack.now_us + EPOCH_MS * MS - 1, true));
	CHECK(ens_clock_is_due(&f.c, f.ack.now_us + EPOCH_MS * MS, false));
}

TEST(the_state_is_equation_2_of_the_estimate)
{
	static const struct { u32 gap_us; u32 state; } cases[] = {
		{ 8000, 1 }, { 8001, 0 }, { 1000, 8 }, { 800, 10 }, { 801, 9 },
		{ 205, 39 }, { 100, 39 }, { 1, 39 },
	};
	struct ens_table t = table_of(1, 25);

	FOR_ROWS(cases) {
		open_flow(&f);
		take_acks(&f, 1000000 / c->gap_us + 2, c->gap_us, 0);
		CHECK_EQ(end_epoch(&f, &t), ENS_LOOKED_UP);
		CHECK_EQ(f.c.state, c->state);
	}
}

/* Without classes there is no target: each epoch looks its row up. */
TEST(a_table_without_classes_has_no_rule_of_epsilon)
{
	struct ens_table t = table_of(1, 25);

	t.n_classes = 0;
	t.epsilon_pct = 0;
	open_epoch_1(&f, &t);
	take_acks(&f, 2000, MS, 10 * TARGET_US);
	CHECK_EQ(end_epoch(&f, &t), ENS_LOOKED_UP);
	take_acks(&f, 2000, MS, 0);
	CHECK_EQ(end_epoch(&f, &t), ENS_LOOKED_UP);
	CHECK_EQ(f.c.state, 8);
}

TEST(epsilon_gives_two_limits)
{
	static const struct { u32 epsilon_pct, target_us, high_us, low_us, percentile; } cases[] = {
		{ 25, 100000, 125000, 75000, 95 },
		{ 0, 100000, 100000, 100000, 0 },	/* the rule is switched off */
		{ 100, 100000, 200000, 0, 95 },
		{ 101, 100000, 201000, 0, 95 },
		{ 1000, 60000000, 660000000, 0, 95 },
		{ 1, 1, 1, 0, 95 },
		{ 25, 3, 3, 2, 95 },
	};

	FOR_ROWS(cases) {
		struct ens_table t = table_of(1, c->epsilon_pct);

		t.classes[1].queueing_delay_us = c->target_us;
		open_epoch_1(&f, &t);
		CHECK_EQ(f.c.high_us, c->high_us);
		CHECK_EQ(f.c.low_us, c->low_us);
		CHECK_EQ(f.c.percentile, c->percentile);
		CHECK_EQ(f.c.estimate_us, ESTIMATE_MS * MS);
	}
}

/* 95th percentile against 100 ms. Between the limits: kept, above: looked up, below: one up. */
TEST(the_percentile_decides_exactly)
{
	static const struct {
		u32 epsilon_pct;
		u32 below, between, above;	/* samples at 75 ms, at 125 ms, at 125.001 ms */
		enum ens_epoch_end epoch_end;
	} cases[] = {
		{ 25, 1000, 0, 0, ENS_RAISED },
		{ 25, 950, 0, 50, ENS_RAISED },		/* q is the 95th of a hundred */
		{ 25, 949, 1, 50, ENS_KEPT },
		{ 25, 949, 0, 51, ENS_LOOKED_UP },
		{ 25, 0, 1000, 0, ENS_KEPT },
		{ 25, 0, 950, 50, ENS_KEPT },
		{ 25, 0, 949, 51, ENS_LOOKED_UP },
		{ 25, 0, 0, 1000, ENS_LOOKED_UP },
		{ 0, 1000, 0, 0, ENS_LOOKED_UP },	/* epsilon 0: always */
		{ 0, 0, 1000, 0, ENS_LOOKED_UP },
	};

	FOR_ROWS(cases) {
		struct ens_table t = table_of(1, c->epsilon_pct);

		open_epoch_1(&f, &t);
		take_acks(&f, c->below, MS / 2, 75000);
		take_acks(&f, c->between, MS / 2, 125000);
		take_acks(&f, c->above, MS / 2, 125001);
		CHECK_EQ(end_epoch(&f, &t), c->epoch_end);
		/* 2,000,000 bytes/s are level 16; 8 was the state before. */
		CHECK_EQ(f.c.state, c->epoch_end == ENS_KEPT ? 8 : c->epoch_end == ENS_RAISED ? 17 : 16);
		CHECK_EQ(f.c.measured_bytes_per_s, 2000000);
		CHECK_EQ(f.c.epoch, 2);
	}
}

TEST(the_highest_level_is_not_raised)
{
	struct ens_table t = table_of(1, 25);

	open_epoch_1(&f, &t);
	take_acks(&f, 9000, 100, 0);
	CHECK_EQ(end_epoch(&f, &t), ENS_RAISED);
	CHECK_EQ(f.c.state, 39);
}

/* Level 8 is measured throughout: 9, 10 and 11 follow, a kept row counts for nothing, a look-up begins anew. */
TEST(raises_in_a_row_climb_from_the_level_measured)
{
	struct ens_table t = table_of(1, 25);
	u32 i;

	open_epoch_1(&f, &t);
	for (i = 1; i <= 3; i++) {
		take_acks(&f, 500, MS, 0);
		CHECK_EQ(end_epoch(&f, &t), ENS_RAISED);
		CHECK_EQ(f.c.state, 8 + i);
	}
	take_acks(&f, 500, MS, 100000);
	CHECK_EQ(end_epoch(&f, &t), ENS_KEPT);
	CHECK_EQ(f.c.state, 11);
	take_acks(&f, 2000, 4 * MS, 0);		/* a slower link: level 2 */
	CHECK_EQ(end_epoch(&f, &t), ENS_RAISED);
	CHECK_EQ(f.c.state, 6);
	take_acks(&f, 500, MS, 500000);
	CHECK_EQ(end_epoch(&f, &t), ENS_LOOKED_UP);
	CHECK_EQ(f.c.state, 8);
	take_acks(&f, 500, MS, 0);
	CHECK_EQ(end_epoch(&f, &t), ENS_RAISED);
	CHECK_EQ(f.c.state, 9);
	for (i = 0; i < 100; i++) {
		take_acks(&f, 500, MS, 0);
		end_epoch(&f, &t);
	}
	CHECK_EQ(f.c.state, 39);
	CHECK_EQ(f.c.raises, ENS_MAX_LEVELS);
}

TEST(samples_are_of_their_own_epoch)
{
	struct ens_table t = table_of(1, 25);

	open_epoch_1(&f, &t);
	take_acks(&f, 2000, MS, 500000);
	CHECK_EQ(end_epoch(&f, &t), ENS_LOOKED_UP);
	take_acks(&f, 500, MS, 0);
	CHECK_EQ(end_epoch(&f, &t), ENS_RAISED);
	/* Without one there is nothing to judge by. */
	f.ack.rtt_us = 0;
	take_acks(&f, 500, MS, 0);
	CHECK_EQ(f.c.samples, 0);
	CHECK_EQ(end_epoch(&f, &t), ENS_LOOKED_UP);
}

TEST(the_count_of_samples_is_bounded)
{
	struct ens_table t = table_of(1, 25);

	open_epoch_1(&f, &t);
	f.c.samples = f.c.within_high = f.c.within_low = CCA_MAX_PKTS - 1;
	take_acks(&f, 3, MS, 0);
	CHECK_EQ(f.c.samples, CCA_MAX_PKTS);
	CHECK_EQ(f.c.within_high, CCA_MAX_PKTS);
	CHECK_EQ(end_epoch(&f, &t), ENS_RAISED);	/* 2^24 x 100 does not wrap */
}

/* --- tables that come and go ------------------------------------------------ */

TEST(without_a_table_there_is_no_state)
{
	struct ens_table t = table_of(1, 25);

	open_flow(&f);
	take_acks(&f, 500, MS, 0);
	CHECK_EQ(end_epoch(&f, NULL), ENS_KEPT);
	CHECK_EQ(f.c.state, ENS_NO_STATE);
	CHECK_EQ(f.c.measured_bytes_per_s, 1000000);	/* measured all the same */
	CHECK_EQ(f.c.epoch_us, 30 * SECOND);
	take_acks(&f, 500, MS, 0);
	CHECK_EQ(end_epoch(&f, &t), ENS_LOOKED_UP);
	CHECK_EQ(f.c.state, 8);
	take_acks(&f, 500, MS, 0);
	CHECK_EQ(end_epoch(&f, NULL), ENS_KEPT);
	CHECK_EQ(f.c.state, ENS_NO_STATE);
}

TEST(a_new_table_is_looked_up_whatever_the_delay)
{
	struct ens_table one = table_of(1, 25), two = table_of(2, 25);

	two.axis[0].count = 4;
	open_epoch_1(&f, &one);
	take_acks(&f, 500, MS, 100000);		/* would be kept */
	CHECK_EQ(end_epoch(&f, &two), ENS_LOOKED_UP);
	CHECK_EQ(f.c.state, 3);
	CHECK_EQ(f.c.generation, 2);
	/* Nothing measured since: the last estimate counts in the new table. */
	CHECK_EQ(end_epoch(&f, &one), ENS_LOOKED_UP);
	CHECK_EQ(f.c.state, 8);
}

TEST(nothing_measured_keeps_the_row)
{
	struct ens_table t = table_of(1, 25);

	open_flow(&f);
	CHECK_EQ(end_epoch(&f, &t), ENS_KEPT);
	CHECK_EQ(f.c.state, ENS_NO_STATE);
	CHECK_EQ(f.c.measured_bytes_per_s, 0);
	CHECK_EQ(f.c.epoch_us, EPOCH_MS * MS);		/* the table's times count all the same */
	take_acks(&f, 500, MS, 0);
	CHECK_EQ(end_epoch(&f, &t), ENS_LOOKED_UP);
	CHECK_EQ(f.c.state, 8);
	open_epoch_1(&f, &t);
	f.ack.app_limited = 1;
	take_acks(&f, 1, MS, 500000);
	ens_clock_start_epoch(&f.c, f.ack.now_us);	/* what was whole was of the epoch before */
	take_acks(&f, 500, MS, 500000);
	CHECK_EQ(ens_clock_measure(&f.c), 0);
	CHECK_EQ(end_epoch(&f, &t), ENS_KEPT);
	CHECK_EQ(f.c.state, 8);
}

/* --- application-limited time and silence --------------------------------------- */

TEST(application_limited_time_is_not_measured)
{
	struct ens_table t = table_of(1, 25);

	open_epoch_1(&f, &t);
	take_acks(&f, 600, MS / 2, 0);			/* 2,000,000 bytes/s, whole */
	f.ack.app_limited = 1;
	take_acks(&f, 300, 10 * MS, 0);			/* 100,000 that the application chose */
	CHECK_EQ(ens_clock_measure(&f.c), 2000000);
	f.ack.app_limited = 0;
	take_acks(&f, 100, MS, 0);			/* too short to be whole */
	CHECK_EQ(ens_clock_measure(&f.c), 2000000);
	take_acks(&f, 200, MS, 0);
	CHECK_EQ(ens_clock_measure(&f.c), 1000000);
}

TEST(application_limited_samples_are_not_judged)
{
	struct ens_table t = table_of(1, 25);

	open_epoch_1(&f, &t);
	take_acks(&f, 500, MS, 100000);
	f.ack.app_limited = 1;
	take_acks(&f, 5000, MS / 10, 0);
	CHECK_EQ(f.c.samples, 500);
	CHECK_EQ(end_epoch(&f, &t), ENS_KEPT);
}

TEST(a_silence_is_not_measured)
{
	struct ens_table t = table_of(1, 25);

	open_epoch_1(&f, &t);
	take_acks(&f, 600, MS / 2, 0);
	f.ack.now_us += 10 * SECOND;
	ens_clock_on_restart(&f.c);
	CHECK_EQ(ens_clock_measure(&f.c), 2000000);
	f.ack.now_us += 90 * MS;			/* a round trip before the first ACK */
	take_acks(&f, 266, MS, 0);
	CHECK_EQ(ens_clock_measure(&f.c), 1000000);
	/* A silence right behind another leaves what was whole. */
	ens_clock_on_restart(&f.c);
	ens_clock_on_restart(&f.c);
	CHECK_EQ(ens_clock_measure(&f.c), 1000000);
}

/* ACKs of ten packets: the first one after the application's time counts wholly. */
TEST(the_first_burst_after_limited_time_counts)
{
	u32 i;

	open_flow(&f);
	for (i = 0; i < 12; i++) {
		f.ack.app_limited = i < 3;
		f.ack.now_us += 40 * MS;
		f.ack.acked_pkts = 10;
		f.ack.delivered_pkts += 10;
		ens_clock_on_ack(&f.c, &f.ack, 0);
	}
	CHECK_EQ(ens_clock_measure(&f.c), 250000);
}

TEST(epoch_0_that_is_cut_by_the_application_counts_its_whole_part)
{
	open_flow(&f);
	take_acks(&f, 500, MS, 0);
	ens_clock_on_restart(&f.c);
	take_acks(&f, 10, 10 * MS, 0);
	CHECK_EQ(ens_clock_measure(&f.c), 1000000);
}

TEST(a_class_beyond_the_last_is_the_last)
{
	struct ens_table t = table_of(1, 25);

	open_epoch_1(&f, &t);
	f.c.delay_class = 255;
	end_epoch(&f, &t);
	CHECK_EQ(f.c.high_us, 125000);
	f.c.delay_class = 0;
	end_epoch(&f, &t);
	CHECK_EQ(f.c.high_us, 62500);
}
