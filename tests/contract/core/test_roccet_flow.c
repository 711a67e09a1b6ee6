// SPDX-License-Identifier: MIT
/* kmod/core/roccet_flow.h, kmod/core/ensemble_flow.h: which parameter set a flow under ROCCET is on, on two axes. */
#include "roccet_flow.h"

#include "check.h"

#define MSS 1448u
#define MS 1000u
#define SECOND 1000000u
#define LEVELS 4u
#define RTT_LEVELS 3u
#define HASH 12345u		/* any */
#define DEFAULT_BOUND_PCT 100u

/* Row of throughput level l, RTT level m and class k: bound = 10 (1 + generation) + 100 l + 4 m + k. */
static u32 values[2][LEVELS * RTT_LEVELS * 2 * 2];

static u32 bound_pct(u32 generation, u32 level, u32 rtt_level, u32 delay_class)
{
	return 10 * (1 + generation) + 100 * level + 4 * rtt_level + delay_class;
}

/* Throughput in steps of 10^6 bytes/s, minimum RTT in octaves from 20 ms on. */
static struct ens_table table_of(u32 generation)
{
	u32 *v = values[generation % 2];
	struct ens_table t;
	u32 i;

	memset(&t, 0, sizeof(t));
	t.generation = generation;
	t.id = CCA_ID_roccet;
	t.epoch_ms = 1000;
	t.estimate_ms = 200;
	t.n_axes = 2;
	t.axis[0].step = 1000000;
	t.axis[0].count = LEVELS;
	t.axis[1].number = 1;
	t.axis[1].step = 20 * MS;
	t.axis[1].count = RTT_LEVELS;
	t.axis[1].per_octave = 1;
	t.axis[1].scale = ENS_LOG;
	t.n_classes = 2;
	t.classes[0].percentile = t.classes[1].percentile = 95;
	t.classes[0].queueing_delay_us = t.classes[1].queueing_delay_us = 100000;
	t.n_columns = 2;
	t.column[1] = 3;
	for (i = 0; i < LEVELS * RTT_LEVELS * 2; i++) {
		v[2 * i] = bound_pct(generation, i / 6, i / 2 % 3, i % 2);
		v[2 * i + 1] = 800;
	}
	t.values = v;
	return t;
}

struct host {
	struct roccet_flow f;
	struct roccet_params defaults;
	const struct ens_table *table;
	struct cca_ack ack;
	struct cca_window w;
	u32 turns[4];
};

static void open_host(struct host *h, const struct ens_table *t, u8 delay_class, u32 hash)
{
	struct cca_start start = { SECOND, 50 * MS, 10, 0, MSS };

	memset(h, 0, sizeof(*h));
	memset(&h->f, 0xa5, sizeof(h->f));
	h->table = t;
	h->w.cwnd_pkts = 10;
	h->w.ssthresh_pkts = 0x7fffffff;
	cca_params_init(&h->defaults, CCA_ID_roccet);
	h->ack.now_us = start.now_us;
	h->ack.mss_bytes = MSS;
	roccet_flow_init(&h->f, &h->defaults, &start, delay_class, hash);
}

static void take_acks(struct host *h, u32 count, u32 gap_us, u32 rtt_us)
{
	while (count--) {
		h->ack.now_us += gap_us;
		h->ack.delivered_pkts++;
		h->ack.acked_pkts = 1;
		h->ack.rtt_us = rtt_us;
		roccet_flow_on_ack(&h->f, &h->defaults, h->table, &h->ack, &h->w);
		roccet_flow_grow(&h->f, &h->w, 1);
		h->turns[h->f.ens.epoch_end]++;
	}
}

/* A host whose application lets out 50 packets: slow start ends where the threshold is. */
static void leave_slow_start(struct host *h)
{
	take_acks(h, 300, MS, 50 * MS);
	CHECK_EQ(h->f.ens.clock.epoch, 0);
	CHECK_EQ(h->f.params.srrtt_bound_pct, DEFAULT_BOUND_PCT);
	h->w.ssthresh_pkts = h->w.cwnd_pkts;
	take_acks(h, 1, MS, 50 * MS);
}

TEST(slow_start_is_on_the_hosts_parameters_and_its_end_looks_a_row_up)
{
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 1, HASH);
	leave_slow_start(&h);
	CHECK_EQ(h.f.ens.epoch_end, ENS_LOOKED_UP);
	CHECK_EQ(h.f.ens.clock.epoch, 1);
	/* 1,448,000 bytes/s: level 1; 50 ms: the octave from 40 ms on. */
	CHECK_EQ(h.f.ens.clock.state, 1 * RTT_LEVELS + 1);
	CHECK_EQ(h.f.params.srrtt_bound_pct, bound_pct(2, 1, 1, 1));
	CHECK_EQ(h.f.params.beta_permille, 800);
	CHECK_EQ(h.f.params.ack_tolerance_pct, 20);	/* no column covers it */
	CHECK_EQ(h.turns[ENS_LOOKED_UP], 1);
	CHECK_EQ(h.turns[ENS_WAITED], 300);
}

