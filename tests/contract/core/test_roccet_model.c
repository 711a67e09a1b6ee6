// SPDX-License-Identifier: MIT
/* kmod/core/roccet_model.h: srRTT by its equation, jitter, ACKs beside windows. */
#include "roccet_host.h"

/* Equation 2 in floating point, over the smoothed RTT of RFC 6298. */
struct exact { double srtt, min, srrtt; };

static void take_exact(struct exact *e, double alpha, double rtt)
{
	e->srtt = e->srtt > 0 ? e->srtt * 7 / 8 + rtt / 8 : rtt;
	e->min = e->min > 0 && e->min < rtt ? e->min : rtt;
	e->srrtt = alpha * (e->srtt - e->min) / e->min + (1 - alpha) * e->srrtt;
}

TEST(srrtt_follows_equation_2)
{
	static const struct { u32 alpha_permille, first_ms, then_ms; } cases[] = {
		{ 125, 50, 50 }, { 125, 50, 100 }, { 125, 50, 500 }, { 1, 50, 100 }, { 1000, 50, 75 },
		{ 20, 15, 60000 }, { 125, 100, 50 },
	};

	FOR_ROWS(cases) {
		struct exact e = { 0, 0, 0 };
		double error;
		u32 i;

		open_roccet(10, NO_SSTHRESH);
		f.p.roccet.alpha_permille = c->alpha_permille;
		for (i = 0; i < 400; i++) {
			u32 rtt_us = (i < 40 ? c->first_ms : c->then_ms) * MS;

			roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, f.ack.now_us, rtt_us);
			take_exact(&e, c->alpha_permille / 1000.0, rtt_us);
			error = f.roccet_alone.srrtt_q16 / 65536.0 - e.srrtt;
			/* Of rounding half a unit, over alpha; of the smoothed RTT an eighth of a us. */
			CHECK(error < 0.01 + e.srrtt / 1000 && error > -0.01 - e.srrtt / 1000);
		}
	}
}

TEST(the_share_is_bounded)
{
	u32 i;

	open_roccet(10, NO_SSTHRESH);
	f.p.roccet.alpha_permille = 1000;
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 0, 1);
	for (i = 0; i < 100; i++)
		roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 0, 0xffffffffu);
	CHECK_EQ(f.roccet_alone.srrtt_q16, 1u << 28);
	CHECK(f.roccet_alone.srtt_us_q3 <= 8 * CCA_MAX_RTT_US);
	CHECK(f.roccet_alone.jitter_us_q4 <= 16 * CCA_MAX_RTT_US);
}

TEST(the_minimum_is_the_least_sample)
{
	struct cca_start start = { SECOND, 40 * MS, 10, 0, 1448 };

	open_roccet(10, NO_SSTHRESH);
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 0, 0);
	CHECK_EQ(f.roccet_alone.min_rtt_us, 0);
	CHECK_EQ(f.roccet_alone.srrtt_q16, 0);
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 0, 80 * MS);
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 0, 50 * MS);
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 0, 90 * MS);
	CHECK_EQ(f.roccet_alone.min_rtt_us, 50 * MS);
	/* The handshake's is one. */
	roccet_init(&f.roccet_alone, &f.p.roccet, &start);
	CHECK_EQ(f.roccet_alone.min_rtt_us, 40 * MS);
	CHECK_EQ(roccet_srtt_us(&f.roccet_alone), 40 * MS);
}

/* Section XI: an EWMA of the minimum and the current RTT, every ten seconds. */
TEST(a_minimum_moves_only_where_it_is_asked_to_and_old)
{
	u32 i;

	open_roccet(10, NO_SSTHRESH);
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, SECOND, 50 * MS);
	for (i = 0; i < 200; i++)
		roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 3600ull * SECOND, 90 * MS);
	CHECK_EQ(f.roccet_alone.min_rtt_us, 50 * MS);
	f.p.roccet.min_rtt_age_ms = 10000;
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 11 * SECOND, 90 * MS);
	CHECK_EQ(f.roccet_alone.min_rtt_us, 50 * MS);
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 11 * SECOND + 1, 90 * MS);
	CHECK_EQ(f.roccet_alone.min_rtt_us, 55 * MS);
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 21 * SECOND + 1, 90 * MS);
	CHECK_EQ(f.roccet_alone.min_rtt_us, 55 * MS);
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 21 * SECOND + 2, 90 * MS);
	CHECK_EQ(f.roccet_alone.min_rtt_us, 59375);
	/* One that is seen anew is kept. */
	roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 22 * SECOND, 52 * MS);
	CHECK_EQ(f.roccet_alone.min_rtt_us, 52 * MS);
	CHECK_EQ(f.roccet_alone.min_rtt_at_us, 22 * SECOND);
}

