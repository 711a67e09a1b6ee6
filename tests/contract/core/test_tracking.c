// SPDX-License-Identifier: MIT
/* kmod/core/tracking.h: a flow moves the delay parameter of its row towards its class's target. */
#include "gr_flow.h"
#include "roccet_flow.h"

#include "check.h"

#define MS 1000u
#define SECOND 1000000u
#define TARGET_US 100000u
#define LATE_US (TARGET_US * 31 / 32 + 1)
#define ROW 50000u
#define MIN 1000u
#define MAX 1000000u

#define CHECK_NEAR(came, expected, most) do { \
	long long came_ = (long long)(came), expected_ = (long long)(expected); \
	CHECK(came_ - expected_ <= (most) && expected_ - came_ <= (most)); \
} while (0)

static const struct tracking_params on = { 1000, 50, 200 };

struct flow {
	struct tracking t;
	struct tracking_params p;
	struct ens_clock c;
	struct cca_ack ack;
};

static struct flow f;

static void take_row(u64 generation, u32 row_value)
{
	f.c.generation = generation;
	f.c.epoch_start_us = f.ack.now_us;
	tracking_take_row(&f.t, &f.p, &f.c, row_value);
}

static void open_flow(struct tracking_params p)
{
	memset(&f, 0, sizeof(f));
	memset(&f.t, 0xa5, sizeof(f.t));
	f.p = p;
	f.c.target_us = TARGET_US;
	f.c.target_percentile = 95;
	f.ack.now_us = SECOND;
	f.ack.acked_pkts = 1;
	f.ack.rtt_us = 1;
	tracking_restart(&f.t, &f.c);
	take_row(1, ROW);
}

static u32 value(void)
{
	return tracking_value(&f.t, MIN, MAX);
}

/*
 * `count` ACKs over `span_us`, the first `late` of which came late. Each is a part of its own.
 * Returns the steps that ended.
 */
static u32 acks(u32 count, u32 late, u32 span_us)
{
	u64 start_us = f.ack.now_us;
	struct cca_ack end;
	u32 i, steps = 0;

	for (i = 0; i < count; i++) {
		f.ack.now_us = start_us + (u64)span_us * (i + 1) / count;
		f.t.part_start_us = f.ack.now_us;
		steps += tracking_on_ack(&f.t, &f.p, &f.c, &f.ack,
					 i < late ? LATE_US : LATE_US - 1);
		f.c.acked.newest_us = f.ack.now_us;
		f.t.part_start_us = f.ack.now_us - TRACKING_PART_US;
		end = f.ack;
		end.acked_pkts = 0;
		steps += tracking_on_ack(&f.t, &f.p, &f.c, &end, 0);
	}
	return steps;
}

/* With as many packets as usual, x is the gain times the allowed share less the late share. */
TEST(a_step_moves_the_scale_by_the_share_of_late_packets)
{
	static const struct { u32 gain, percentile, late, value; } cases[] = {
		{ 1000, 95, 0, 52499 },		/* x = 0.05 */
		{ 1000, 95, 5, ROW },		/* just as many as allowed */
		{ 1000, 95, 15, 45454 },	/* x = -0.1: divided by 1.1 */
		{ 500, 95, 15, 47619 },
		{ 1000, 50, 0, 75000 },
		{ 1000, 95, 100, 25641 },	/* divided by 1.95 */
		{ 10000, 95, 100, 25000 },	/* at most halved */
		{ 10000, 50, 0, 100000 },	/* at most doubled */
	};

	FOR_ROWS(cases) {
		open_flow((struct tracking_params){ c->gain, 10, 1000 });
		f.c.target_percentile = c->percentile;
		CHECK_EQ(acks(100, c->late, SECOND), 1);
		CHECK_NEAR(value(), c->value, 1);
	}
}

/* A packet that waited longer than others of its part was held by the path, not by the queue. */
TEST(a_part_is_late_if_all_of_its_packets_are)
{
	static const struct { u32 on_time, late_pkts; } cases[] = { { 0, 40 }, { 1, 30 }, { 4, 0 } };
	u32 i;

	FOR_ROWS(cases) {
		open_flow(on);
		/*
		 * Four parts of ten ACKs, and the first ACK of a fifth one, which does not count yet.
		 * One ACK of each of the first `on_time` is on time: the last one of the part.
		 */
		f.ack.now_us += TRACKING_PART_US - MS;
		for (i = 0; i <= 40; i++) {
			f.ack.now_us += i && i % 10 == 0 ? 3 * TRACKING_PART_US : MS;
			tracking_on_ack(&f.t, &f.p, &f.c, &f.ack,
					i % 10 == 9 && i / 10 < c->on_time ? 0 : LATE_US);
		}
		CHECK_EQ(f.t.pkts, 40);
		CHECK_EQ(f.t.late_pkts, c->late_pkts);
	}
}

