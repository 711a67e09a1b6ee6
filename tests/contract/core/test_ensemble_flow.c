// SPDX-License-Identifier: MIT
/* kmod/core/ensemble_flow.h, gr_flow.h, roccet_flow.h: which parameter set a flow is on, from slow start over epochs to a table taken away. */
#include "path.h"

#define LEVELS 4u
#define RTT_LEVELS 3u
#define HASH 12345u		/* any */

/* marker: the parameter that tells rows apart, in steps of `unit`. knob: one that no row covers. */
struct subject {
	u32 id, axes, unit, marker, default_marker, knob, default_knob;
};

static const struct subject subjects[] = {
	{ CCA_ID_gr, 1, 100, 0, 100000, 3, 150 },	/* bandwidth_window_us, cwnd_gain_pct */
	{ CCA_ID_roccet, 2, 1, 0, 100, 3, 700 },	/* srrtt_bound_pct, beta_permille */
	{ CCA_ID_cubic, 2, 1, 0, 400, 5, 16 },		/* c_permille, hystart_low_window_pkts */
	{ CCA_ID_bbr, 2, 1, 1, 2000, 0, 2885 },		/* cwnd_gain_permille, startup_gain_permille */
	{ CCA_ID_bbr3, 2, 1, 2, 2000, 0, 2770 },	/* the same */
};

static const struct subject *s;
static struct flow f;
static u32 epoch_ends[4], values[2][LEVELS * RTT_LEVELS * 2];

/* The marker's value of throughput level l, level m of the minimum RTT and class k. */
static u32 value_of(u32 generation, u32 level, u32 rtt_level, u32 delay_class)
{
	return s->unit * (10 * (1 + generation) + 100 * level + 4 * rtt_level + delay_class);
}

/* Throughput in steps of 10^6 bytes/s, minimum RTT in octaves from 20 ms on. */
static struct ens_table table_of(u32 generation)
{
	u32 *v = values[generation % 2], rtt_levels = s->axes > 1 ? RTT_LEVELS : 1;
	struct ens_table t = {
		.generation = generation, .id = s->id, .epoch_ms = 1000, .estimate_ms = 200,
		.n_axes = s->axes, .n_classes = 2, .classes = { { 95, 100000 }, { 95, 100000 } },
		.axis = { { 0, 1000000, LEVELS, 0, ENS_LINEAR }, { 1, 20 * MS, RTT_LEVELS, 1, ENS_LOG } },
		.n_columns = 1, .column = { s->marker }, .values = v,
	};
	u32 i;

	for (i = 0; i < LEVELS * rtt_levels * 2; i++)
		v[i] = value_of(generation, i / 2 / rtt_levels, i / 2 % rtt_levels, i % 2);
	return t;
}

static void open_from(u64 now_us, u32 delivered_pkts, const struct ens_table *t, u8 delay_class)
{
	struct cca_start start = { now_us, 50 * MS, 10, delivered_pkts, MSS };

	open_flow(&f, s->id, &start, HASH);
	if (s->id == CCA_ID_cubic)	/* HyStart would end slow start at these even ACKs */
		f.cubic_rows.params.hystart = f.p.cubic.hystart = 0;
	ens_flow_set_class(flow_ens(&f), delay_class);
	f.table = t;
	f.ack.inflight_pkts = 10;
	memset(epoch_ends, 0, sizeof(epoch_ends));
}

static void open_on(const struct ens_table *t, u8 delay_class)
{
	open_from(SECOND, 0, t, delay_class);
}

static void acks_of(u32 count, u32 gap_us, u32 rtt_us)
{
	while (count--) {
		take_ack(&f, gap_us, 1, rtt_us);
		epoch_ends[flow_ens(&f)->epoch_end]++;
	}
}

static void acks(u32 count, u32 gap_us)
{
	acks_of(count, gap_us, 50 * MS);
}

static u32 marker(void)
{
	return cca_param_get(flow_params(&f), s->marker);
}

