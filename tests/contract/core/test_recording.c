// SPDX-License-Identifier: MIT
/* kmod/core/recording.h, ensemble_recording.h, gr_recording.h, roccet_recording.h, rtcp_recording.h: what is put in comes out again. */
#include <stdlib.h>

#include "../replay/replay.h"

#include "check.h"

TEST(the_layout_is_fixed)
{
	CHECK_EQ(sizeof(struct rec_header), 32);
	CHECK_EQ(sizeof(struct rec_record), 128);
	CHECK(REC_SET_OUT < REC_SUM);
	CHECK(REC_VALUES <= REC_SUM);
	CHECK(CCA_MAX_PARAMS <= REC_SUM);
}

TEST(an_event_comes_back_as_it_was)
{
	struct cca_ack ack = { 1ull << 40, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 0 }, ack_back;
	struct cca_event ev = { CCA_IDLE_RESTART, 77, 1, 2, 3 }, ev_back;
	struct cca_start start = { 5, 6, 7, 8, 9 }, start_back;
	struct cca_window w = { 1, 2, 3 }, w_back;
	struct rec_record r;

	memset(&ack_back, 0, sizeof(ack_back));
	memset(&ev_back, 0, sizeof(ev_back));
	rec_init(&r, REC_ACK, 3, ack.now_us);
	rec_put_ack(&r, &ack);
	rec_get_ack(&r, &ack_back);
	CHECK_EQ(ack_back.now_us, ack.now_us);
	CHECK_EQ(ack_back.rtt_us, 1);
	CHECK_EQ(ack_back.mss_bytes, 9);
	CHECK_EQ(ack_back.tx_inflight_pkts, 10);
	CHECK_EQ(ack_back.lost_since_pkts, 11);
	CHECK_EQ(ack_back.app_limited, 1);
	CHECK_EQ(ack_back.cwnd_limited, 0);
	rec_init(&r, REC_EVENT, 3, ev.now_us);
	rec_put_event(&r, &ev);
	rec_get_event(&r, &ev_back);
	CHECK_EQ(ev_back.kind, CCA_IDLE_RESTART);
	CHECK_EQ(ev_back.now_us, 77);
	CHECK_EQ(ev_back.mss_bytes, 3);
	rec_init(&r, REC_START, 3, start.now_us);
	rec_put_start(&r, &start, 2, 11, 12);
	rec_get_start(&r, &start_back);
	CHECK(!memcmp(&start, &start_back, sizeof(start)));
	CHECK_EQ(r.delay_class, 2);
	CHECK_EQ(r.word[REC_HASH], 11);
	CHECK_EQ(r.params, 12);
	rec_init(&r, REC_GROW, 3, 0);
	rec_put_window(&r, &w);
	rec_get_window(&r, &w_back);
	CHECK(!memcmp(&w, &w_back, sizeof(w)));
}

TEST(a_sum_changes_with_every_bit)
{
	struct rec_record r;
	unsigned char *bytes = (unsigned char *)&r;
	u32 i;

	rec_init(&r, REC_ACK, 1, 2);
	rec_finish(&r);
	for (i = 0; i < 8 * (sizeof(r) - sizeof(u32)); i++) {
		bytes[i / 8] = (unsigned char)(bytes[i / 8] ^ 1u << i % 8);
		CHECK(rec_sum(&r) != r.word[REC_SUM]);
		bytes[i / 8] = (unsigned char)(bytes[i / 8] ^ 1u << i % 8);
	}
	CHECK_EQ(rec_sum(&r), r.word[REC_SUM]);
}

TEST(parameters_come_back)
{
	struct gr_params p, back;
	struct rec_record r;

	cca_params_init(&p, CCA_ID_gr);
	memset(&back, 0, sizeof(back));
	rec_init(&r, REC_PARAMS, 0, 0);
	rec_put_params(&r, &p, CCA_ID_gr, 9);
	rec_get_params(&r, &back, CCA_ID_gr);
	CHECK(!memcmp(&p, &back, sizeof(p)));
	CHECK_EQ(rec_set_sum(&p, CCA_ID_gr), rec_set_sum(&back, CCA_ID_gr));
	back.loss_hold_permille++;
	CHECK(rec_set_sum(&p, CCA_ID_gr) != rec_set_sum(&back, CCA_ID_gr));
	CHECK_EQ(rec_set_sum(&p, CCA_ID_reno), 2166136261u);
}

/* Two axes, one of them logarithmic, and more values than a record holds. */
TEST(a_table_comes_back)
{
	static u32 values[64 * 3 * 2 * 3], values_back[64 * 3 * 2 * 3];
	static struct ens_table back = { .values = values_back }, t = {
		.generation = 1ull << 33, .epoch_ms = 1, .estimate_ms = 2, .epsilon_pct = 3,
		.hold_back_permille = 4, .n_axes = 2, .n_classes = 2, .classes = { { 0, 0 }, { 95, 50000 } },
		.axis = { { 0, 125000, 64, 0, ENS_LINEAR }, { 1, 1000, 3, 5, ENS_LOG } },
		.n_columns = 3, .column = { 0, 0, 5 }, .values = values,
	};
	struct rec_record r;
	u32 i;

	for (i = 0; i < 64 * 3 * 2 * 3; i++)
		values[i] = i * 2654435761u;
	CHECK_EQ(rec_table_records(&t), 3 + 58);
	for (i = 0; i < rec_table_records(&t); i++) {
		rec_init(&r, REC_NOTHING, 0, 0);
		rec_put_table(&r, &t, i);
		CHECK_EQ(r.kind, i < 3 ? REC_TABLE : REC_VALUE);
		if (r.kind == REC_TABLE)
			rec_get_table(&r, &back);
		else
			rec_get_values(&r, values_back, 64 * 3 * 2 * 3);
	}
	CHECK(!memcmp(values, values_back, sizeof(values)));
	back.values = values;
	CHECK(!memcmp(&t, &back, sizeof(t)));
}

/* R-TCP: in parts, in whatever order; every bit of it is in the sum that each record has. */
TEST(a_client_comes_back_as_it_was)
{
	struct rtcp_client c, back;
	unsigned char *bytes = (unsigned char *)&c;
	struct rec_record parts[RTCP_REC_PARTS];
	struct rtcp_flow f;
	u32 i, sum;

	for (i = 0; i < sizeof(c); i++)
		bytes[i] = (unsigned char)(7 * i + 3);
	memset(&f, 0x5a, sizeof(f));
	memset(&back, 0, sizeof(back));
	for (i = 0; i < RTCP_REC_PARTS; i++) {
		rec_init(&parts[i], (enum rec_kind)RTCP_REC_CLIENT, 0, 0);
		rtcp_put_client(&parts[i], &c, 99, i);
		rec_finish(&parts[i]);
		CHECK_EQ(parts[i].word[RTCP_REC_NUMBER], 99);
		CHECK_EQ(parts[i].word[REC_SUM], rec_sum(&parts[i]));
	}
	for (i = RTCP_REC_PARTS; i > 0; i--)
		rtcp_get_client(&parts[i - 1], &back);
	CHECK(!memcmp(&c, &back, sizeof(c)));
	sum = rtcp_states_sum(&c, &f);
	for (i = 0; i < 8 * sizeof(c); i++) {
		bytes[i / 8] = (unsigned char)(bytes[i / 8] ^ 1u << i % 8);
		CHECK(rtcp_states_sum(&c, &f) != sum);
		bytes[i / 8] = (unsigned char)(bytes[i / 8] ^ 1u << i % 8);
	}
	f.spared ^= 1;
	CHECK(rtcp_states_sum(&c, &f) != sum);
}