/* A step with a tenth of the usual packets moves the scale by a tenth. */
TEST(steps_count_by_their_packets)
{
	u32 before;

	open_flow((struct tracking_params){ 1000, 10, 1000 });
	acks(1000, 50, SECOND);
	acks(2000, 100, 2 * SECOND);
	acks(4000, 200, 4 * SECOND);
	CHECK_EQ(value(), ROW);
	before = value();
	CHECK_EQ(acks(800, 800, 8 * SECOND), 1);
	/* 7800 packets in 15 s: 4160 are usual in 8 s. */
	CHECK_NEAR(value(), before * 4160 / (4160 + 760), 20);
}

TEST(steps_become_longer_and_wait_for_enough_packets)
{
	open_flow(on);
	CHECK_EQ(acks(200, 0, 999 * MS), 0);
	CHECK_EQ(acks(1, 0, MS), 1);
	CHECK_EQ(acks(100, 0, 1999 * MS), 0);
	CHECK_EQ(acks(1, 0, MS), 1);
	CHECK_EQ(acks(400, 0, 4 * SECOND), 1);
	CHECK_EQ(acks(800, 0, 8 * SECOND), 1);
	CHECK_EQ(acks(800, 0, 8 * SECOND), 1);
	CHECK_EQ(acks(19, 0, 60 * SECOND), 0);
	CHECK_EQ(acks(1, 0, MS), 1);
}

TEST(the_scale_stays_within_its_bounds_and_the_value_within_its_range)
{
	u32 i;

	open_flow(on);
	for (i = 0; i < 100; i++)
		acks(100, 100, 8 * SECOND);
	CHECK_EQ(value(), ROW / 2);
	for (i = 0; i < 100; i++)
		acks(100, 0, 8 * SECOND);
	CHECK_EQ(value(), ROW * 2);
	CHECK_EQ(tracking_value(&f.t, MIN, 60000), 60000);
	CHECK_EQ(tracking_value(&f.t, 200000, MAX), 200000);
	f.t.row_value = 0xffffffffu;
	CHECK_EQ(tracking_value(&f.t, MIN, 0xffffffffu), 0xffffffffu);
}

/* Neither a small gain nor a small scale rounds a step away. */
TEST(the_scale_leaves_its_lower_bound)
{
	u32 i;

	open_flow((struct tracking_params){ 10, 1, 1000 });
	f.t.scale = TRACKING_ONE / 100;
	for (i = 0; i < 1000; i++)
		acks(100, 0, 8 * SECOND);
	CHECK(f.t.scale > TRACKING_ONE / 100 + 1000 * TRACKING_ONE / 100 / 2000);
}

/* Whatever row it starts from, on a link whose delay changes all the time. */
TEST(in_the_long_run_as_many_packets_come_late_as_the_class_allows)
{
	static const u32 rows[] = { ROW / 3, ROW, 3 * ROW };
	u32 step, late, seed = 1;
	u64 all, all_late;

	FOR_ROWS(rows) {
		open_flow((struct tracking_params){ 1000, 10, 1000 });
		take_row(2, *c);
		all = all_late = 0;
		for (step = 0; step < 75; step++) {	/* ten minutes */
			/* The link's delay is 1 to 3 times the value: 100 packets of each. */
			seed = seed * 1664525u + 1013904223u;
			late = value() > TARGET_US / 3 ?
				cca_min_u32((value() - TARGET_US / 3) / (TARGET_US / 1500), 1000) : 0;
			late = cca_min_u32(late * (50 + (seed >> 16) % 100) / 100, 1000);
			acks(1000, late, 8 * SECOND);
			all += 1000;
			all_late += late;
		}
		CHECK_NEAR(all_late * 1000 / all, 50, 20);
	}
}

TEST(packets_that_tell_nothing_about_the_queue_do_not_count)
{
	open_flow(on);
	f.ack.app_limited = true;
	CHECK_EQ(acks(1000, 1000, 8 * SECOND), 0);
	f.ack.app_limited = false;
	f.ack.rtt_us = 0;
	CHECK_EQ(acks(1000, 1000, 8 * SECOND), 0);
	f.ack.rtt_us = 1;
	f.c.target_us = 0;
	CHECK_EQ(acks(1000, 1000, 8 * SECOND), 0);
	CHECK_EQ(value(), ROW);
	CHECK_EQ(f.t.pkts, 0);
}

