// SPDX-License-Identifier: MIT
/* kmod/core/gr.h: the rule of PQSA section III-A at chosen round-trip times, and what bounds it. */
#include "gr_path.h"

#define TOP 0xffffffffu

/* B = 1,000,000 bytes/s, and 800,000 in force before. */
TEST(the_rate_follows_section_3a)
{
	static const struct {
		u32 min_rtt_us, threshold_us; u64 rtt_us; bool hold, app_limited; u64 rate;
	} cases[] = {
		/* RTT > RTTmin + T: B (RTTmin + T) / RTT */
		{ 100000, 50000, 300000, false, false, 500000 },
		{ 100000, 50000, 200000, false, false, 750000 },
		{ 100000, 50000, 150001, false, false, 999993 },
		{ 100000, 50000, 200000, true, true, 750000 },
		/* RTTmin + T/2 <= RTT <= RTTmin + T: stays */
		{ 100000, 50000, 150000, false, false, 800000 },
		{ 100000, 50000, 140000, false, false, 800000 },
		{ 100000, 50000, 125000, false, false, 800000 },
		{ 100000, 50000, 125000, true, false, 800000 },
		/* RTT < RTTmin + T/2: B (1 + (RTTmin + T/2 - RTT) / RTT) */
		{ 100000, 50000, 124999, false, false, 1000008 },
		{ 100000, 50000, 112500, false, false, 1111111 },
		{ 100000, 50000, 100000, false, false, 1250000 },
		{ 20000, 200000, 20000, false, false, 6000000 },
		/* after loss: at most B */
		{ 100000, 50000, 100000, true, false, 1000000 },
		/* T is odd: T/2 is rounded down */
		{ 100000, 3001, 101500, false, false, 800000 },
		{ 100000, 3001, 101499, false, false, 1000009 },
		/* limits of the types */
		{ 1u << 26, 1000000, 1u << 26, false, false, 1000000 },
		{ 1, 1000, 0, false, false, 501000000 },	/* an RTT of 0 counts as 1 */
	};

	FOR_ROWS(cases) {
		struct gr_state s;
		struct gr_params p;

		memset(&s, 0, sizeof(s));
		cca_params_init(&p, CCA_ID_gr);
		p.delay_threshold_us = c->threshold_us;
		s.min_rtt_us = c->min_rtt_us;
		s.rate_bytes_per_s = 800000;
		s.hold = c->hold;
		CHECK_EQ(gr_next_rate(&s, &p, 1000000, c->rtt_us, c->app_limited, 0),
			 c->rate);
	}
}

/* An application that does not fill the rate: B = 100,000 only, RTTmin 100 ms, T 50 ms. */
TEST(a_rate_that_is_not_filled_falls_for_delay_alone)
{
	static const struct { u64 in_force; u64 rtt_us; bool hold; u64 rate; } cases[] = {
		{ 800000, 100000, false, 800000 },
		{ 100000, 100000, false, 125000 },	/* but may rise */
		{ 800000, 100000, true, 800000 },
		{ 800000, 140000, false, 800000 },
		{ 800000, 140000, true, 100000 },
		{ 800000, 300000, false, 50000 },
	};

	FOR_ROWS(cases) {
		struct gr_state s;
		struct gr_params p;

		memset(&s, 0, sizeof(s));
		cca_params_init(&p, CCA_ID_gr);
		s.min_rtt_us = 100000;
		s.rate_bytes_per_s = c->in_force;
		s.hold = c->hold;
		CHECK_EQ(gr_next_rate(&s, &p, 100000, c->rtt_us, true, 0), c->rate);
	}
}

/*
 * RTTmin 100 ms, T 50 ms: B = 10^6 carries 100 packets of 1500 bytes in RTTmin + T. 40 % of
 * the root of 100 are 4 packets in a round trip, and so 4 % of the rate, or 6 ms.
 */
TEST(a_share_gain_adds_packets_in_each_round_trip)
{
	static const struct { u32 gain_pct, mss_bytes; u64 rtt_us, elapsed_us; bool hold, app_limited; u64 rate; } cases[] = {
		{ 40, 1500, 200000, 0, false, false, 780000 },
		{ 40, 1500, 100000, 0, false, false, 1310000 },
		{ 40, 1500, 125000, 12500, false, false, 803840 },
		{ 40, 1500, 125000, 125000, false, false, 838400 },
		{ 40, 1500, 125000, 999000, false, false, 838400 },	/* a round trip's at most */
		{ 0, 1500, 125000, 125000, false, false, 800000 },
		{ 40, 1500, 125000, 125000, false, true, 800000 },
		{ 40, 1500, 125000, 125000, true, false, 800000 },	/* after loss: none */
		{ 40, 1500, 200000, 0, true, false, 750000 },
		/* one packet of 65,535 bytes: at most T/2 = 25 ms */
		{ 400, 65535, 200000, 0, false, false, 875000 },
	};

	FOR_ROWS(cases) {
		struct gr_state s;
		struct gr_params p;

		memset(&s, 0, sizeof(s));
		cca_params_init(&p, CCA_ID_gr);
		p.share_gain_pct = c->gain_pct;
		s.min_rtt_us = 100000;
		s.mss_bytes = c->mss_bytes;
		s.rate_bytes_per_s = 800000;
		s.hold = c->hold;
		CHECK_EQ(gr_next_rate(&s, &p, 1000000, c->rtt_us, c->app_limited, c->elapsed_us), c->rate);
	}
}

