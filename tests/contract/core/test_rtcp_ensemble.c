// SPDX-License-Identifier: MIT
/* kmod/core/rtcp_ensemble.h: which parameter set a flow under R-TCP is on, and when it looks a row up. */
#include "path.h"

#define RTT_LEVELS 3u
#define LIMIT_LEVELS 3u
#define HASH 12345u		/* any */
#define DEFAULT_ETA 20u
#define DEFAULT_THETA 600u

/* Row of RTT level l and limit level m: eta = 100 (1 + generation) + 3 l + m, theta = 500 + 10 l. */
static u32 values[2][RTT_LEVELS * LIMIT_LEVELS * 2];

static u32 eta(u32 generation, u32 rtt_level, u32 limit_level)
{
	return 100 * (1 + generation) + 3 * rtt_level + limit_level;
}

/* Round trips in octaves from 20 ms on, limits in octaves from 100,000 bytes/s on. */
static struct ens_table table_of(u32 generation)
{
	u32 *v = values[generation % 2];
	struct ens_table t = {
		.generation = generation, .id = CCA_ID_rtcp_cubic, .epoch_ms = 1000, .estimate_ms = 200,
		.n_axes = 2, .n_classes = 1, .classes = { { 95, 100000 } },
		.axis = { { 0, 20 * MS, 3, 1, ENS_LOG }, { 1, 100000, 3, 1, ENS_LOG } },
		.n_columns = 2, .column = { 2, 5 }, .values = v,
	};
	u32 i;

	for (i = 0; i < RTT_LEVELS * LIMIT_LEVELS; i++) {
		v[2 * i] = 500 + 10 * (i / 3);
		v[2 * i + 1] = eta(generation, i / 3, i % 3);
	}
	return t;
}

struct host {
	struct flow f;
	u32 epoch_ends[4];
};

static struct host h;
static struct rtcp_client c;

static void open_host(struct host *host, u32 id, const struct ens_table *t, u32 hash)
{
	struct cca_start start = { SECOND, 0, 10, 0, MSS };

	memset(host, 0, sizeof(*host));
	host->f.client = &c;
	open_flow(&host->f, id, &start, hash);
	host->f.table = t;
}

/* A flow of a client that is not known yet. */
static void open_new(const struct ens_table *t)
{
	rtcp_client_init(&c, SECOND);
	open_host(&h, CCA_ID_rtcp_cubic, t, HASH);
}

static void take(struct host *host, u32 count, u32 rtt_us, u32 lost_pkts)
{
	while (count--) {
		host->f.ack.lost_pkts = lost_pkts;
		take_ack(&host->f, 10 * MS, 1, rtt_us);
		host->epoch_ends[flow_ens(&host->f)->epoch_end]++;
	}
}

static void limit(u32 bytes_per_s)
{
	c.kind = RTCP_LIMITED;
	c.bytes_per_s = c.reported_rate_bytes_per_s = bytes_per_s;
	c.before_bytes_per_s = 100 * bytes_per_s;
	c.theta_permille = 600;
	c.bucket_bytes = c.token_deficit_bytes = 700000;
}

static u32 eta_of(const struct host *host)
{
	return ((const struct rtcp_params *)flow_params(&host->f))->probe_every_rounds;
}

TEST(the_first_round_trip_looks_a_row_up)
{
	struct ens_table t = table_of(2);

	open_new(&t);
	take(&h, 3, 0, 0);
	CHECK_EQ(eta_of(&h), DEFAULT_ETA);
	CHECK_EQ(h.epoch_ends[ENS_WAITED], 3);
	take(&h, 1, 50 * MS, 0);
	CHECK_EQ(h.epoch_ends[ENS_LOOKED_UP], 1);
	/* 50 ms: the octave from 40 ms on; no limit is known. */
	CHECK_EQ(h.f.rtcp_cubic.ens.flow.clock.state, 1 * LIMIT_LEVELS);
	CHECK_EQ(eta_of(&h), eta(2, 1, 0));
	CHECK_EQ(h.f.rtcp_cubic.params.rtcp.reduction_permille, 510);
	CHECK_EQ(h.f.rtcp_cubic.params.rtcp.probe_gain_permille, 200);	/* no column covers it */
	CHECK_EQ(h.f.rtcp_cubic.params.base.beta_permille, 700);
	take(&h, 20, 50 * MS, 0);
	CHECK_EQ(h.epoch_ends[ENS_LOOKED_UP], 1);
}

