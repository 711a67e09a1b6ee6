// SPDX-License-Identifier: MIT
/* kmod/core/cubic_ensemble.h, bbr_ensemble.h: what a row changes in CUBIC and BBR. */
#include "path.h"

#define RTT_US (50 * MS)

static struct flow f;
static u32 values[2][2];

/* Level 0 is below 1 Mbyte/s, and level 1 above. */
static struct ens_table table_of(u32 id, u32 column, u32 below, u32 above)
{
	static u32 generation;
	u32 *v = values[++generation % 2];
	struct ens_table t = {
		.generation = generation, .id = id, .epoch_ms = 1000, .estimate_ms = 200, .n_axes = 1,
		.axis = { { 0, 1000000, 2, 0, ENS_LINEAR } }, .n_columns = 1, .column = { column }, .values = v,
	};

	v[0] = below;
	v[1] = above;
	return t;
}

static void open_on(u32 id, const struct ens_table *t)
{
	struct cca_start start = { SECOND, RTT_US, 10, 0, MSS };

	open_flow(&f, id, &start, 1);
	f.table = t;
	f.ack.inflight_pkts = 40;
}

/* --- CUBIC ------------------------------------------------------------------------- */

/* After a loss at 200 packets: K = cbrt(60 / 0.4) = 5.3 s from 140 packets on. */
static void open_cubic(const struct ens_table *t)
{
	open_on(CCA_ID_cubic, t);
	f.w.cwnd_pkts = 200;
	f.w.ssthresh_pkts = flow_ssthresh(&f);
	f.w.cwnd_pkts = f.w.ssthresh_pkts;
	CHECK_EQ(f.w.cwnd_pkts, 140);
}

/* Where only K was for the old C, the window would jump to the plateau within two seconds. */
TEST(another_c_starts_the_curve_anew_at_the_window_and_the_same_one_does_not)
{
	static const struct { u32 c_permille; bool anew; } cases[] = { { 400, false }, { 4000, true }, { 40, true } };

	FOR_ROWS(cases) {
		struct ens_table t = table_of(CCA_ID_cubic, 0, 300, c->c_permille);
		u32 cwnd_pkts;
		u64 now_us;

		open_cubic(NULL);
		f.p.cubic.reno_friendly = f.cubic_rows.params.reno_friendly = 0;
		take_acks(&f, 900, MS, RTT_US);
		f.table = &t;
		now_us = f.ack.now_us;
		cwnd_pkts = f.w.cwnd_pkts;
		flow_recall(&f, now_us);
		CHECK_EQ(f.cubic_rows.params.c_permille, c->c_permille);
		take_acks(&f, 1, MS, RTT_US);
		CHECK_EQ(f.cubic_rows.cubic.epoch_start_us == now_us + MS, c->anew);
		if (c->anew)
			CHECK_EQ(f.cubic_rows.cubic.k_q10s,
				 cubic_k_q10s(&f.cubic_rows.params, 200 - cwnd_pkts));
		take_acks(&f, 200, MS, RTT_US);
		CHECK(f.w.cwnd_pkts >= cwnd_pkts && f.w.cwnd_pkts < 200);
	}
}

TEST(the_share_that_a_loss_leaves_is_the_rows)
{
	struct ens_table t = table_of(CCA_ID_cubic, 1, 500, 850);

	open_cubic(&t);
	take_acks(&f, 1300, MS, RTT_US);
	f.w.cwnd_pkts = 100;
	CHECK_EQ(flow_ssthresh(&f), 85);
}