static const struct ens_clock *clock_of(void)
{
	return &flow_ens(&f)->clock;
}

/*
 * GR leaves it by a loss, ROCCET and CUBIC at the threshold, which the application's data reach, BBR
 * when the pipe has been full.
 */
static void end_slow_start(void)
{
	if (s->id == CCA_ID_bbr)
		f.bbr_rows.bbr.full = true;
	if (s->id == CCA_ID_bbr3)
		f.bbr3_rows.bbr.full = true;
	f.ack.lost_pkts = s->id == CCA_ID_gr;
	f.w.ssthresh_pkts = f.w.cwnd_pkts;
	acks(1, MS);
}

/* At a packet a millisecond: 1,448,000 bytes/s, level 1; 50 ms are in the octave from 40 ms on. */
static void leave_slow_start(void)
{
	acks(300, MS);
	CHECK_EQ(clock_of()->epoch, 0);
	CHECK_EQ(marker(), s->default_marker);
	end_slow_start();
}

static u32 row_of(u32 generation, u32 level, u32 delay_class)
{
	return value_of(generation, level, s->axes > 1, delay_class);
}

static u32 state_of(u32 level)
{
	return s->axes > 1 ? level * RTT_LEVELS + 1 : level;
}

#define FOR_SUBJECTS() for (s = subjects, row = 1; s < subjects + CCA_COUNT_OF(subjects); s++, row++)

TEST(slow_start_is_on_the_hosts_parameters_and_its_end_looks_up_the_row_of_the_flows_class)
{
	FOR_SUBJECTS() {
		struct ens_table t = table_of(2);
		u8 delay_class;

		for (delay_class = 0; delay_class < 2; delay_class++) {
			open_on(&t, delay_class);
			leave_slow_start();
			CHECK_EQ(flow_ens(&f)->epoch_end, ENS_LOOKED_UP);
			CHECK_EQ(clock_of()->epoch, 1);
			CHECK_EQ(clock_of()->state, state_of(1));
			CHECK_EQ(marker(), row_of(2, 1, delay_class));
			CHECK_EQ(cca_param_get(flow_params(&f), s->knob), s->default_knob);
			CHECK_EQ(epoch_ends[ENS_LOOKED_UP], 1);
			CHECK_EQ(epoch_ends[ENS_WAITED], 300);
		}
	}
}

TEST(each_epoch_looks_up_what_the_flow_then_measures)
{
	FOR_SUBJECTS() {
		struct ens_table t = table_of(2);

		open_on(&t, 1);
		leave_slow_start();
		acks(1999, MS / 2);			/* 2,896,000: level 2 */
		CHECK_EQ(clock_of()->state, state_of(1));
		acks(1, MS / 2);
		CHECK_EQ(clock_of()->state, state_of(2));
		CHECK_EQ(marker(), row_of(2, 2, 1));
		acks(4000, MS / 4);			/* 5,792,000: above the highest */
		CHECK_EQ(clock_of()->state, state_of(3));
		CHECK_EQ(epoch_ends[ENS_LOOKED_UP], 3);
		if (s->axes == 1)
			continue;
		acks_of(4000, MS / 4, 30 * MS);		/* a path that became shorter */
		CHECK_EQ(clock_of()->state, 3 * RTT_LEVELS);
		CHECK_EQ(marker(), value_of(2, 3, 0, 1));
	}
}

TEST(a_flow_held_back_keeps_the_hosts_parameters_and_its_clock)
{
	FOR_SUBJECTS() {
		struct ens_table t = table_of(2);

		t.hold_back_permille = 1000;
		open_on(&t, 1);
		leave_slow_start();
		CHECK(flow_ens(&f)->held_back);
		CHECK_EQ(clock_of()->state, state_of(1));
		CHECK_EQ(marker(), s->default_marker);
		f.p.word[s->marker] = 77 * s->unit;
		acks(1000, MS);
		CHECK_EQ(marker(), 77 * s->unit);
	}
}

