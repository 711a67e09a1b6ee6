// SPDX-License-Identifier: MIT
/* kmod/core/sira.h, sira_window.h, sira_model.h, sira_flow.h: equations 1 to 11 of the paper, and what it leaves open. */
#define ONLY_ID SIRA_ALONE
#include "path.h"

static struct flow f;
static struct path loop;

#define STATE (&f.sira_alone)
#define WINDOW (&f.sira_alone.window)
#define M_MS 500u			/* M Delta of Table 2 */

/* An ACK of one packet was taken, so that intervals run. compensation: 0 SIRA, 2 SIRA-H. */
static void open_sira(u32 compensation, u32 rtt_us)
{
	struct cca_start start = { SECOND, rtt_us, 10, 0, MSS };

	open_flow(&f, SIRA_ALONE, &start, 0);
	f.p.sira.compensation = compensation;
	f.ack.inflight_pkts = 50;
}

/* The window holds pkts, all of them in intervals that have ended. */
static void set_window(u32 pkts)
{
	u32 i;

	sira_window_fill(WINDOW, 250, 0);
	for (i = 0; i < 250; i++)
		sira_window_end(WINDOW, pkts / 250 + (i < pkts % 250), 1);
}

static void set_delay(u32 min_rtt_us, u32 rtt_us)
{
	STATE->min_rtt_us = min_rtt_us;
	STATE->srtt_us_q3 = rtt_us << 3;
	STATE->min_rtt_at_us = f.ack.now_us;
	STATE->mode = SIRA_COMPENSATE;
}

/* --- eq. 1 to 3 --------------------------------------------------------------------- */

/* M = 4, X Delta = 10 packets. Eq. 2 for R_1 to R_4, eq. 3 from R_5 on, in packets per 4 intervals. */
TEST(rates_follow_equations_2_and_3)
{
	static const struct { u32 acked_pkts, total_pkts; } cases[] = {
		{ 2, 32 },	/* 10 x 3 + 2 */
		{ 6, 28 },	/* 10 x 2 + 2 + 6 */
		{ 0, 18 },
		{ 12, 20 },	/* 2 + 6 + 0 + 12 */
		{ 1, 19 },	/* 6 + 0 + 12 + 1 */
		{ 0, 13 },
	};
	static struct sira_window w;
	u64 sent = 0, before = 40;

	memset(&w, 0xa5, sizeof(w));
	sira_window_fill(&w, 4, 40);
	CHECK_EQ(sira_window_total(&w), 4 * 40);
	FOR_ROWS(cases) {
		CHECK_EQ(sira_window_is_first(&w), row <= 4);
		/* An interval sends R_i Delta, which is a quarter of the window before it. */
		sent = sira_window_end(&w, c->acked_pkts, 1);
		CHECK_EQ(sent, 4 * before);
		CHECK_EQ(sira_window_total(&w), 4 * c->total_pkts);
		before = c->total_pkts;
	}
}

/* Each packet makes SIRA send one packet, in M equal parts. */
TEST(what_is_due_is_what_would_still_be_sent)
{
	static struct sira_window w;
	u64 sent = 0;
	u32 i;

	memset(&w, 0xa5, sizeof(w));
	sira_window_fill(&w, 4, 40);
	CHECK_EQ(w.due, 10 * (4 + 3 + 2 + 1) * 4);
	sira_window_fill(&w, 4, 0);
	sent = sira_window_end(&w, 3, 1);
	CHECK_EQ(sent, 0);
	CHECK_EQ(w.due, 3 * 16);
	for (i = 0; i < 4; i++)
		sent += sira_window_end(&w, 0, 1);
	CHECK_EQ(sent, 3 * 16);
	CHECK_EQ(w.due, 0);
	/* The same in one step, and whatever follows. */
	sira_window_fill(&w, 4, 0);
	CHECK_EQ(sira_window_end(&w, 3, 5), 3 * 16);
	CHECK_EQ(sira_window_end(&w, 0, 0xffffffffu), 0);
	CHECK_EQ(sira_window_total(&w), 0);
}