TEST(the_square_root_is_rounded_down)
{
	CHECK_EQ(gr_square_root(0), 0);
	CHECK_EQ(gr_square_root(3), 1);
	CHECK_EQ(gr_square_root(4), 2);
	CHECK_EQ(gr_square_root(CCA_MAX_PKTS - 1), 4095);
	CHECK_EQ(gr_square_root(CCA_MAX_PKTS), 4096);
}

/* The same, through ACKs: B is measured (1448000), the RTT is the interval's mean. */
TEST(the_rule_is_applied_at_the_end_of_an_interval)
{
	static const struct { u32 rtt_us; u64 rate; } cases[] = {
		{ 100000, 1810000 },	/* x 125 / 100 */
		{ 125000, 1448000 },
		{ 150000, 1448000 },
		{ 300000, 724000 },	/* x 150 / 300 */
	};

	FOR_ROWS(cases) {
		open_cruise(100000);
		take_acks(&f, 9, MS, c->rtt_us);
		CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S);	/* 9 ms of 10 */
		take_ack(&f, MS, 1, c->rtt_us);
		CHECK_EQ(f.d.pacing_bytes_per_s, c->rate);
	}
}

TEST(the_interval_counts_the_mean_of_its_samples)
{
	open_cruise(100000);
	take_acks(&f, 5, MS, 100000);
	take_acks(&f, 5, MS, 500000);		/* mean 300 ms */
	CHECK_EQ(f.d.pacing_bytes_per_s, 724000);
	/* An interval without a sample changes nothing, and the next sample ends it. */
	take_acks(&f, 20, MS, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, 724000);
	take_ack(&f, MS, 1, 100000);
	CHECK_EQ(f.d.pacing_bytes_per_s, 1810000);
}

TEST(an_interval_counts_as_many_samples_as_its_sum_holds)
{
	open_cruise(100000);
	f.gr_alone.interval_samples = CCA_MAX_PKTS - 1;
	f.gr_alone.interval_rtt_us = (u64)(CCA_MAX_PKTS - 1) * 100000;
	take_acks(&f, 3, 1, 100000);
	CHECK_EQ(f.gr_alone.interval_samples, CCA_MAX_PKTS);
	CHECK_EQ(f.gr_alone.interval_rtt_us, (u64)CCA_MAX_PKTS * 100000);
}

TEST(without_a_minimum_there_is_no_queueing_delay_and_nothing_old)
{
	open_gr(&f, SECOND, 0, 0);
	CHECK_EQ(gr_queueing_delay_us(&f.gr_alone, 100000), 0);
	CHECK(!gr_min_rtt_is_old(&f.gr_alone, &f.p.gr, 1ull << 60));
	take_ack(&f, MS, 1, 100000);
	CHECK_EQ(gr_queueing_delay_us(&f.gr_alone, 130000), 30000);
	CHECK_EQ(gr_queueing_delay_us(&f.gr_alone, 90000), 0);
	CHECK_EQ(gr_queueing_delay_us(&f.gr_alone, 0), 0);
	CHECK(gr_min_rtt_is_old(&f.gr_alone, &f.p.gr, 1ull << 60));
}

TEST(the_rate_never_falls_below_a_packet_a_round_trip)
{
	open_cruise(100000);
	take_acks(&f, 20, 900 * MS, 900 * MS);		/* the path hardly delivers */
	CHECK_EQ(f.d.pacing_bytes_per_s, 14480);
	CHECK(f.d.cwnd_pkts >= GR_MIN_CWND_PKTS);
	/* From there it comes back as ACKs do. */
	take_acks(&f, 20, 100 * MS, 100000);
	CHECK(f.d.pacing_bytes_per_s > 14480);
}