TEST(a_timeout_forgets_cubics_round_trip_but_not_the_connections)
{
	open_on(CCA_ID_cubic, NULL);
	take_acks(&f, 20, MS, RTT_US);
	take_event(&f, CCA_TIMEOUT, MS, 0);
	CHECK_EQ(f.cubic_rows.cubic.min_rtt_us, 0);
	take_acks(&f, 20, MS, 3 * RTT_US);
	CHECK_EQ(cubic_axis_value(&f.cubic_rows, CUBIC_AXIS_min_rtt_us), RTT_US);
	CHECK_EQ(ens_queueing_delay_us(f.cubic_rows.min_rtt_us, 3 * RTT_US), 2 * RTT_US);
	CHECK_EQ(ens_queueing_delay_us(f.cubic_rows.min_rtt_us, 0), 0);
	CHECK_EQ(ens_queueing_delay_us(0, RTT_US), 0);
}

/* --- BBR ------------------------------------------------------------------------------- */

/* 2 Mbyte/s: the second level. */
static void rounds(u32 count, u32 rtt_us)
{
	while (count--)
		take_round(&f, 70, rtt_us);
}

/* The column, its value in the row, and the pacing rate as a share of the bandwidth at that gain. */
TEST(bbrs_pacing_follows_the_row)
{
	static const struct { u32 id, column, value, permille; } cases[] = {
		{ CCA_ID_bbr, 7, 100, 900 },	/* pacing_margin_permille, at the gain 1 */
		{ CCA_ID_bbr3, 14, 200, 800 },
	};

	FOR_ROWS(cases) {
		struct ens_table t = table_of(c->id, cca_param_find(c->id, (struct cca_word) {
			"pacing_margin_permille", 22 }), 10, c->value);
		u64 most = 0, bandwidth;
		u32 i;

		open_on(c->id, &t);
		rounds(60, RTT_US);
		CHECK_EQ(flow_ens(&f)->clock.state, 1);
		bandwidth = c->id == CCA_ID_bbr ? bbr1_bandwidth(&f.bbr_rows.bbr) : bbr3_bandwidth(&f.bbr3_rows.bbr);
		for (i = 0; i < 40 && most != bandwidth * c->permille / 1000; i++) {
			rounds(1, RTT_US);
			most = f.d.pacing_bytes_per_s;
		}
		CHECK_EQ(most, bandwidth * c->permille / 1000);
	}
}

/* RTTmin of BBR is the last ten seconds', in which a queue may stand; delays count from the least. */
TEST(delays_count_from_the_least_round_trip_of_the_connection)
{
	static const u32 ids[] = { CCA_ID_bbr, CCA_ID_bbr3 };
	u32 i;

	for (i = 0; i < 2; i++) {
		open_on(ids[i], NULL);
		rounds(20, RTT_US);
		rounds(200, 2 * RTT_US);
		if (ids[i] == CCA_ID_bbr) {
			CHECK_EQ(f.bbr_rows.bbr.min_rtt_us, 2 * RTT_US);
			CHECK_EQ(bbr1_axis_value(&f.bbr_rows, BBR_AXIS_min_rtt_us), RTT_US);
		} else {
			CHECK_EQ(f.bbr3_rows.bbr.min_rtt_us, 2 * RTT_US);
			CHECK_EQ(bbr3_axis_value(&f.bbr3_rows, BBR_AXIS_min_rtt_us), RTT_US);
		}
	}
}

/* A cycle that gets shorter while it is in a phase that it no longer has goes on within it. */
TEST(a_shorter_cycle_keeps_bbrs_phase_in_range)
{
	struct ens_table t = table_of(CCA_ID_bbr, cca_param_find(CCA_ID_bbr, (struct cca_word) {
		"cycle_phases", 12 }), 3, 3);
	u32 i;

	open_on(CCA_ID_bbr, NULL);
	f.p.bbr.cycle_phases = f.bbr_rows.params.cycle_phases = 64;
	rounds(6, RTT_US);
	f.bbr_rows.bbr.phase = 60;
	f.table = &t;
	flow_recall(&f, f.ack.now_us);
	for (i = 0; i < 9; i++) {
		rounds(1, RTT_US + MS);
		CHECK(f.bbr_rows.bbr.phase < 3 || (!i && f.bbr_rows.bbr.phase == 60));
	}
}