/* Table 2: X = 12 Mbit/s, M = 250, Delta = 2 ms. That is 518 packets of 1448 bytes. */
TEST(startup_sends_at_x_until_the_first_ack)
{
	open_sira(0, 50000);
	CHECK_EQ(STATE->mode, SIRA_STARTUP);
	CHECK_EQ(f.d.pacing_bytes_per_s, 1500000);
	CHECK(f.d.cwnd_pkts > 518);
	take_ack(&f, 50 * MS, 1, 50000);
	CHECK_EQ(STATE->mode, SIRA_COMPENSATE);
	CHECK_EQ(sira_window_total(WINDOW), 518 * 250);
	/* No ACK for 100 ms, 50 intervals: R = X 200 / 250. The first ACK belongs to interval 1. */
	take_ack(&f, 100 * MS, 1, 50000);
	CHECK_EQ(sira_window_total(WINDOW), 518 * 200 + 1 * 250);
	CHECK_EQ(sira_bandwidth(STATE), (518 * 200 + 250) * 1448ull / 250 * 2);
}

/* --- eq. 4 to 7 --------------------------------------------------------------------- */

TEST(the_round_trip_is_smoothed_by_an_eighth)
{
	open_sira(2, 0);
	take_ack(&f, MS, 1, 100000);
	CHECK_EQ(sira_rtt_us(STATE), 100000);
	take_ack(&f, MS, 1, 180000);
	CHECK_EQ(sira_rtt_us(STATE), 110000);	/* 0.875 x 100 + 0.125 x 180 */
	take_ack(&f, MS, 1, 0);			/* no sample */
	CHECK_EQ(sira_rtt_us(STATE), 110000);
	CHECK_EQ(STATE->min_rtt_us, 100000);
}

/* Eq. 4 alone would need 20 of such ACKs to come within 10 % of the last RTT. */
TEST(a_slow_flow_forgets_a_long_round_trip_in_two)
{
	open_sira(2, 0);
	take_ack(&f, MS, 1, 100 * MS);
	take_ack(&f, 600 * MS, 1, 600 * MS);
	take_ack(&f, 100 * MS, 1, 600 * MS);	/* in the same round trip */
	CHECK_EQ(sira_rtt_us(STATE), 217187);	/* eq. 4 */
	take_ack(&f, 100 * MS, 1, 120 * MS);
	CHECK_EQ(sira_rtt_us(STATE), 205039);	/* still eq. 4, as one of 600 ms is recent */
	take_ack(&f, 500 * MS, 1, 110 * MS);	/* sent in the next round trip */
	take_ack(&f, 110 * MS, 1, 100 * MS);
	CHECK_EQ(sira_rtt_us(STATE), 110 * MS);	/* the greatest of this one and the last */
}

/* R = 1,000,000 bytes/s is 345 packets in 500 ms; D = 50 ms, T = 10 ms. */
TEST(above_the_threshold_the_rate_falls_by_equation_6)
{
	static const struct { u32 compensation, rtt_us; u64 rate; enum sira_mode mode; } cases[] = {
		{ 2, 60000, 999120, SIRA_COMPENSATE },	/* 345 x 1448 / 0.5 s */
		{ 2, 60001, 999103, SIRA_REDUCE },	/* x 60000 / 60001 */
		{ 1, 80000, 749340, SIRA_REDUCE },	/* x 60 / 80 */
		{ 2, 80000, 749340, SIRA_REDUCE },
		{ 0, 80000, 999120, SIRA_COMPENSATE },	/* SIRA */
	};

	FOR_ROWS(cases) {
		open_sira(c->compensation, 50000);
		set_window(345);
		set_delay(50000, c->rtt_us);
		sira_take_state(STATE, &f.p.sira, f.ack.now_us);
		sira_take_rate(STATE, &f.p.sira);
		CHECK_EQ(STATE->mode, c->mode);
		CHECK_EQ(STATE->rate_bytes_per_s, c->rate);
	}
}

/* 250 packets in a window of 500 ms, D = 50 ms: 25 packets too few or too many change the rate by a tenth. */
TEST(what_was_not_sent_is_sent_in_the_next_window)
{
	static const struct { u32 behind_pkts, ahead_pkts; u64 rate; } cases[] = {
		{ 0, 0, 724000 }, { 25, 0, 796400 }, { 0, 25, 651600 }, { 0, 400, 28960 },
	};

	FOR_ROWS(cases) {
		open_sira(2, 50000);
		set_window(250);
		set_delay(50000, 50000);
		sira_weigh(&STATE->sending, sira_parts(STATE, c->behind_pkts),
			   sira_parts(STATE, c->ahead_pkts));
		sira_take_rate(STATE, &f.p.sira);
		CHECK_EQ(STATE->rate_bytes_per_s, c->rate);	/* at least a packet a round trip */
	}
}