TEST(the_window_is_what_the_rate_carries_with_its_gain)
{
	static const struct {
		u32 min_rtt_us, threshold_us, gain_pct; u64 rate; u32 mss_bytes, cwnd_pkts;
	} cases[] = {
		{ 100000, 50000, 150, 1448000, MSS, 227 },	/* 150 x 1.5 + 2 */
		{ 100000, 50000, 100, 1448000, MSS, 152 },
		{ 100000, 50000, 1000, 1448000, MSS, 1502 },
		{ 100000, 50000, 150, 1448001, MSS, 228 },	/* 151 begun x 1.5, rounded down */
		{ 100000, 50000, 150, 0, MSS, 2 },
		{ 1, 1000, 100, 1, MSS, 3 },
		{ 1u << 26, 1000000, 1000, 1ull << 37, 1, 1u << 24 },
		{ 1u << 26, 1000000, 1000, 0xffffffffffffffffull, TOP, 1u << 24 },
		{ 100000, 50000, 150, 1448000, 0, 325802 },
	};

	FOR_ROWS(cases) {
		struct gr_state s;
		struct gr_params p;

		memset(&s, 0, sizeof(s));
		cca_params_init(&p, CCA_ID_gr);
		p.delay_threshold_us = c->threshold_us;
		p.cwnd_gain_pct = c->gain_pct;
		s.min_rtt_us = c->min_rtt_us;
		s.mss_bytes = c->mss_bytes;
		CHECK_EQ(gr_cwnd_for(&s, &p, c->rate), c->cwnd_pkts);
	}
}

/* --- slow start -------------------------------------------------------------- */

TEST(slow_start_doubles_and_paces_at_twice_the_window)
{
	u32 i;

	open_gr(&f, SECOND, 0, 100000);
	CHECK_EQ(f.d.cwnd_pkts, 10);
	CHECK_EQ(f.d.pacing_bytes_per_s, 289600);	/* 20 packets in 100 ms */
	CHECK_EQ(f.gr_alone.hold, false);
	for (i = 0; i < 3; i++)
		take_ack(&f, 100 * MS, f.d.cwnd_pkts, 100000);
	CHECK_EQ(f.d.cwnd_pkts, 80);
	CHECK_EQ(f.d.pacing_bytes_per_s, 2316800);
	CHECK_EQ(f.gr_alone.mode, GR_SLOW_START);
}

TEST(without_a_round_trip_time_nothing_is_paced)
{
	open_gr(&f, SECOND, 0, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, 0);
	f.ack.lost_pkts = 5;		/* nor is slow start left */
	take_ack(&f, MS, 1, 0);
	CHECK_EQ(f.gr_alone.mode, GR_SLOW_START);
	CHECK_EQ(f.d.pacing_bytes_per_s, 0);
	take_event(&f, CCA_TIMEOUT, MS, 0);
	CHECK_EQ(f.d.pacing_bytes_per_s, 0);
	CHECK_EQ(f.d.cwnd_pkts, 2);
	take_ack(&f, MS, 1, 50000);
	CHECK_EQ(f.d.cwnd_pkts, 3);
	CHECK_EQ(f.d.pacing_bytes_per_s, 173760);	/* 6 packets in 50 ms */
}

/* RFC 9406: the rise that counts is 1/8 of the RTT, within 4 and 16 ms. */
TEST(slow_start_ends_when_the_delay_rises)
{
	static const struct { u32 min_rtt_us, rise_us; bool leaves; } cases[] = {
		{ 20000, 3999, false }, { 20000, 4000, true },
		{ 32000, 3999, false }, { 32000, 4000, true },
		{ 64000, 7999, false }, { 64000, 8000, true },
		{ 128000, 15999, false }, { 128000, 16000, true },
		{ 400000, 15999, false }, { 400000, 16000, true },
	};

	FOR_ROWS(cases) {
		open_gr(&f, SECOND, 0, c->min_rtt_us);
		f.p.gr.bandwidth_window_us = 5 * MS;
		f.ack.inflight_pkts = 100;
		take_acks(&f, 10, MS, c->min_rtt_us);	/* the first round trip */
		take_acks(&f, 7, MS, c->min_rtt_us + c->rise_us);
		CHECK_EQ(f.gr_alone.mode, GR_SLOW_START);	/* seven samples say nothing yet */
		take_ack(&f, MS, 1, c->min_rtt_us + c->rise_us);
		CHECK_EQ(f.gr_alone.mode, c->leaves ? GR_CRUISE : GR_SLOW_START);
		if (c->leaves)
			CHECK_EQ(f.d.pacing_bytes_per_s, 1448000);	/* B */
	}
}

TEST(one_low_sample_keeps_slow_start)
{
	open_gr(&f, SECOND, 0, 20000);
	f.ack.inflight_pkts = 100;
	take_acks(&f, 10, MS, 20000);
	take_acks(&f, 5, MS, 90000);
	take_ack(&f, MS, 1, 21000);
	take_acks(&f, 40, MS, 90000);
	CHECK_EQ(f.gr_alone.mode, GR_SLOW_START);
}