/* A flow that is idle for ten minutes of eleven steps as one that is never idle. */
TEST(the_time_in_which_the_application_limits_the_flow_does_not_count)
{
	u32 i;

	open_flow(on);
	for (i = 0; i < 5; i++) {
		f.ack.app_limited = true;
		acks(1, 0, 600 * SECOND);
		f.ack.app_limited = false;
		acks(6000, 300, 60 * SECOND);
	}
	take_row(1, ROW);
	f.t.scale = TRACKING_ONE;
	CHECK_EQ(acks(800, 0, 8 * SECOND), 1);
	CHECK_NEAR(value(), ROW * 21 / 20, 100);
}

TEST(without_a_gain_the_value_is_that_of_the_row)
{
	open_flow((struct tracking_params){ 0, 50, 200 });
	CHECK_EQ(acks(10000, 10000, 80 * SECOND), 0);
	CHECK_EQ(value(), ROW);
	f.p = on;
	take_row(1, ROW);
	acks(100, 100, SECOND);
	CHECK(value() < ROW);
	f.p.gain_permille = 0;
	take_row(1, ROW);
	CHECK_EQ(value(), ROW);
}

TEST(the_scale_remains_with_the_next_row_but_not_with_the_next_table)
{
	open_flow(on);
	acks(100, 15, SECOND);
	take_row(1, 2 * ROW);
	CHECK_NEAR(value(), 2 * ROW * 10 / 11, 2);
	take_row(2, 2 * ROW);
	CHECK_EQ(value(), 2 * ROW);
	CHECK_EQ(f.t.interval_us, TRACKING_FIRST_US);
}

/* The packets of a step are late by one target only. */
TEST(a_new_class_has_a_scale_of_its_own)
{
	open_flow(on);
	acks(100, 15, SECOND);
	acks(100, 100, SECOND);
	f.c.delay_class = 1;
	f.c.target_us = 2 * TARGET_US;
	take_row(1, ROW);
	CHECK_EQ(value(), ROW);
	CHECK_EQ(f.t.late_pkts, 0);
	CHECK_EQ(acks(100, 0, SECOND), 1);
	/* A host recalls the row of a flow that was idle for ten minutes. */
	f.ack.now_us += 600 * SECOND;
	take_row(2, ROW);
	f.ack.app_limited = true;
	acks(1, 0, MS);
	f.ack.app_limited = false;
	CHECK_EQ(acks(100, 0, SECOND), 1);
}

/* Large numbers: 2^24 packets a step, and a step after hours of silence. */
TEST(no_number_overflows)
{
	open_flow((struct tracking_params){ 10000, 1, 1000 });
	f.ack.acked_pkts = 0xffffffffu;
	CHECK_EQ(acks(3, 3, 3 * SECOND), 2);
	CHECK_EQ(value(), ROW / 4);
	f.ack.now_us += 86400ull * SECOND;
	CHECK_EQ(acks(1, 0, MS), 1);
	CHECK(value() > ROW / 4 && value() <= ROW / 2);
}

/* A table of one row, with the target TARGET_US. */
static struct ens_table table_of(u32 id, const char *const *columns, u32 n, u32 *values)
{
	struct ens_table t = {
		.generation = 1, .id = id, .epoch_ms = 30000, .estimate_ms = 250, .n_axes = 1,
		.axis = { { .step = 125000, .count = 1 } }, .n_classes = 1,
		.classes = { { 95, TARGET_US } }, .n_columns = n, .values = values,
	};
	u32 i;

	for (i = 0; i < n; i++) {
		struct cca_word word = { columns[i], (u32)strlen(columns[i]) };

		t.column[i] = cca_param_find(id, word);
		CHECK(cca_param_at(id, t.column[i])->kind != CCA_FIXED);
	}
	return t;
}

/* A flow whose round trips rise from 50 ms to 50 ms + delay; `count` ACKs, each 5 ms. */
#define DRIVE(name, flow, output, count, delay) do { \
	for (i = 0; i < (count); i++) { \
		ack.now_us += 5 * MS; \
		ack.delivered_pkts++; \
		ack.rtt_us = 50 * MS + (delay); \
		name##_flow_on_ack(&(flow), &defaults, t, &ack, &(output)); \
	} \
} while (0)