/* A queue that is empty by eq. 8 is no reason to reduce: at 10 packets/s the delay is two packets. */
TEST(an_empty_queue_does_not_reduce_the_rate)
{
	open_sira(2, 50000);
	set_window(5);
	set_delay(50000, 150000);
	CHECK_EQ(sira_queue_pkts(STATE), 0);
	sira_take_state(STATE, &f.p.sira, f.ack.now_us);
	CHECK_EQ(STATE->mode, SIRA_COMPENSATE);
}

/* R = 250 packets in 500 ms is 1 packet an interval. In 10 intervals 4 are sent. */
TEST(unsent_data_is_what_sira_would_have_sent_more)
{
	open_sira(2, 50000);
	take_ack(&f, MS, 1, 50000);
	set_window(250);
	set_delay(50000, 90000);
	STATE->mode = SIRA_REDUCE;
	STATE->open_pkts = 0;
	sira_take_sent(STATE, &f.ack);
	f.ack.inflight_pkts += 4;
	sira_move_window(STATE, &f.p.sira, &f.ack, 10);
	/* R falls while no ACK comes: 250 + 249 + ... + 241 in 250ths of a packet. */
	CHECK_EQ(STATE->unsent.behind, (2455 - 4 * 250) * 250);
	CHECK_EQ(STATE->unsent_count, 10);
	CHECK_EQ(STATE->sn_count, 10);
	/* Negative u_i cancel: 20 packets in the next interval. */
	f.ack.inflight_pkts += 20;
	sira_move_window(STATE, &f.p.sira, &f.ack, 1);
	CHECK_EQ(STATE->unsent.behind, 0);
	CHECK_EQ(STATE->unsent.ahead, (20 * 250 - 240 - (2455 - 4 * 250)) * 250);
}

/* --- eq. 8 to 11 -------------------------------------------------------------------- */

/* 690 packets in 500 ms are 0.725 ms each; l is the least x with (x + 1) t > d - D - t. */
TEST(the_queue_is_what_the_delay_holds)
{
	static const struct { u32 pkts, delay_us, queue_pkts; } cases[] = {
		{ 690, 0, 0 },
		{ 690, 1449, 0 },	/* 2 t - 1 us */
		{ 690, 1450, 1 },
		{ 690, 5000, 5 },	/* 6.9 t: below L_q */
		{ 690, 5100, 6 },	/* 7.04 t */
		{ 0, 5000, 0 },
	};

	FOR_ROWS(cases) {
		open_sira(2, 50000);
		set_window(c->pkts);
		set_delay(50000, 50000 + c->delay_us);
		CHECK_EQ(sira_queue_pkts(STATE), c->queue_pkts);
	}
}

/* 10 intervals of REDUCE have 20 packets unsent, and two of their last packets are acknowledged. */
TEST(h1_gives_back_where_the_queue_is_short)
{
	static const struct {
		u32 delay_us, l_u; bool stays; u32 window_pkts, once_pkts, left_pkts, intervals;
	} cases[] = {
		{ 5000, 1, true, 694, 0, 16, 8 },	/* l = 5 < L_q: 2 x 1 x 2 packets */
		{ 5000, 3, true, 702, 0, 8, 4 },	/* 2 x 3 x 2 packets */
		{ 5000, 64, true, 710, 0, 0, 0 },
		{ 5000, 1, false, 690, 4, 16, 8 },	/* eq. 9: in this interval alone */
		{ 5100, 1, true, 690, 0, 20, 10 },	/* l = 6 */
	};

	FOR_ROWS(cases) {
		open_sira(1, 50000);
		set_window(690);
		set_delay(50000, 50000 + c->delay_us);
		f.p.sira.compensated_intervals = c->l_u;
		f.p.sira.credit_stays = c->stays;
		sira_weigh(&STATE->unsent, sira_parts(STATE, 20), 0);
		STATE->unsent_count = 10;
		STATE->sn_count = 10;
		/* Their intervals ended at 1 s, 1.002 s, ...; the newest packet was sent at 1.003 s. */
		STATE->first_sn_us = SECOND;
		STATE->acked_sent_us = SECOND + 3 * MS;
		sira_compensate(STATE, &f.p.sira, 1, f.ack.now_us);
		CHECK_EQ(STATE->sn_count, 8);
		CHECK_EQ(sira_window_pkts(STATE), c->window_pkts);
		CHECK_EQ(STATE->once_pkts, c->once_pkts);
		CHECK_EQ(STATE->unsent.behind, sira_parts(STATE, c->left_pkts));
		CHECK_EQ(STATE->unsent_count, c->intervals);
		sira_take_rate(STATE, &f.p.sira);
		CHECK_EQ(STATE->rate_bytes_per_s, (c->window_pkts + c->once_pkts) * 1448ull * 2);
		/* Only this interval's. */
		sira_compensate(STATE, &f.p.sira, 1, f.ack.now_us);
		CHECK_EQ(STATE->once_pkts, 0);
	}
}