TEST(each_epoch_looks_up_what_the_flow_then_measures_on_both_axes)
{
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 0, HASH);
	leave_slow_start(&h);
	take_acks(&h, 1999, MS / 2, 50 * MS);		/* 2,896,000: level 2 */
	CHECK_EQ(h.f.params.srrtt_bound_pct, bound_pct(2, 1, 1, 0));
	take_acks(&h, 1, MS / 2, 50 * MS);
	CHECK_EQ(h.f.params.srrtt_bound_pct, bound_pct(2, 2, 1, 0));
	take_acks(&h, 2000, MS / 2, 30 * MS);		/* a path that became shorter */
	CHECK_EQ(h.f.params.srrtt_bound_pct, bound_pct(2, 2, 0, 0));
	take_acks(&h, 4000, MS / 4, 30 * MS);		/* above the highest level */
	CHECK_EQ(h.f.ens.clock.state, 3 * RTT_LEVELS);
	CHECK_EQ(h.turns[ENS_LOOKED_UP], 4);
}

TEST(a_recall_looks_up_at_once_on_both_axes_or_leaves_the_table)
{
	struct ens_table two = table_of(2), three = table_of(3);
	struct host h;

	open_host(&h, &two, 1, HASH);
	leave_slow_start(&h);
	take_acks(&h, 300, MS, 50 * MS);
	roccet_flow_recall(&h.f, &h.defaults, &three, h.ack.now_us);
	CHECK_EQ(h.f.ens.epoch_end, ENS_LOOKED_UP);
	CHECK_EQ(h.f.params.srrtt_bound_pct, bound_pct(3, 1, 1, 1));
	roccet_flow_recall(&h.f, &h.defaults, &three, h.ack.now_us);
	CHECK_EQ(h.f.ens.epoch_end, ENS_WAITED);
	roccet_flow_recall(&h.f, &h.defaults, NULL, h.ack.now_us);
	CHECK_EQ(h.f.params.srrtt_bound_pct, DEFAULT_BOUND_PCT);
}

TEST(a_flow_held_back_keeps_the_hosts_parameters_and_its_clock)
{
	struct ens_table t = table_of(2);
	struct host h;

	t.hold_back_permille = 1000;
	open_host(&h, &t, 1, HASH);
	leave_slow_start(&h);
	CHECK(h.f.ens.held_back);
	CHECK_EQ(h.f.ens.clock.state, 1 * RTT_LEVELS + 1);
	CHECK_EQ(h.f.params.srrtt_bound_pct, DEFAULT_BOUND_PCT);
	h.defaults.srrtt_bound_pct = 77;
	take_acks(&h, 1000, MS, 50 * MS);
	CHECK_EQ(h.f.params.srrtt_bound_pct, 77);
	CHECK_EQ(h.f.params.beta_permille, 700);
}

TEST(a_class_given_anew_counts_from_the_next_epoch)
{
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 0, HASH);
	leave_slow_start(&h);
	ens_flow_set_class(&h.f.ens, 1);
	take_acks(&h, 999, MS, 50 * MS);
	CHECK_EQ(h.f.params.srrtt_bound_pct, bound_pct(2, 1, 1, 0));
	take_acks(&h, 1, MS, 50 * MS);
	CHECK_EQ(h.f.params.srrtt_bound_pct, bound_pct(2, 1, 1, 1));
}

TEST(a_table_is_taken_and_left_at_the_end_of_an_epoch)
{
	struct ens_table two = table_of(2), three = table_of(3);
	struct host h;

	open_host(&h, NULL, 1, HASH);
	leave_slow_start(&h);
	CHECK_EQ(h.f.ens.epoch_end, ENS_KEPT);
	CHECK_EQ(h.f.ens.clock.state, ENS_NO_STATE);
	h.table = &two;
	take_acks(&h, 29999, MS, 50 * MS);		/* the epoch that began without one: 30 s */
	CHECK_EQ(h.f.params.srrtt_bound_pct, DEFAULT_BOUND_PCT);
	take_acks(&h, 1, MS, 50 * MS);
	CHECK_EQ(h.f.params.srrtt_bound_pct, bound_pct(2, 1, 1, 1));
	h.table = &three;
	take_acks(&h, 1000, MS, 50 * MS);
	CHECK_EQ(h.f.params.srrtt_bound_pct, bound_pct(3, 1, 1, 1));
	h.table = NULL;
	take_acks(&h, 1000, MS, 50 * MS);
	CHECK_EQ(h.f.ens.clock.state, ENS_NO_STATE);
	CHECK_EQ(h.f.params.srrtt_bound_pct, DEFAULT_BOUND_PCT);
	CHECK_EQ(h.f.params.beta_permille, 700);
}