/* RFC 3550: the mean difference of samples that follow each other. */
TEST(jitter_is_of_samples_that_follow_each_other)
{
	u32 i;

	open_roccet(10, NO_SSTHRESH);
	for (i = 0; i < 200; i++)
		roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 0, i % 2 ? 60 * MS : 50 * MS);
	CHECK(f.roccet_alone.jitter_us_q4 / 16 > 9900 && f.roccet_alone.jitter_us_q4 / 16 <= 10 * MS);
	for (i = 0; i < 400; i++)
		roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 0, 50 * MS);
	CHECK(f.roccet_alone.jitter_us_q4 / 16 <= 1);
	/* A queue that grows by a packet of 0.24 ms with each. */
	for (i = 0; i < 400; i++)
		roccet_sample_rtt(&f.roccet_alone, &f.p.roccet, 0, 50 * MS + 240 * i);
	CHECK(f.roccet_alone.jitter_us_q4 / 16 >= 235 && f.roccet_alone.jitter_us_q4 / 16 <= 241);
}

/* "At least" the bound; the jitter's share of a minimum of 50 ms counts in ORBITER alone. */
TEST(the_bound_is_reached_and_jitter_raises_orbiters)
{
	static const struct {
		u32 bound_pct, srrtt_q16, jitter_us; bool launch, orbiter;
	} cases[] = {
		{ 100, ONE_Q16 - 1, 0, false, false },
		{ 100, ONE_Q16, 0, true, true },
		{ 100, ONE_Q16, 5 * MS, true, false },
		{ 100, ONE_Q16 + 6553, 5 * MS, true, true },
		{ 100, ONE_Q16 + 6552, 5 * MS, true, false },
		{ 250, 2 * ONE_Q16 + ONE_Q16 / 2 - 1, 0, false, false },
		{ 250, 2 * ONE_Q16 + ONE_Q16 / 2, 0, true, true },
		{ 1000, 1u << 28, CCA_MAX_RTT_US, true, true },
	};

	FOR_ROWS(cases) {
		open_roccet(10, NO_SSTHRESH);
		f.p.roccet.srrtt_bound_pct = c->bound_pct;
		f.roccet_alone.min_rtt_us = 50 * MS;
		f.roccet_alone.srrtt_q16 = c->srrtt_q16;
		f.roccet_alone.jitter_us_q4 = c->jitter_us * 16;
		CHECK_EQ(roccet_rtt_rose(&f.roccet_alone, &f.p.roccet, false), c->launch);
		CHECK_EQ(roccet_rtt_rose(&f.roccet_alone, &f.p.roccet, true), c->orbiter);
	}
}

/* --- ACKs and windows ------------------------------------------------------------ */

/* A window's ACKs over its round trip, a few packets to an ACK. */
static void count_round(u32 cwnd_pkts, u32 pkts_per_ack, u32 rtt_us)
{
	u32 acks = cwnd_pkts / pkts_per_ack, i;

	for (i = 0; i < acks; i++) {
		f.ack.now_us += rtt_us * (i + 1) / acks - rtt_us * i / acks;
		f.ack.acked_pkts = pkts_per_ack;
		roccet_count(&f.roccet_alone, &f.p.roccet, &f.ack, 2 * cwnd_pkts);
	}
}

/* Section IV: so many windows as round trips, and stretched ACKs do not matter. */
TEST(windows_are_summed_once_a_round_trip_however_acks_are_stretched)
{
	static const u32 pkts_per_ack[] = { 1, 2, 8, 40 };

	FOR_ROWS(pkts_per_ack) {
		open_roccet(40, NO_SSTHRESH);
		f.roccet_alone.min_rtt_us = 50 * MS;
		roccet_start_interval(&f.roccet_alone, f.ack.now_us, &f.w);
		/* Slow start without a queue: what is ACKed is what each round trip began with. */
		count_round(40, *c, 50 * MS);
		CHECK_EQ(f.roccet_alone.windows_q8, 40 << 8);
		CHECK_EQ(f.roccet_alone.acked_q8, 40 << 8);
		count_round(80, *c, 50 * MS);
		count_round(160, *c, 50 * MS);
		CHECK_EQ(f.roccet_alone.windows_q8, 280 << 8);
		CHECK_EQ(f.roccet_alone.acked_q8, 280 << 8);
	}
}