/* Of three states REDUCE 5, 7 and 11 packets are left. D = 50 ms is 25 intervals. */
TEST(h2_gives_back_the_rest_after_an_empty_round_trip)
{
	static const struct {
		u32 compensation, l_max, empty, full, pkts;
	} cases[] = {
		{ 2, 1, 25, 0, 11 },
		{ 2, 2, 25, 0, 18 },
		{ 2, 8, 25, 0, 23 },
		{ 2, 0, 25, 0, 0 },
		{ 2, 1, 17, 8, 11 },	/* 68 % */
		{ 2, 1, 16, 9, 0 },	/* 64 % */
		{ 1, 1, 25, 0, 0 },
	};

	FOR_ROWS(cases) {
		static const u32 pkts[] = { 5, 7, 11 };
		u32 i;

		open_sira(c->compensation, 50000);
		set_window(690);
		f.p.sira.residuals = c->l_max;
		f.p.sira.probing = 0;
		for (i = 0; i < 3; i++) {
			sira_weigh(&STATE->unsent, sira_parts(STATE, pkts[i]), 0);
			sira_keep_residual(STATE, &f.p.sira);
			CHECK_EQ(STATE->unsent.behind, 0);
		}
		set_delay(50000, 51450);	/* l = 1 */
		sira_compensate(STATE, &f.p.sira, c->full, f.ack.now_us);
		set_delay(50000, 50000);
		sira_compensate(STATE, &f.p.sira, c->empty, f.ack.now_us);
		CHECK_EQ(sira_window_pkts(STATE), 690 + c->pkts);
	}
}

/* ACKs at 1 packet an interval while d is above D + T/2: the link carries 250 packets in a window. */
TEST(data_is_given_back_up_to_the_rate_of_the_link)
{
	static const struct { u32 probing, window_pkts, given_pkts; } cases[] = {
		{ 1, 200, 50 }, { 1, 249, 1 }, { 1, 250, 0 }, { 1, 400, 0 }, { 0, 400, 100 },
	};

	FOR_ROWS(cases) {
		u32 i;

		open_sira(2, 50000);
		set_delay(50000, 56000);
		for (i = 0; i < 125; i++)
			sira_measure_link(STATE, &f.p.sira, 2, 2);
		CHECK_EQ(STATE->link_pkts_q8, 250 << 8);
		/* Without a queue nothing is learnt of the link. */
		set_delay(50000, 55000);
		sira_measure_link(STATE, &f.p.sira, 0, 100);
		CHECK_EQ(STATE->link_pkts_q8, 250 << 8);
		set_window(c->window_pkts);
		f.p.sira.probing = c->probing;
		CHECK_EQ(sira_bound(STATE, &f.p.sira, 100), c->given_pkts);
	}
}

/* --- what the paper lacks ------------------------------------------------------------ */

TEST(a_rate_that_leaves_the_queue_short_rises_by_an_eighth)
{
	static const struct { u32 probing, delay_us, lost_pkts, window_pkts; } cases[] = {
		{ 1, 5000, 0, 776 },	/* T/2; 690 / 8 = 86 */
		{ 1, 5001, 0, 690 },
		{ 0, 5000, 0, 690 },
		{ 1, 5000, 1, 690 },	/* more lost than is allowed */
	};

	FOR_ROWS(cases) {
		open_sira(2, 50000);
		set_window(690);
		set_delay(50000, 50000 + c->delay_us);
		f.p.sira.probing = c->probing;
		f.ack.lost_pkts = c->lost_pkts;
		sira_count_lost(STATE, &f.p.sira, &f.ack);
		sira_compensate(STATE, &f.p.sira, 30, f.ack.now_us);
		CHECK_EQ(sira_window_pkts(STATE), c->window_pkts);
		/* Not again within a quarter of the window. */
		sira_compensate(STATE, &f.p.sira, 30, f.ack.now_us + 124 * MS);
		CHECK_EQ(sira_window_pkts(STATE), c->window_pkts);
	}
}