TEST(the_row_in_force_decides_when_a_path_is_congested)
{
	struct ens_table t = table_of(2);
	struct host h;
	u32 events;

	/* Threefold round trips at an unused window: ACKs fall short of it by 40 % for ever. */
	open_host(&h, &t, 1, HASH);
	leave_slow_start(&h);
	h.w.cwnd_pkts = h.w.ssthresh_pkts = 150;
	take_acks(&h, 900, MS, 150 * MS);
	events = h.f.roccet.events;
	CHECK(events > 0);
	/* With a bound of ten times the minimum there is none. */
	h.defaults.srrtt_bound_pct = 1000;
	h.table = NULL;
	take_acks(&h, 1000, MS, 150 * MS);
	h.w.cwnd_pkts = h.w.ssthresh_pkts = 150;
	events = h.f.roccet.events;
	take_acks(&h, 5000, MS, 150 * MS);
	CHECK_EQ(h.f.roccet.events, events);
}

/* The initial slow start is epoch 0, for 30 s at most; a later one is no beginning. */
TEST(slow_start_is_epoch_0_for_30_s_and_once)
{
	struct cca_event ev = { CCA_TIMEOUT, 0, 0, 10, MSS };
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 1, HASH);
	take_acks(&h, 29999, MS, 50 * MS);
	CHECK_EQ(h.f.ens.clock.epoch, 0);
	take_acks(&h, 1, MS, 50 * MS);
	CHECK(!h.f.roccet.launched);
	CHECK_EQ(h.f.ens.clock.epoch, 1);
	CHECK_EQ(h.f.params.srrtt_bound_pct, bound_pct(2, 1, 1, 1));
	ev.now_us = h.ack.now_us;
	h.w.ssthresh_pkts = roccet_flow_ssthresh(&h.f, &h.w);
	h.w.cwnd_pkts = 1;
	roccet_flow_on_event(&h.f, &ev);
	take_acks(&h, 10, MS, 50 * MS);
	CHECK_EQ(h.f.ens.clock.epoch, 1);
}

TEST(a_silence_counts_neither_for_the_rate_nor_for_the_level)
{
	static const enum cca_event_kind kinds[] = { CCA_TRANSFER_STARTED, CCA_IDLE_RESTART };
	struct ens_table t = table_of(2);
	u32 i;

	for (i = 0; i < 2; i++) {
		struct cca_event ev = { kinds[i], 0, 0, 10, MSS };
		struct host h;

		row = (int)i + 1;
		open_host(&h, &t, 1, HASH);
		leave_slow_start(&h);
		take_acks(&h, 500, MS, 50 * MS);
		h.ack.now_us += 400 * MS;
		ev.now_us = h.ack.now_us;
		roccet_flow_on_event(&h.f, &ev);
		h.ack.now_us += 49 * MS;
		take_acks(&h, 60, MS, 50 * MS);		/* the epoch ends within */
		CHECK_EQ(h.f.ens.clock.epoch, 2);
		CHECK_EQ(h.f.ens.clock.state, 1 * RTT_LEVELS + 1);
		CHECK_EQ(h.f.ens.clock.measured_bytes_per_s, 1448000);
	}
}

TEST(the_delay_is_what_a_sample_has_above_the_minimum)
{
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 1, HASH);
	CHECK_EQ(roccet_queueing_delay_us(&h.f.roccet, 70 * MS), 20 * MS);
	CHECK_EQ(roccet_queueing_delay_us(&h.f.roccet, 50 * MS), 0);
	CHECK_EQ(roccet_queueing_delay_us(&h.f.roccet, 0), 0);
	h.f.roccet.min_rtt_us = 0;
	CHECK_EQ(roccet_queueing_delay_us(&h.f.roccet, 70 * MS), 0);
}

/* What a host keeps for each socket: a kernel's private area has 104 bytes, so it is allocated. */
TEST(the_state_of_a_flow_stays_small)
{
	CHECK(sizeof(struct roccet_state) <= 256);
	CHECK(sizeof(struct ens_flow) <= 632);
	CHECK(sizeof(struct roccet_flow) <= 952);
}