TEST(the_share_of_the_table_in_force_says_who_is_held_back)
{
	FOR_SUBJECTS() {
		struct ens_table two = table_of(2), three = table_of(3);

		two.hold_back_permille = 1000;
		open_on(NULL, 1);
		leave_slow_start();
		CHECK(!flow_ens(&f)->held_back);
		f.table = &two;
		acks(30000, MS);
		CHECK(flow_ens(&f)->held_back);
		CHECK_EQ(marker(), s->default_marker);
		f.table = &three;
		acks(1000, MS);
		CHECK(!flow_ens(&f)->held_back);
		CHECK_EQ(marker(), row_of(3, 1, 1));
		f.table = NULL;
		acks(1000, MS);
		CHECK(!flow_ens(&f)->held_back);
	}
}

TEST(a_class_and_a_parameter_set_by_hand_count_from_the_next_epoch)
{
	FOR_SUBJECTS() {
		struct ens_table t = table_of(2);

		open_on(&t, 0);
		leave_slow_start();
		ens_flow_set_class(flow_ens(&f), 1);
		f.p.word[s->knob] = 300;
		f.p.word[s->marker] = 50 * s->unit;	/* the ensemble's stands */
		acks(999, MS);
		CHECK_EQ(marker(), row_of(2, 1, 0));
		CHECK_EQ(cca_param_get(flow_params(&f), s->knob), s->default_knob);
		acks(1, MS);
		CHECK_EQ(marker(), row_of(2, 1, 1));
		CHECK_EQ(cca_param_get(flow_params(&f), s->knob), 300);
	}
}

TEST(a_table_is_taken_and_left_at_the_end_of_an_epoch)
{
	FOR_SUBJECTS() {
		struct ens_table two = table_of(2), three = table_of(3);

		open_on(NULL, 1);
		leave_slow_start();
		CHECK_EQ(flow_ens(&f)->epoch_end, ENS_KEPT);
		CHECK_EQ(clock_of()->state, ENS_NO_STATE);
		CHECK_EQ(marker(), s->default_marker);
		f.table = &two;
		acks(29999, MS);			/* the epoch that began without one: 30 s */
		CHECK_EQ(marker(), s->default_marker);
		acks(1, MS);
		CHECK_EQ(marker(), row_of(2, 1, 1));
		f.table = &three;
		acks(999, MS);
		CHECK_EQ(marker(), row_of(2, 1, 1));
		acks(1, MS);
		CHECK_EQ(marker(), row_of(3, 1, 1));
		f.table = NULL;
		acks(1000, MS);
		CHECK_EQ(clock_of()->state, ENS_NO_STATE);
		CHECK_EQ(marker(), s->default_marker);
	}
}

static bool is_recalled(const struct ens_table *t)
{
	f.table = t;
	flow_recall(&f, f.ack.now_us);
	return flow_ens(&f)->epoch_end != ENS_WAITED;
}

TEST(a_recall_ends_the_epoch_of_a_flow_on_another_tables_row_or_on_none)
{
	FOR_SUBJECTS() {
		struct ens_table two = table_of(2), three = table_of(3);

		open_on(&two, 1);
		CHECK(!is_recalled(&two));		/* slow start is on no row */
		leave_slow_start();
		acks(300, MS);
		f.table = &three;
		acks(1, MS);
		CHECK_EQ(marker(), row_of(2, 1, 1));
		CHECK(is_recalled(&three));
		CHECK_EQ(marker(), row_of(3, 1, 1));
		CHECK_EQ(clock_of()->epoch, 2);
		CHECK(!is_recalled(&three));		/* on a row of this table already */
		CHECK_EQ(clock_of()->epoch, 2);
		CHECK(is_recalled(NULL));
		CHECK_EQ(clock_of()->state, ENS_NO_STATE);
		CHECK_EQ(marker(), s->default_marker);
		CHECK(!is_recalled(NULL));
		f.table = &three;			/* urgent: no epoch has to end for it */
		acks(300, MS);
		CHECK_EQ(marker(), s->default_marker);
		CHECK(is_recalled(&three));
		CHECK_EQ(marker(), row_of(3, 1, 1));
	}
}