/* Twice the round trip: half of the ACKs that the windows were to bring ... */
TEST(a_queue_holds_acks_back)
{
	open_roccet(100, 50);
	f.roccet_alone.min_rtt_us = 50 * MS;
	f.roccet_alone.srtt_us_q3 = 8 * 100 * MS;
	roccet_start_interval(&f.roccet_alone, f.ack.now_us, &f.w);
	CHECK_EQ(f.roccet_alone.phase, ROCCET_ORBITER);
	f.ack.acked_pkts = 50;
	f.ack.now_us += 50 * MS;
	CHECK(roccet_count(&f.roccet_alone, &f.p.roccet, &f.ack, 100));
	CHECK_EQ(roccet_difference_q8(&f.roccet_alone, &f.p.roccet), 50 << 8);
	/* ... unless round trips are counted by the clock of the ACKs themselves. */
	f.p.roccet.round_rtt = ROCCET_SMOOTHED_RTT;
	roccet_start_interval(&f.roccet_alone, f.ack.now_us, &f.w);
	f.ack.now_us += 50 * MS;
	CHECK(!roccet_count(&f.roccet_alone, &f.p.roccet, &f.ack, 100));
	f.ack.now_us += 50 * MS;
	CHECK(roccet_count(&f.roccet_alone, &f.p.roccet, &f.ack, 100));
	CHECK_EQ(roccet_difference_q8(&f.roccet_alone, &f.p.roccet), 0);
}

TEST(a_round_trip_that_waited_for_its_ack_counts_as_more)
{
	open_roccet(100, 50);
	f.roccet_alone.min_rtt_us = 50 * MS;
	roccet_start_interval(&f.roccet_alone, f.ack.now_us, &f.w);
	f.ack.acked_pkts = 1;
	f.ack.now_us += 49999;
	CHECK(!roccet_count(&f.roccet_alone, &f.p.roccet, &f.ack, 7));
	f.ack.now_us += 75001;
	CHECK(roccet_count(&f.roccet_alone, &f.p.roccet, &f.ack, 7));
	CHECK_EQ(f.roccet_alone.windows_q8, 250 << 8);
	CHECK_EQ(f.roccet_alone.acked_q8, 2 << 8);
	CHECK_EQ(f.roccet_alone.round_cwnd_pkts, 7);
	/* Without a round trip there are no windows. */
	f.roccet_alone.min_rtt_us = 0;
	f.ack.now_us += SECOND;
	CHECK(!roccet_count(&f.roccet_alone, &f.p.roccet, &f.ack, 7));
}

TEST(the_senses_differ_in_which_side_counts)
{
	static const struct { u32 sense; u8 phase; u32 windows, acked, difference; } cases[] = {
		{ ROCCET_SHORT, ROCCET_LAUNCH, 100, 60, 40 },
		{ ROCCET_SHORT, ROCCET_LAUNCH, 60, 100, 0 },
		{ ROCCET_SHORT, ROCCET_ORBITER, 100, 60, 40 },
		{ ROCCET_SHORT, ROCCET_ORBITER, 60, 100, 0 },
		{ ROCCET_FIGURE, ROCCET_LAUNCH, 100, 60, 0 },
		{ ROCCET_FIGURE, ROCCET_LAUNCH, 60, 100, 40 },
		{ ROCCET_FIGURE, ROCCET_ORBITER, 100, 60, 40 },
		{ ROCCET_FIGURE, ROCCET_ORBITER, 60, 100, 0 },
		{ ROCCET_EITHER, ROCCET_LAUNCH, 100, 60, 40 },
		{ ROCCET_EITHER, ROCCET_LAUNCH, 60, 100, 40 },
		{ ROCCET_EITHER, ROCCET_ORBITER, 100, 60, 40 },
		{ ROCCET_EITHER, ROCCET_ORBITER, 60, 100, 40 },
		{ ROCCET_FIGURE, ROCCET_LAUNCH, 60, 60, 0 },
		{ ROCCET_EITHER, ROCCET_ORBITER, 60, 60, 0 },
	};

	FOR_ROWS(cases) {
		open_roccet(10, NO_SSTHRESH);
		f.p.roccet.ack_sense = c->sense;
		f.roccet_alone.phase = c->phase;
		f.roccet_alone.windows_q8 = (u64)c->windows << 8;
		f.roccet_alone.acked_q8 = (u64)c->acked << 8;
		CHECK_EQ(roccet_difference_q8(&f.roccet_alone, &f.p.roccet), (u64)c->difference << 8);
	}
}

TEST(sums_stop_at_their_bound)
{
	u32 i;

	open_roccet(0xffffffffu, 50);
	f.roccet_alone.min_rtt_us = 1;
	roccet_start_interval(&f.roccet_alone, f.ack.now_us, &f.w);
	for (i = 0; i < 3; i++) {
		f.ack.acked_pkts = 0xffffffffu;
		f.ack.now_us += 1ull << 40;
		CHECK(roccet_count(&f.roccet_alone, &f.p.roccet, &f.ack, 0xffffffffu));
	}
	CHECK_EQ(f.roccet_alone.windows_q8, ROCCET_MAX_SUM_Q8);
	CHECK_EQ(f.roccet_alone.acked_q8, 3 * (0xffffffffull << 8));
	for (i = 0; i < 300; i++)
		roccet_count(&f.roccet_alone, &f.p.roccet, &f.ack, 1);
	CHECK_EQ(f.roccet_alone.acked_q8, ROCCET_MAX_SUM_Q8);
}
