// SPDX-License-Identifier: MIT
/* kmod/core/gr_flow.h: which parameter set a flow is on, from slow start over epochs to a table taken away. */
#include "gr_flow.h"

#include "check.h"

#define MSS 1448u
#define MS 1000u
#define SECOND 1000000u
#define LEVELS 4u
#define HASH 12345u		/* any */

/* Row of level l and class k: W = 10000 + 1000 l + 100 k, Delta = 5000, T = 50000 + l. */
static u32 values[2][LEVELS * 2 * 3];

static struct ens_table table_of(u64 generation)
{
	u32 *v = values[generation % 2];
	struct ens_table t;
	u32 i;

	memset(&t, 0, sizeof(t));
	t.generation = generation;
	t.id = CCA_ID_gr;
	t.epoch_ms = 1000;
	t.estimate_ms = 200;
	t.n_axes = 1;
	t.axis[0].step = 1000000;
	t.axis[0].count = LEVELS;
	t.n_classes = 2;
	t.classes[0].percentile = t.classes[1].percentile = 95;
	t.classes[0].queueing_delay_us = t.classes[1].queueing_delay_us = 100000;
	t.n_columns = 3;
	t.column[1] = 1;
	t.column[2] = 2;
	for (i = 0; i < LEVELS * 2; i++) {
		v[3 * i] = 10000 + 1000 * (i / 2) + 100 * (i % 2) + (u32)generation;
		v[3 * i + 1] = 5000;
		v[3 * i + 2] = 50000 + i / 2;
	}
	t.values = v;
	return t;
}

struct host {
	struct gr_flow f;
	struct gr_params defaults;
	const struct ens_table *table;
	struct cca_ack ack;
	struct cca_decision d;
	u32 turns[4];
};

static void open_host(struct host *h, const struct ens_table *t, u8 delay_class, u32 hash)
{
	struct cca_start start = { SECOND, 50 * MS, 10, 0, MSS };

	memset(h, 0, sizeof(*h));
	memset(&h->f, 0xa5, sizeof(h->f));
	h->table = t;
	cca_params_init(&h->defaults, CCA_ID_gr);
	h->ack.now_us = start.now_us;
	h->ack.mss_bytes = MSS;
	h->ack.inflight_pkts = 10;
	gr_flow_init(&h->f, &h->defaults, &start, delay_class, hash, &h->d);
}

static void take_acks(struct host *h, u32 count, u32 gap_us)
{
	while (count--) {
		h->ack.now_us += gap_us;
		h->ack.delivered_pkts++;
		h->ack.acked_pkts = 1;
		h->ack.rtt_us = 50 * MS;
		gr_flow_on_ack(&h->f, &h->defaults, h->table, &h->ack, &h->d);
		h->turns[h->f.ens.epoch_end]++;
		h->ack.lost_pkts = 0;
	}
}

/* Out of slow start at a packet a millisecond: 1448000 bytes/s, level 1. */
static void leave_slow_start(struct host *h)
{
	take_acks(h, 300, MS);
	CHECK_EQ(h->f.ens.clock.epoch, 0);
	CHECK_EQ(h->f.params.bandwidth_window_us, 100000);
	h->ack.lost_pkts = 1;
	take_acks(h, 1, MS);
}

TEST(slow_start_is_on_the_hosts_parameters_and_its_end_looks_a_row_up)
{
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 1, HASH);
	leave_slow_start(&h);
	CHECK_EQ(h.f.ens.epoch_end, ENS_LOOKED_UP);
	CHECK_EQ(h.f.ens.clock.epoch, 1);
	CHECK_EQ(h.f.ens.clock.state, 1);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11102);
	CHECK_EQ(h.f.params.adaptation_interval_us, 5000);
	CHECK_EQ(h.f.params.delay_threshold_us, 50001);
	CHECK_EQ(h.f.params.cwnd_gain_pct, 150);	/* no ensemble covers it */
	CHECK_EQ(h.turns[ENS_LOOKED_UP], 1);
	CHECK_EQ(h.turns[ENS_WAITED], 300);
}