/* After 10 s without a d within T/2 of D: half the rate for two d, and the least d of that time is D. */
TEST(a_longer_path_is_learnt_in_drain)
{
	open_sira(2, 50000);
	f.p.sira.min_rtt_window_ms = 10000;
	take_ack(&f, MS, 1, 50000);
	take_acks(&f, 4000, 2500, 100000);
	CHECK_EQ(STATE->min_rtt_us, 50000);
	CHECK_EQ(STATE->mode, SIRA_REDUCE);
	take_acks(&f, 20, 2500, 100000);
	CHECK_EQ(STATE->mode, SIRA_DRAIN);
	CHECK_EQ(f.d.pacing_bytes_per_s, sira_bandwidth(STATE) / 2);
	take_acks(&f, 100, 2500, 100000);
	CHECK_EQ(STATE->min_rtt_us, 100000);
	CHECK_EQ(STATE->mode, SIRA_COMPENSATE);
}

TEST(the_rate_never_falls_below_a_packet_a_round_trip)
{
	u32 i;

	open_sira(0, 100000);
	f.p.sira.probing = 0;
	take_ack(&f, 100 * MS, 1, 100000);
	f.ack.inflight_pkts += 260;		/* what was due */
	take_ack(&f, 900 * MS, 0, 0);
	f.ack.inflight_pkts += 1;
	take_ack(&f, 900 * MS, 0, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, 14480);
	CHECK_EQ(f.d.cwnd_pkts, 311 + 2);
	/* From there it comes back as ACKs do. */
	for (i = 0; i < 50; i++) {
		f.ack.inflight_pkts--;
		take_ack(&f, 2 * MS, 1, 100000);
	}
	CHECK(f.d.pacing_bytes_per_s >= 49 * 1448 * 2);
}

/* Packets in flight and due packets are all that cwnd allows. */
TEST(the_window_is_what_is_in_flight_and_due)
{
	open_sira(0, 20000);
	take_ack(&f, 20 * MS, 1, 20000);
	CHECK_EQ(f.d.cwnd_pkts, 50 + 260 + 1 + 2);	/* 518 x 251 / 500 due, 1 in this interval */
	take_event(&f, CCA_TIMEOUT, 300 * MS, 0);
	CHECK_EQ(f.d.cwnd_pkts, 2);
	f.ack.inflight_pkts = 1;
	take_ack(&f, 100 * MS, 1, 0);
	CHECK_EQ(f.d.cwnd_pkts, 1 + 260 + 1 + 2);
}

/* Of 2 %, for 100 delivered packets 2 lost ones count. */
TEST(lost_packets_count_as_acknowledged_up_to_a_share)
{
	open_sira(2, 50000);
	take_ack(&f, MS, 1, 50000);
	take_ack(&f, MS, 99, 50000);
	CHECK_EQ(STATE->lossy, 0);
	f.ack.acked_pkts = 0;
	f.ack.lost_pkts = 5;
	CHECK_EQ(sira_count_lost(STATE, &f.p.sira, &f.ack), 2);
	CHECK_EQ(STATE->lossy, 1);
	CHECK_EQ(STATE->lost_pkts, 5);
	CHECK_EQ(STATE->allowance, 0);
}

TEST(the_window_rests_while_the_application_limits_the_flow)
{
	u64 total;

	open_sira(2, 50000);
	take_ack(&f, MS, 1, 50000);
	take_acks(&f, 1000, 2 * MS, 50000);
	total = sira_window_total(WINDOW);
	f.ack.app_limited = 1;
	take_acks(&f, 1000, 20 * MS, 50000);
	CHECK_EQ(sira_window_total(WINDOW), total);
	/* And in a silence, and the round trip after it. */
	f.ack.app_limited = 0;
	take_event(&f, CCA_IDLE_RESTART, 5 * SECOND, 0);
	take_ack(&f, 50 * MS, 1, 50000);
	CHECK_EQ(sira_window_total(WINDOW), total);
	CHECK_EQ(STATE->outage, 0);
}