TEST(a_round_trip_that_is_shorter_by_an_eighth_does_so_again)
{
	struct ens_table t = table_of(2);

	open_new(&t);
	take(&h, 1, 44 * MS, 0);
	take(&h, 1, 39 * MS, 0);		/* of the octave below, but near */
	CHECK_EQ(eta_of(&h), eta(2, 1, 0));
	take(&h, 1, 38 * MS, 0);
	CHECK_EQ(eta_of(&h), eta(2, 0, 0));
	CHECK_EQ(h.epoch_ends[ENS_LOOKED_UP], 2);
	take(&h, 5, 80 * MS, 0);
	CHECK_EQ(h.epoch_ends[ENS_LOOKED_UP], 2);
}

TEST(theta_is_fixed_at_the_trigger)
{
	struct ens_table t = table_of(2), other = table_of(3);

	open_new(&t);
	take(&h, 10, 50 * MS, 0);
	CHECK_EQ(c.theta_permille, 0);
	take(&h, 40, 50 * MS, 1);		/* seven rounds of heavy loss */
	CHECK(c.fit.count);
	CHECK_EQ(c.theta_permille, 510);
	values[other.generation % 2][2 * LIMIT_LEVELS] = 700;
	h.f.table = &other;
	take(&h, 100, 50 * MS, 0);		/* an epoch later the flow has another one */
	CHECK_EQ(h.f.rtcp_cubic.params.rtcp.reduction_permille, 700);
	CHECK_EQ(c.theta_permille, 510);
}

TEST(the_limit_counts_from_the_classification_on_for_all_flows)
{
	struct ens_table t = table_of(2);
	struct host other;

	open_new(&t);
	open_host(&other, CCA_ID_rtcp_cubic, &t, HASH + 1);
	take(&h, 1, 50 * MS, 0);
	take(&other, 1, 50 * MS, 0);
	limit(250000);
	take(&h, 1, 50 * MS, 0);
	CHECK_EQ(eta_of(&h), eta(2, 1, 1));
	CHECK_EQ(eta_of(&other), eta(2, 1, 0));
	take(&other, 1, 50 * MS, 0);
	CHECK_EQ(eta_of(&other), eta(2, 1, 1));
	/* Its R is looked at with the next epoch, or transfer. */
	c.bytes_per_s = c.reported_rate_bytes_per_s = 500000;
	take(&h, 1, 50 * MS, 0);
	CHECK_EQ(eta_of(&h), eta(2, 1, 1));
	take(&h, 100, 50 * MS, 0);
	CHECK_EQ(eta_of(&h), eta(2, 1, 2));
	c.kind = RTCP_CLEARED;			/* no limit */
	take(&h, 1, 50 * MS, 0);
	CHECK_EQ(eta_of(&h), eta(2, 1, 0));
}

TEST(each_transfer_begins_with_a_look_up)
{
	static const enum cca_event_kind kinds[] = { CCA_TRANSFER_STARTED, CCA_IDLE_RESTART };
	struct ens_table t = table_of(2);
	u32 i;

	for (i = 0; i < 2; i++) {
		struct cca_event ev = { kinds[i], 0, 0, 10, MSS };

		row = (int)i + 1;
		open_new(&t);
		take(&h, 2, 50 * MS, 0);
		limit(250000);
		take(&h, 1, 50 * MS, 0);
		c.bytes_per_s = c.reported_rate_bytes_per_s = 500000;
		ev.now_us = h.f.ack.now_us;
		flow_on_event(&h.f, &ev);
		CHECK_EQ(eta_of(&h), eta(2, 1, 1));
		take(&h, 1, 50 * MS, 0);
		CHECK_EQ(eta_of(&h), eta(2, 1, 2));
		take(&h, 5, 50 * MS, 0);
		CHECK_EQ(h.epoch_ends[ENS_LOOKED_UP], 3);
	}
}

TEST(a_table_is_taken_and_left_at_a_look_up)
{
	struct ens_table first = table_of(2), second = table_of(3);

	open_new(0);
	take(&h, 5, 50 * MS, 0);
	CHECK_EQ(h.epoch_ends[ENS_KEPT], 1);
	CHECK_EQ(h.f.rtcp_cubic.ens.flow.clock.state, ENS_NO_STATE);
	h.f.table = &first;
	take(&h, 2994, 50 * MS, 0);		/* without a table an epoch is 30 s */
	CHECK_EQ(eta_of(&h), DEFAULT_ETA);
	take(&h, 2, 50 * MS, 0);
	CHECK_EQ(eta_of(&h), eta(2, 1, 0));
	h.f.table = &second;
	take(&h, 100, 50 * MS, 0);
	CHECK_EQ(eta_of(&h), eta(3, 1, 0));
	CHECK_EQ(h.f.rtcp_cubic.ens.flow.clock.generation, 3);
	h.f.table = 0;
	h.f.p.rtcp.probe_every_rounds = 30;
	take(&h, 100, 50 * MS, 0);
	CHECK_EQ(eta_of(&h), 30);
	CHECK_EQ(h.f.rtcp_cubic.params.rtcp.reduction_permille, DEFAULT_THETA);
	CHECK_EQ(h.f.rtcp_cubic.ens.flow.clock.state, ENS_NO_STATE);
}