TEST(the_class_is_the_flows_own)
{
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 0, HASH);
	leave_slow_start(&h);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11002);
}

TEST(each_epoch_looks_up_what_the_flow_then_measures)
{
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 1, HASH);
	leave_slow_start(&h);
	take_acks(&h, 1999, MS / 2);			/* 2,896,000: level 2 */
	CHECK_EQ(h.f.ens.clock.state, 1);
	take_acks(&h, 1, MS / 2);
	CHECK_EQ(h.f.ens.clock.state, 2);
	CHECK_EQ(h.f.params.bandwidth_window_us, 12102);
	take_acks(&h, 4000, MS / 4);			/* 5,792,000: above the highest */
	CHECK_EQ(h.f.ens.clock.state, 3);
	CHECK_EQ(h.turns[ENS_LOOKED_UP], 3);
}

TEST(a_flow_held_back_keeps_the_hosts_parameters_and_its_clock)
{
	struct ens_table t = table_of(2);
	struct host h;

	t.hold_back_permille = 1000;
	open_host(&h, &t, 1, HASH);
	leave_slow_start(&h);
	CHECK(h.f.ens.held_back);
	CHECK_EQ(h.f.ens.clock.state, 1);
	CHECK_EQ(h.f.params.bandwidth_window_us, 100000);
	h.defaults.bandwidth_window_us = 77000;
	take_acks(&h, 1000, MS);
	CHECK_EQ(h.f.params.bandwidth_window_us, 77000);
}

TEST(the_share_of_the_table_in_force_says_who_is_held_back)
{
	struct ens_table two = table_of(2), three = table_of(3);
	struct host h;

	two.hold_back_permille = 1000;
	open_host(&h, NULL, 1, HASH);
	leave_slow_start(&h);
	CHECK(!h.f.ens.held_back);
	h.table = &two;
	take_acks(&h, 30000, MS);
	CHECK(h.f.ens.held_back);
	CHECK_EQ(h.f.params.bandwidth_window_us, 100000);
	h.table = &three;
	take_acks(&h, 1000, MS);
	CHECK(!h.f.ens.held_back);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11103);
	h.table = NULL;
	take_acks(&h, 1000, MS);
	CHECK(!h.f.ens.held_back);
}

TEST(a_class_given_anew_counts_from_the_next_epoch)
{
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 0, HASH);
	leave_slow_start(&h);
	ens_flow_set_class(&h.f.ens, 1);
	take_acks(&h, 999, MS);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11002);
	take_acks(&h, 1, MS);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11102);
}

TEST(a_table_is_taken_and_left_at_the_end_of_an_epoch)
{
	struct ens_table two = table_of(2), three = table_of(3);
	struct host h;

	open_host(&h, NULL, 1, HASH);
	leave_slow_start(&h);
	CHECK_EQ(h.f.ens.epoch_end, ENS_KEPT);
	CHECK_EQ(h.f.ens.clock.state, ENS_NO_STATE);
	CHECK_EQ(h.f.params.bandwidth_window_us, 100000);
	h.table = &two;
	take_acks(&h, 29999, MS);			/* the epoch that began without one: 30 s */
	CHECK_EQ(h.f.params.bandwidth_window_us, 100000);
	take_acks(&h, 1, MS);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11102);
	h.table = &three;
	take_acks(&h, 999, MS);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11102);
	take_acks(&h, 1, MS);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11103);
	h.table = NULL;
	take_acks(&h, 1000, MS);
	CHECK_EQ(h.f.ens.clock.state, ENS_NO_STATE);
	CHECK_EQ(h.f.params.bandwidth_window_us, 100000);
}

static bool recall(struct host *h)
{
	gr_flow_recall(&h->f, &h->defaults, h->table, h->ack.now_us);
	return h->f.ens.epoch_end != ENS_WAITED;
}