TEST(round_trips_that_contain_an_outage_do_not_count)
{
	open_sira(2, 50000);
	take_ack(&f, MS, 1, 50000);
	take_ack(&f, 2 * SECOND, 1, 2 * SECOND);
	CHECK_EQ(STATE->outage, 1);
	take_ack(&f, 10 * MS, 1, 1900 * MS);
	CHECK_EQ(sira_rtt_us(STATE), 50000);
	take_ack(&f, 60 * MS, 1, 66000);		/* sent after the outage */
	CHECK_EQ(STATE->outage, 0);
	CHECK_EQ(sira_rtt_us(STATE), 52000);
}

TEST(a_mark_halves_the_window_once_in_a_round_trip)
{
	open_sira(2, 50000);
	take_ack(&f, MS, 1, 50000);
	take_event(&f, CCA_ECN, MS, 50);
	CHECK_EQ(sira_window_pkts(STATE), 259);
	take_event(&f, CCA_ECN, 49 * MS, 50);
	CHECK_EQ(sira_window_pkts(STATE), 259);
	take_event(&f, CCA_ECN, 2 * MS, 50);
	CHECK_EQ(sira_window_pkts(STATE), 130);	/* 129.5 */
}

TEST(a_window_of_another_length_keeps_the_rate)
{
	u64 rate;

	open_sira(0, 50000);
	take_ack(&f, MS, 1, 50000);
	take_acks(&f, 1000, 2 * MS, 50000);
	rate = sira_bandwidth(STATE);
	f.p.sira.window_intervals = 100;
	take_ack(&f, 2 * MS, 1, 50000);
	CHECK_EQ(WINDOW->intervals, 100);
	CHECK(sira_bandwidth(STATE) > rate / 100 * 99);
	CHECK(sira_bandwidth(STATE) < rate / 100 * 101);
}

/*
 * A link without a queue, whose ACKs come every 40 ms: what is sent in one gap is acknowledged after
 * the next one. A sender that miscounts by a part of the gap dies or grows: 4 % each time.
 */
TEST(bunches_of_acks_neither_raise_nor_lower_the_rate)
{
	u64 sent_bytes = 0, rate = 0;
	u32 i, pkts;

	open_sira(0, 40000);
	f.p.sira.probing = 0;
	take_ack(&f, 40 * MS, 1, 40000);
	for (i = 0; i < 2500; i++) {		/* 100 s */
		f.ack.inflight_pkts = 0;
		sent_bytes += f.d.pacing_bytes_per_s * 40 / 1000;
		pkts = (u32)(sent_bytes / MSS);
		sent_bytes %= MSS;
		f.ack.inflight_pkts = pkts;	/* before this ACK */
		take_ack(&f, 40 * MS, 0, 40000);
		f.ack.inflight_pkts = 0;
		take_ack(&f, 0, pkts, 40000);
		if (i == 50)
			rate = f.d.pacing_bytes_per_s;
	}
	CHECK(f.d.pacing_bytes_per_s > rate / 100 * 97);
	CHECK(f.d.pacing_bytes_per_s < rate / 100 * 103);
}

/* A packet every 1.5 ms is 8 Mbit/s, below X. SIRA keeps the queue of its startup, SIRA-H empties it. */
TEST(on_a_path_sira_keeps_a_queue_and_sira_h_does_not)
{
	static const struct { u32 compensation, least_us, most_us; } cases[] = {
		/* C = 7.72 Mbit/s: (X 51.5 ms + (X - C) 500 ms / 2) / C, without the RTT of 50 ms: 168.5 ms */
		{ 0, 165000, 170000 },
		{ 2, 0, 40000 },
	};

	FOR_ROWS(cases) {
		struct cca_start start;

		path_open(&loop, 1500, 50000, 0xffffffffu);
		start = path_start(&loop);
		open_flow(&loop.f, SIRA_ALONE, &start, 0);
		loop.f.p.sira.compensation = c->compensation;
		path_run(&loop, 10 * SECOND);
		path_count_anew(&loop);
		path_run(&loop, 20 * SECOND);
		CHECK(loop.counted_pkts >= 20000 / 1.5 * 0.98);
		CHECK(loop.largest_delay_us >= c->least_us);
		CHECK(loop.largest_delay_us <= c->most_us);
	}
}