static u32 tracked_gr(u32 delay_us, bool outage)
{
	static const char *const columns[] = { "delay_threshold_us", "tracking_gain_permille" };
	u32 values[] = { ROW, 1000 }, i;
	struct ens_table table = table_of(CCA_ID_gr, columns, 2, values);
	const struct ens_table *t = &table;
	struct cca_start start = { SECOND, 0, 10, 0, 1448 };
	struct cca_ack ack = { .now_us = SECOND, .acked_pkts = 1, .inflight_pkts = 9, .mss_bytes = 1448 };
	struct cca_decision d;
	struct gr_params defaults;
	struct gr_flow g;

	cca_params_init(&defaults, CCA_ID_gr);
	memset(&g, 0xa5, sizeof(g));
	gr_flow_init(&g, &defaults, &start, 0, 0, &d);
	DRIVE(gr, g, d, 100, 0);
	gr_flow_end_epoch(&g, &defaults, t, ack.now_us);
	CHECK_EQ(g.params.delay_threshold_us, ROW);
	if (outage)
		ack.now_us += 2 * SECOND;
	DRIVE(gr, g, d, outage ? 300 : 600, delay_us);
	return g.params.delay_threshold_us;
}

TEST(gr_tracks_its_threshold_but_not_by_packets_of_an_outage)
{
	CHECK(tracked_gr(LATE_US + MS, false) < ROW);
	CHECK(tracked_gr(LATE_US - MS, false) > ROW);
	CHECK_EQ(tracked_gr(2 * SECOND, true), ROW);
}

/* Even where an operator set a gain by hand, which flows without a table use. */
TEST(a_flow_without_a_table_has_no_target_to_track)
{
	static const char *const columns[] = { "delay_threshold_us" };
	u32 values[] = { ROW }, delay_us = TARGET_US, i;
	struct ens_table table = table_of(CCA_ID_gr, columns, 1, values);
	struct cca_start start = { SECOND, 0, 10, 0, 1448 };
	struct cca_ack ack = { .now_us = SECOND, .acked_pkts = 1, .inflight_pkts = 9, .mss_bytes = 1448 };
	const struct ens_table *t = &table;
	struct gr_params defaults;
	struct cca_decision d;
	struct gr_flow g;

	cca_params_init(&defaults, CCA_ID_gr);
	defaults.tracking_gain_permille = 1000;
	gr_flow_init(&g, &defaults, &start, 0, 0, &d);
	DRIVE(gr, g, d, 100, 0);
	gr_flow_end_epoch(&g, &defaults, t, ack.now_us);
	DRIVE(gr, g, d, 600, delay_us);
	CHECK(g.params.delay_threshold_us < ROW);
	t = NULL;
	gr_flow_recall(&g, &defaults, t, ack.now_us);
	DRIVE(gr, g, d, 600, delay_us);
	CHECK_EQ(g.params.delay_threshold_us, defaults.delay_threshold_us);
}

TEST(roccet_tracks_its_bound)
{
	static const char *const columns[] = { "srrtt_bound_pct", "tracking_gain_permille" };
	u32 values[] = { 100, 1000 }, delay_us, i;
	struct ens_table table = table_of(CCA_ID_roccet, columns, 2, values);
	const struct ens_table *t = &table;
	struct cca_start start = { SECOND, 0, 10, 0, 1448 };
	struct roccet_params defaults;
	struct roccet_flow r;

	cca_params_init(&defaults, CCA_ID_roccet);
	for (delay_us = LATE_US - MS; delay_us <= LATE_US + MS; delay_us += 2 * MS) {
		struct cca_ack ack = { .now_us = SECOND, .acked_pkts = 1, .mss_bytes = 1448 };
		struct cca_window w = { .cwnd_pkts = 10, .ssthresh_pkts = 0x7fffffff };

		memset(&r, 0xa5, sizeof(r));
		roccet_flow_init(&r, &defaults, &start, 0, 0);
		DRIVE(roccet, r, w, 100, 0);
		roccet_flow_end_epoch(&r, &defaults, t, ack.now_us);
		DRIVE(roccet, r, w, 600, delay_us);
		CHECK_EQ(r.params.srrtt_bound_pct > 100, delay_us < LATE_US);
		CHECK(r.params.srrtt_bound_pct != 100);
	}
}

/* The parameters that these three track are those that params.def calls so. */
TEST(each_tracked_parameter_is_marked)
{
	u32 i, tracked = 0;

	for (i = 0; i < CCA_COUNT_OF(cca_params); i++) {
		if (cca_params[i].kind != CCA_TRACKED)
			continue;
		tracked++;
		CHECK(!strcmp(cca_params[i].name, "delay_threshold_us") ||
		      !strcmp(cca_params[i].name, "srrtt_bound_pct"));
	}
	CHECK_EQ(tracked, 3);
}