TEST(a_recall_ends_the_epoch_of_a_flow_on_another_tables_row)
{
	struct ens_table two = table_of(2), three = table_of(3);
	struct host h;

	open_host(&h, &two, 1, HASH);
	CHECK(!recall(&h));				/* slow start is on no row */
	leave_slow_start(&h);
	take_acks(&h, 300, MS);
	h.table = &three;
	take_acks(&h, 1, MS);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11102);
	CHECK(recall(&h));
	CHECK_EQ(h.f.params.bandwidth_window_us, 11103);
	CHECK_EQ(h.f.ens.clock.epoch, 2);
	CHECK(!recall(&h));				/* on a row of this table already */
	CHECK_EQ(h.f.ens.clock.epoch, 2);
}

TEST(a_recall_without_a_table_puts_a_flow_on_the_hosts_parameters)
{
	struct ens_table two = table_of(2), three = table_of(3);
	struct host h;

	open_host(&h, &two, 1, HASH);
	leave_slow_start(&h);
	take_acks(&h, 300, MS);
	h.table = NULL;
	CHECK(recall(&h));
	CHECK_EQ(h.f.ens.clock.state, ENS_NO_STATE);
	CHECK_EQ(h.f.params.bandwidth_window_us, 100000);
	CHECK(!recall(&h));
	h.table = &three;				/* urgent: no epoch has to end for it */
	take_acks(&h, 300, MS);
	CHECK_EQ(h.f.params.bandwidth_window_us, 100000);
	CHECK(recall(&h));
	CHECK_EQ(h.f.params.bandwidth_window_us, 11103);
}

TEST(a_parameter_set_by_hand_counts_from_the_next_epoch)
{
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 1, HASH);
	leave_slow_start(&h);
	h.defaults.cwnd_gain_pct = 300;
	h.defaults.bandwidth_window_us = 5000;		/* the ensemble's stands */
	take_acks(&h, 999, MS);
	CHECK_EQ(h.f.params.cwnd_gain_pct, 150);
	take_acks(&h, 1, MS);
	CHECK_EQ(h.f.params.cwnd_gain_pct, 300);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11102);
}

TEST(a_silence_counts_neither_for_the_rate_nor_for_the_level)
{
	static const enum cca_event_kind kinds[] = { CCA_TRANSFER_STARTED, CCA_IDLE_RESTART };
	struct ens_table t = table_of(2);
	u32 i;

	for (i = 0; i < 2; i++) {
		struct host h;
		struct cca_event ev = { kinds[i], 0, 0, 10, MSS };
		u64 rate;

		row = (int)i + 1;
		open_host(&h, &t, 1, HASH);
		leave_slow_start(&h);
		take_acks(&h, 500, MS);
		rate = h.d.pacing_bytes_per_s;
		h.ack.now_us += 400 * MS;
		ev.now_us = h.ack.now_us;
		gr_flow_on_event(&h.f, &ev, &h.d);
		CHECK_EQ(h.d.pacing_bytes_per_s, rate);
		h.ack.now_us += 49 * MS;
		take_acks(&h, 60, MS);			/* the epoch ends within */
		CHECK_EQ(h.f.ens.clock.epoch, 2);
		CHECK_EQ(h.f.ens.clock.state, 1);
		CHECK_EQ(h.f.ens.clock.measured_bytes_per_s, 1448000);
	}
}

TEST(other_events_reach_the_algorithm_alone)
{
	struct ens_table t = table_of(2);
	struct cca_event ev = { CCA_TIMEOUT, 0, 0, 10, MSS };
	struct host h;

	open_host(&h, &t, 1, HASH);
	leave_slow_start(&h);
	take_acks(&h, 300, MS);
	ev.now_us = h.ack.now_us;
	gr_flow_on_event(&h.f, &ev, &h.d);
	CHECK_EQ(h.d.cwnd_pkts, 2);
	CHECK(!cca_rate_is_closed(&h.f.ens.clock.acked));
	/* A later slow start is no epoch 0: the clock's time goes on. */
	take_acks(&h, 10, MS);
	CHECK_EQ(h.f.gr.mode, GR_SLOW_START);
	CHECK_EQ(h.f.ens.clock.epoch, 1);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11102);
}