TEST(a_silence_counts_neither_for_the_rate_nor_for_the_level)
{
	static const enum cca_event_kind kinds[] = { CCA_TRANSFER_STARTED, CCA_IDLE_RESTART };
	u32 i;

	FOR_SUBJECTS()
		for (i = 0; i < CCA_COUNT_OF(kinds); i++) {
			struct ens_table t = table_of(2);
			u64 rate;

			open_on(&t, 1);
			leave_slow_start();
			acks(500, MS);
			rate = f.d.pacing_bytes_per_s;
			take_event(&f, kinds[i], 400 * MS, 0);
			CHECK_EQ(f.d.pacing_bytes_per_s, rate);
			f.ack.now_us += 49 * MS;
			acks(60, MS);			/* the epoch ends within */
			CHECK_EQ(clock_of()->epoch, 2);
			CHECK_EQ(clock_of()->state, state_of(1));
			CHECK_EQ(clock_of()->measured_bytes_per_s, 1448000);
		}
}

/* A table's epoch is for the epochs after slow start; slow start itself has its 30 s, and only once. */
TEST(slow_start_is_epoch_0_for_30_s_whatever_the_tables_epoch_and_once)
{
	FOR_SUBJECTS() {
		struct ens_table t = table_of(2);

		open_on(&t, 1);
		acks(29999, MS);
		CHECK_EQ(clock_of()->epoch, 0);
		CHECK_EQ(marker(), s->default_marker);
		acks(1, MS);
		CHECK_EQ(clock_of()->epoch, 1);
		CHECK_EQ(marker(), row_of(2, 1, 1));
		/* A later slow start is no epoch 0: the clock's time goes on. */
		f.w.ssthresh_pkts = s->axes > 1 ? flow_ssthresh(&f) : 0;
		f.w.cwnd_pkts = 1;
		take_event(&f, CCA_TIMEOUT, 0, 0);
		CHECK(!cca_rate_is_closed(&clock_of()->acked));
		acks(10, MS);
		CHECK_EQ(clock_of()->epoch, 1);
		CHECK_EQ(marker(), row_of(2, 1, 1));
	}
}

struct decided {
	u8 epoch_end;
	u32 marker, cwnd_pkts;
	u64 measured_bytes_per_s, pacing_bytes_per_s;
};

static void run_from(u64 now_us, u32 delivered_pkts, const struct ens_table *t, struct decided *out)
{
	u32 i;

	open_from(now_us, delivered_pkts, t, 1);
	for (i = 0; i < 8000; i++) {
		f.ack.app_limited = i % 2000 > 1900;
		if (i == 300)
			end_slow_start();
		acks(1, i % 3000 < 1000 ? MS : MS / 3);
		memset(&out[i], 0, sizeof(out[i]));
		out[i].epoch_end = flow_ens(&f)->epoch_end;
		out[i].marker = marker();
		out[i].cwnd_pkts = s->axes > 1 ? f.w.cwnd_pkts : f.d.cwnd_pkts;
		out[i].measured_bytes_per_s = clock_of()->measured_bytes_per_s;
		out[i].pacing_bytes_per_s = s->axes > 1 ? 0 : f.d.pacing_bytes_per_s;
	}
	CHECK(epoch_ends[ENS_LOOKED_UP] >= 3);
}

/* Epochs, levels and decisions of a flow are the same wherever its counters start, wraps included. */
TEST(rows_do_not_depend_on_where_counters_start)
{
	static const struct { u64 now_us; u32 delivered_pkts; } cases[] = {
		{ 0, 0 }, { (1ull << 32) - SECOND, 0u - 900 }, { (1ull << 63) - 7, 0u - 3000 },
		{ 77, 1u << 31 },
	};
	static struct decided first[8000], other[8000];
	u32 i;

	FOR_SUBJECTS() {
		struct ens_table t = table_of(2);

		run_from(SECOND, 0, &t, first);
		for (i = 0; i < CCA_COUNT_OF(cases); i++) {
			run_from(cases[i].now_us, cases[i].delivered_pkts, &t, other);
			CHECK(!memcmp(first, other, sizeof(first)));
		}
	}
}