TEST(a_loss_ends_slow_start_at_the_bandwidth)
{
	open_gr(&f, SECOND, 0, 100000);
	take_acks(&f, 30, MS, 100000);
	f.ack.lost_pkts = 1;
	take_ack(&f, MS, 1, 100000);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	CHECK_EQ(f.d.pacing_bytes_per_s, 1448000);
	CHECK_EQ(f.d.cwnd_pkts, 227);
}

/* --- loss hold ---------------------------------------------------------------- */

TEST(a_share_lost_holds_the_rate_for_a_round_trip)
{
	static const struct { u32 lost_pkts, delivered_pkts, permille; bool held; } cases[] = {
		{ 2, 10, 20, false },		/* two say nothing about a share */
		{ 3, 147, 20, true },		/* 3 of 150: 20 permille */
		{ 3, 148, 20, false },
		{ 20, 980, 20, true },
		{ 19, 981, 20, false },
		{ 3, 2000, 0, true },
		{ 100, 1, 1000, false },	/* all but one: not all */
		{ 100, 0, 1000, true },
	};

	FOR_ROWS(cases) {
		open_cruise(100000);
		f.p.gr.loss_hold_permille = c->permille;
		gr_start_round(&f.gr_alone, f.ack.delivered_pkts, c->delivered_pkts);
		f.ack.lost_pkts = c->lost_pkts;
		take_ack(&f, MS, c->delivered_pkts, 100000);
		CHECK_EQ(f.gr_alone.hold, c->held);
		/* A round trip without loss lets go. */
		take_acks(&f, 10, MS, 100000);
		CHECK_EQ(f.gr_alone.hold, false);
	}
}

/* Behind a policer that passes a tenth, ten ACKs tell of a hundred packets. */
TEST(a_round_trip_ends_when_its_packets_are_delivered_or_lost)
{
	open_cruise(100000);
	gr_start_round(&f.gr_alone, f.ack.delivered_pkts, 100);
	for (u32 ack = 1; ack <= 10; ack++) {
		CHECK_EQ(f.gr_alone.hold, false);
		f.ack.lost_pkts = 9;
		take_ack(&f, MS, 1, 100000);
	}
	CHECK_EQ(f.gr_alone.hold, true);
	CHECK_EQ(f.gr_alone.round_delivered_pkts, 0);
}

/* As in a recovery where only what was sent again is acknowledged: no ACK has an RTT sample. */
TEST(without_samples_heavy_loss_alone_lowers_the_rate)
{
	static const struct { bool hold; u32 gap_us; u64 rate; } cases[] = {
		{ true, 10 * MS, CRUISE_BYTES_PER_S / 10 },
		{ false, 10 * MS, CRUISE_BYTES_PER_S },
		{ true, MS / 2, CRUISE_BYTES_PER_S },	/* B twice the rate: it does not rise */
	};

	FOR_ROWS(cases) {
		open_cruise(100000);
		gr_start_round(&f.gr_alone, f.ack.delivered_pkts, 1000);
		gr_start_interval(&f.gr_alone, f.ack.now_us);
		f.gr_alone.hold = c->hold;
		take_acks(&f, 100, c->gap_us, 0);
		CHECK_EQ(f.d.pacing_bytes_per_s, c->rate);
		CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	}
}

/* --- equilibrium ---------------------------------------------------------------- */

/* On a link that does not vary the queue comes to rest between T/2 and T, and the link is full. */
TEST(on_a_steady_link_the_queue_rests_in_the_cushion)
{
	static const struct {
		u32 pkt_time_us, base_rtt_us, threshold_us, window_us, interval_us;
	} cases[] = {
		{ 1158, 100000, 50000, 20000, 5000 },	/* 10 Mbit/s */
		{ 1158, 20000, 50000, 20000, 5000 },
		{ 1158, 100000, 20000, 60000, 3000 },
		{ 11584, 50000, 100000, 100000, 10000 },	/* 1 Mbit/s */
		{ 116, 40000, 10000, 50000, 3000 },	/* 100 Mbit/s */
		{ 1158, 100000, 50000, 4000000, 5000 },	/* a long memory */
	};

	FOR_ROWS(cases) {
		u32 slack_us = 2 * c->pkt_time_us;

		loop_open(c->pkt_time_us, c->base_rtt_us);
		loop.f.p.gr.bandwidth_window_us = c->window_us;
		loop.f.p.gr.adaptation_interval_us = c->interval_us;
		loop.f.p.gr.delay_threshold_us = c->threshold_us;
		path_run(&loop, 30 * SECOND);
		path_count_anew(&loop);
		path_run(&loop, 10 * SECOND);
		CHECK_EQ(loop.f.gr_alone.mode, GR_CRUISE);
		CHECK(loop.least_delay_us + slack_us >= c->threshold_us / 2);
		CHECK(loop.largest_delay_us <= c->threshold_us + slack_us);
		CHECK(loop.counted_pkts + 3 >= 10 * SECOND / c->pkt_time_us);
	}
}