/* A table's epoch is for the epochs behind slow start; slow start itself has its 30 s. */
TEST(slow_start_is_epoch_0_for_30_s_whatever_the_tables_epoch)
{
	struct ens_table t = table_of(2);
	struct host h;

	open_host(&h, &t, 1, HASH);
	take_acks(&h, 29999, MS);
	CHECK_EQ(h.f.gr.mode, GR_SLOW_START);
	CHECK_EQ(h.f.ens.clock.epoch, 0);
	CHECK_EQ(h.f.params.bandwidth_window_us, 100000);
	take_acks(&h, 1, MS);
	CHECK_EQ(h.f.gr.mode, GR_SLOW_START);
	CHECK_EQ(h.f.ens.clock.epoch, 1);
	CHECK_EQ(h.f.params.bandwidth_window_us, 11102);
}

/* Epochs, levels and rates of a flow are the same wherever its counters start, wraps included. */
TEST(rows_do_not_depend_on_where_counters_start)
{
	static const struct { u64 now_us; u32 delivered_pkts; } cases[] = {
		{ 0, 0 }, { (1ull << 32) - SECOND, 0u - 900 }, { (1ull << 63) - 7, 0u - 3000 },
		{ 77, 1u << 31 },
	};
	struct ens_table t = table_of(2);
	struct host base, h;
	u32 i, k;

	for (k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		struct cca_start start = { cases[k].now_us, 50 * MS, 10, cases[k].delivered_pkts, MSS };

		row = (int)k + 1;
		open_host(&base, &t, 1, HASH);
		open_host(&h, &t, 1, HASH);
		h.ack.now_us = start.now_us;
		h.ack.delivered_pkts = start.delivered_pkts;
		gr_flow_init(&h.f, &h.defaults, &start, 1, HASH, &h.d);
		for (i = 0; i < 8000; i++) {
			u32 gap_us = i % 3000 < 1000 ? MS : MS / 3;

			base.ack.lost_pkts = h.ack.lost_pkts = i == 300;
			base.ack.app_limited = h.ack.app_limited = i % 2000 > 1900;
			take_acks(&base, 1, gap_us);
			take_acks(&h, 1, gap_us);
			CHECK(h.f.ens.epoch_end == base.f.ens.epoch_end);
			CHECK(h.f.ens.clock.measured_bytes_per_s == base.f.ens.clock.measured_bytes_per_s);
			CHECK(h.f.params.bandwidth_window_us == base.f.params.bandwidth_window_us);
			CHECK(h.d.pacing_bytes_per_s == base.d.pacing_bytes_per_s);
		}
		CHECK(h.turns[ENS_LOOKED_UP] >= 3);
	}
}

/*
 * The path's MTU halves: as many bytes come in twice as many packets. What was
 * delivered before counts at the new size until it has left the window; then
 * the bandwidth is what it was, and the level never was another.
 */
TEST(a_path_mtu_that_shrinks_is_forgotten_within_a_window)
{
	struct ens_table t = table_of(2);
	struct host h;
	u64 bandwidth;
	u32 i;

	open_host(&h, &t, 1, HASH);
	leave_slow_start(&h);
	take_acks(&h, 400, MS);
	h.ack.mss_bytes = MSS / 2;
	for (i = 0; i < 24; i++) {		/* W is 11,102 us, and merges within 1/32 of it */
		take_acks(&h, 1, MS / 2);
		bandwidth = cca_rate_of(&h.f.gr.bandwidth, h.f.gr.mss_bytes);
		CHECK(bandwidth >= 1448000 / 2 && bandwidth <= 1448000);
	}
	CHECK_EQ(bandwidth, 1448000);
	take_acks(&h, 1999, MS / 2);
	CHECK(h.f.ens.clock.epoch >= 2);
	CHECK_EQ(h.f.ens.clock.measured_bytes_per_s, 1448000);
	CHECK_EQ(h.f.ens.clock.state, 1);
}

/* What a host keeps for each socket: a kernel's private area has 104 bytes, so it is allocated. */
TEST(the_state_of_a_flow_stays_small)
{
	CHECK_EQ(sizeof(struct cca_rate_window), 536);
	CHECK(sizeof(struct gr_state) <= 640);
	CHECK(sizeof(struct gr_flow) <= 1288);
}