/*
 * The path's MTU halves: as many bytes come in twice as many packets. What was
 * delivered before counts at the new size until it has left the window; then
 * the bandwidth is what it was, and the level never was another.
 */
TEST(a_path_mtu_that_shrinks_is_forgotten_within_a_window)
{
	struct ens_table t;
	u64 bandwidth;
	u32 i;

	s = subjects;
	t = table_of(2);
	open_on(&t, 1);
	leave_slow_start();
	acks(400, MS);
	f.ack.mss_bytes = MSS / 2;
	for (i = 0; i < 29; i++) {		/* W is 13,100 us, and merges within 1/32 of it */
		acks(1, MS / 2);
		bandwidth = cca_rate_of(&f.gr.gr.bandwidth, f.gr.gr.mss_bytes);
		CHECK(bandwidth >= 1448000 / 2 && bandwidth <= 1448000);
	}
	CHECK_EQ(bandwidth, 1448000);
	acks(1999, MS / 2);
	CHECK(clock_of()->epoch >= 2);
	CHECK_EQ(clock_of()->measured_bytes_per_s, 1448000);
	CHECK_EQ(clock_of()->state, 1);
}

TEST(the_row_in_force_decides_when_a_path_is_congested_under_roccet)
{
	struct ens_table t;
	u32 events;

	s = &subjects[1];
	t = table_of(2);
	/* Threefold round trips at an unused window: ACKs fall short of it by 40 % for ever. */
	open_on(&t, 1);
	leave_slow_start();
	f.w.cwnd_pkts = f.w.ssthresh_pkts = 150;
	acks_of(900, MS, 150 * MS);
	events = f.roccet.roccet.events;
	CHECK(events > 0);
	/* With a bound of ten times the minimum there is none. */
	f.p.roccet.srrtt_bound_pct = 1000;
	f.table = NULL;
	acks_of(1000, MS, 150 * MS);
	f.w.cwnd_pkts = f.w.ssthresh_pkts = 150;
	events = f.roccet.roccet.events;
	acks_of(5000, MS, 150 * MS);
	CHECK_EQ(f.roccet.roccet.events, events);
}

TEST(roccets_delay_is_what_a_sample_has_above_the_minimum)
{
	s = &subjects[1];
	open_on(NULL, 1);
	CHECK_EQ(roccet_queueing_delay_us(&f.roccet.roccet, 70 * MS), 20 * MS);
	CHECK_EQ(roccet_queueing_delay_us(&f.roccet.roccet, 50 * MS), 0);
	CHECK_EQ(roccet_queueing_delay_us(&f.roccet.roccet, 0), 0);
	f.roccet.roccet.min_rtt_us = 0;
	CHECK_EQ(roccet_queueing_delay_us(&f.roccet.roccet, 70 * MS), 0);
}

/* What a host keeps for each socket: a kernel's private area has 104 bytes, so it is allocated. */
TEST(the_state_of_a_flow_stays_small)
{
	CHECK_EQ(sizeof(struct cca_rate_window), 536);
	CHECK(sizeof(struct gr_state) <= 640);
	CHECK(sizeof(struct gr_flow) <= 1408);
	CHECK(sizeof(struct roccet_state) <= 256);
	CHECK(sizeof(struct ens_flow) <= 648);
	CHECK(sizeof(struct roccet_flow) <= 1008);
	CHECK(sizeof(struct cubic_flow) <= 808);
	CHECK(sizeof(struct bbr1_flow) <= 936);
	CHECK(sizeof(struct bbr3_flow) <= 1008);
}