TEST(a_recall_looks_up_at_once_or_leaves_the_table)
{
	struct ens_table first = table_of(2), second = table_of(3);

	open_new(&first);
	take(&h, 5, 50 * MS, 0);
	h.f.table = &second;
	flow_recall(&h.f, h.f.ack.now_us);
	CHECK_EQ(h.f.rtcp_cubic.ens.flow.epoch_end, ENS_LOOKED_UP);
	CHECK_EQ(eta_of(&h), eta(3, 1, 0));
	h.f.table = &second;
	flow_recall(&h.f, h.f.ack.now_us);
	CHECK_EQ(h.f.rtcp_cubic.ens.flow.epoch_end, ENS_WAITED);
	h.f.table = 0;
	flow_recall(&h.f, h.f.ack.now_us);
	CHECK_EQ(h.f.rtcp_cubic.ens.flow.epoch_end, ENS_KEPT);
	CHECK_EQ(eta_of(&h), DEFAULT_ETA);
	CHECK_EQ(h.f.rtcp_cubic.ens.flow.clock.state, ENS_NO_STATE);
}

static u32 state_of(const struct ens_table *t, const struct rtcp_client *c)
{
	struct ens_values values = rtcp_ens_values(t, c);

	return ens_state(t, ens_level(&t->axis[0], values.axis[0]), values.axis[1]);
}

/* As a parser leaves it: axes are known by name, in whatever order, and one may do. */
TEST(axes_are_known_by_name)
{
	struct cca_word rtt = { "min_rtt_us", 10 }, rate = { "limit_bytes_per_s", 17 };
	struct ens_table t = table_of(2);

	rtcp_client_init(&c, SECOND);
	c.min_rtt_us = 50 * MS;
	limit(450000);
	t.axis[0].number = cca_axis_find(CCA_ID_rtcp_cubic, rtt);
	t.axis[1].number = cca_axis_find(CCA_ID_rtcp_cubic, rate);
	CHECK_EQ(t.axis[0].number, 0);
	CHECK_EQ(t.axis[1].number, (u32)RTCP_AXIS_limit_bytes_per_s);
	CHECK_EQ(state_of(&t, &c), 1 * LIMIT_LEVELS + 2);
	t.axis[0].number = cca_axis_find(CCA_ID_rtcp_bbr, rate);
	t.axis[1].number = cca_axis_find(CCA_ID_rtcp_bbr, rtt);
	t.axis[0].step = 100000;
	t.axis[1].step = 20 * MS;
	CHECK_EQ(state_of(&t, &c), 2 * RTT_LEVELS + 1);
	t.n_axes = 1;
	CHECK_EQ(state_of(&t, &c), 2);
	c.kind = RTCP_CLEARED;
	CHECK_EQ(state_of(&t, &c), 0);
}

/* Over BBR the same, with the parameter set in force for the very next ACK. */
TEST(so_it_is_over_both_versions_of_bbr)
{
	static const u32 ids[] = { CCA_ID_rtcp_bbr, CCA_ID_rtcp_bbr3 };
	struct ens_table t = table_of(2);
	u32 i;

	for (i = 0; i < 2; i++) {
		row = (int)i + 1;
		rtcp_client_init(&c, SECOND);
		open_host(&h, ids[i], &t, HASH);
		take(&h, 1, 50 * MS, 0);
		CHECK_EQ(eta_of(&h), eta(2, 1, 0));
		limit(250000);
		take_event(&h.f, CCA_TRANSFER_STARTED, SECOND, 0);
		take(&h, 1, 50 * MS, 0);
		CHECK_EQ(eta_of(&h), eta(2, 1, 1));
		CHECK_EQ(h.epoch_ends[ENS_LOOKED_UP], 2);
	}
}

TEST(the_delay_is_what_a_sample_has_above_the_minimum)
{
	rtcp_client_init(&c, SECOND);
	CHECK_EQ(rtcp_queueing_delay_us(&c, 70 * MS), 0);
	c.min_rtt_us = 50 * MS;
	CHECK_EQ(rtcp_queueing_delay_us(&c, 70 * MS), 20 * MS);
	CHECK_EQ(rtcp_queueing_delay_us(&c, 50 * MS), 0);
	CHECK_EQ(rtcp_queueing_delay_us(&c, 0), 0);
}
