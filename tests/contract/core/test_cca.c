// SPDX-License-Identifier: MIT
/* kmod/core/cca.h: arithmetic at its limits, and the window that bandwidth is taken over. */
#include "cca.h"

#include "check.h"

#define U32_TOP 0xffffffffu
#define U64_TOP 0xffffffffffffffffull
#define MSS 1448u

static struct cca_rate_window w;
TEST(a_division_by_zero_yields_the_dividend)
{
	static const struct { u64 dividend, divisor, quotient; } cases[] = {
		{ 10, 3, 3 }, { 10, 0, 10 }, { 0, 0, 0 }, { 0, 7, 0 }, { U64_TOP, 1, U64_TOP },
		{ U64_TOP, U64_TOP, 1 }, { U64_TOP - 1, U64_TOP, 0 }, { U64_TOP, 0, U64_TOP },
		{ 1ull << 63, 1ull << 32, 1ull << 31 },
	};

	FOR_ROWS(cases) {
		CHECK_EQ(cca_div(c->dividend, c->divisor), c->quotient);
	}
}

TEST(a_clock_that_steps_back_has_not_moved)
{
	CHECK_EQ(cca_elapsed_us(100, 40), 60);
	CHECK_EQ(cca_elapsed_us(40, 40), 0);
	CHECK_EQ(cca_elapsed_us(39, 40), 0);
	CHECK_EQ(cca_elapsed_us(0, U64_TOP), 0);
	CHECK_EQ(cca_elapsed_us(U64_TOP, 0), U64_TOP);
}

TEST(a_rate_is_packets_over_time_within_its_bounds)
{
	static const struct { u32 pkts, mss_bytes; u64 interval_us, bytes_per_s; } cases[] = {
		{ 1, MSS, 1000000, MSS },
		{ 10, 1500, 1000, 15000000 },
		{ 100, MSS, 100000, 1448000 },
		{ 1, 1, 3, 333333 },				/* rounded down */
		{ 0, MSS, 1000, 0 },
		{ 7, 0, 1000, 0 },				/* no MSS, no bytes */
		{ 1, 1000, 0, 1000000000 },			/* 0 us counts as 1 */
		{ U32_TOP, 1, 1000000, 1u << 24 },		/* packets at most 2^24 */
		{ 1, U32_TOP, 1000000, 1u << 16 },		/* MSS at most 2^16 */
		{ 1u << 24, 1u << 16, 8000000, 1ull << 37 },	/* the bound, met exactly */
		{ U32_TOP, U32_TOP, 1, 1ull << 37 },
		{ U32_TOP, U32_TOP, U64_TOP, 0 },
	};

	FOR_ROWS(cases)
		CHECK_EQ(cca_rate_bytes_per_s(c->pkts, c->mss_bytes, c->interval_us),
			 c->bytes_per_s);
}

TEST(packets_carried_are_rounded_up_within_their_bounds)
{
	static const struct { u64 bytes_per_s, interval_us; u32 mss_bytes, pkts; } cases[] = {
		{ 1448000, 1000000, MSS, 1000 },
		{ 1448000, 1000001, MSS, 1001 },		/* a begun packet counts */
		{ 1, 1, MSS, 1 },
		{ 0, 1000000, MSS, 0 },
		{ 1448000, 0, MSS, 0 },
		{ 1000, 1000000, 0, 1000 },			/* no MSS counts as one byte */
		{ U64_TOP, 1000000, U32_TOP, 1u << 21 },	/* 2^37 / 2^16 */
		{ 1000000, U64_TOP, 1000, 67109 },		/* 2^26 us at most: 67108.864 */
		{ U64_TOP, U64_TOP, 0, 1u << 24 },
		{ 1ull << 37, 1u << 26, 1, 1u << 24 },
	};

	FOR_ROWS(cases)
		CHECK_EQ(cca_pkts_at_rate(c->bytes_per_s, c->interval_us, c->mss_bytes), c->pkts);
}

/* --- the window ----------------------------------------------------------- */

static void add(struct cca_rate_window *w, u64 now_us, u32 delivered_pkts, u32 window_us)
{
	cca_rate_add(w, now_us, delivered_pkts, window_us, window_us);
}

/* ACKs of `pkts` every gap: the bandwidth is pkts / gap, however W falls between them. */
TEST(an_even_stream_has_its_own_rate_whatever_the_window)
{
	static const struct {
		u32 window_us, gap_us, pkts; u64 start_us; u32 start_pkts;
	} cases[] = {
		{ 2000, 100, 1, 0, 0 },
		{ 20000, 1000, 1, 0, 0 },
		{ 20000, 12000, 1, 0, 0 },	/* 1 Mbit/s: two ACKs a window */
		{ 20000, 19999, 3, 0, 0 },
		{ 20000, 20001, 3, 0, 0 },	/* less than an ACK a window */
		{ 100000, 7, 1, 0, 0 },		/* far more ACKs than samples */
		{ 4000000, 1000, 2, 0, 0 },
		{ 4000000, 3999, 2, 1, 1 },
		{ 1, 10, 1, 0, 0 },
		{ 0, 10, 1, 0, 0 },
		{ 100000, 1000, 1, (1ull << 32) - 50000, 0 },	/* low 32 bits of time wrap */
		{ 100000, 1000, 2, 0, U32_TOP - 30 },		/* the packet count wraps */
		{ 100000, 1000, 2, (1ull << 63) - 50000, U32_TOP - 99 },
		{ 3600000000u, 5000000, 9, 77, 77 },		/* an hour */
	};

	FOR_ROWS(cases) {
		u64 expected = cca_rate_bytes_per_s(c->pkts, MSS, c->gap_us);
		u64 now_us = c->start_us;
		u32 pkts = c->start_pkts;
		u32 i;

		cca_rate_reset(&w, now_us, pkts);
		pkts += c->pkts;
		add(&w, now_us, pkts, c->window_us);
		CHECK_EQ(cca_rate_of(&w, MSS), 0);
		for (i = 0; i < 2000; i++) {
			now_us += c->gap_us;
			pkts += c->pkts;
			add(&w, now_us, pkts, c->window_us);
			if (!cca_rate_span_us(&w))
				continue;	/* the first burst goes on */
			/* Whole gaps are counted; rounding down costs less than 1 byte/s. */
			CHECK(cca_rate_of(&w, MSS) + 1 >= expected);
			CHECK(cca_rate_of(&w, MSS) <= expected + 1);
		}
		if ((u64)c->gap_us * 2000 > c->window_us)
			CHECK(cca_rate_span_us(&w) >= c->window_us);
		CHECK(cca_rate_span_us(&w) <= (u64)c->window_us + c->window_us / 32 + 2 * c->gap_us);
	}
}

static u32 random_below(u64 *seed, u32 bound)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)((*seed >> 33) % bound);
}

/* A history without limit: what the window says must stand in it. */
#define HISTORY 6000u

struct history {
	u64 at_us[HISTORY];
	u32 delivered_pkts[HISTORY];
	u32 n;
};

static struct history seen;

/* The count delivered before the first ACK at that time; CHECKs that there was one. */
static u32 delivered_before(u64 at_us)
{
	u32 i;

	for (i = 0; i < seen.n; i++)
		if (seen.at_us[i] == at_us)
			return seen.delivered_pkts[i ? i - 1 : 0];
	CHECK(!"the window begins and ends at an ACK");
	return 0;
}

static void check_window_against_history(const struct cca_rate_window *w, u32 window_us, u32 gap_us)
{
	u32 span_us = cca_rate_span_us(w), ends_us = cca_rate_at_us(w, w->next - 1);
	u32 pkts = delivered_before(ends_us) - delivered_before(ends_us - span_us);

	CHECK_EQ(cca_rate_of(w, MSS), span_us ? cca_rate_bytes_per_s(pkts, MSS, span_us) : 0);
	CHECK(span_us <= (u64)window_us + window_us / CCA_RATE_MERGE + 2 * gap_us);
	if (ends_us - seen.at_us[0] >= window_us)
		CHECK(span_us >= window_us);
}

TEST(a_window_covers_what_its_history_says)
{
	static const u32 windows_us[] = { 2000, 20000, 100000, 4000000 };
	u64 seed = 2026;
	u32 i, k;

	for (k = 0; k < 4; k++) {
		u64 now_us = 1000;
		u32 delivered_pkts = U32_TOP - 500;
		u32 largest_gap_us = 0;

		row = (int)k + 1;
		seen.n = 0;
		cca_rate_reset(&w, now_us, delivered_pkts);
		for (i = 0; i < HISTORY; i++) {
			/* Bursts at one instant, ACKs close together, and now and then a pause. */
			u32 kind = random_below(&seed, 16);
			u32 gap_us = kind < 4 ? 0 : kind < 15 ? random_below(&seed, 900) :
				     random_below(&seed, 2 * windows_us[k]);

			if (i) {
				now_us += gap_us;
				delivered_pkts += random_below(&seed, 4);
				largest_gap_us = cca_max_u32(largest_gap_us, gap_us);
				add(&w, now_us, delivered_pkts, windows_us[k]);
			}
			seen.at_us[i] = now_us;
			seen.delivered_pkts[i] = delivered_pkts;
			seen.n = i + 1;
			check_window_against_history(&w, windows_us[k], largest_gap_us);
		}
	}
}

/* 33 samples in each of three windows, each forty times the one before: the far end goes first. */
TEST(a_window_that_grows_forgets_the_far_end_first)
{
	u64 now_us = 0, first_us = 0;
	u32 i, most = 0, window_us = 3200, gap_us = 101;

	cca_rate_reset(&w, 0, 0);
	for (i = 0; i < 140; i++) {
		if (i == 33 || i == 64) {
			window_us *= 40;
			gap_us *= 40;
		}
		/* The packets of an ACK are those of the time until the next one. */
		add(&w, now_us, (u32)(now_us + gap_us) / 101, window_us);
		most = cca_max_u32(most, w.next - w.oldest);
		/* An even stream, wherever the window begins; and it begins as late as room allows. */
		if (i)
			CHECK_EQ(cca_rate_of(&w, MSS), 14336633);
		if (i == 94) {
			CHECK(cca_rate_span_us(&w) < window_us);
			first_us = now_us;
		}
		now_us += gap_us;
	}
	CHECK_EQ(most, CCA_RATE_SAMPLES);
	CHECK(now_us - first_us > window_us);
	CHECK(cca_rate_span_us(&w) >= window_us);
}

/* Whether the ACKs of a burst have one time or are spread over W / 32 changes B by a packet at most. */
TEST(the_spread_of_a_burst_does_not_change_the_bandwidth)
{
	static const u32 windows_us[] = { 2000, 15758, 20000, 100000 };
	static const u32 gaps_us[] = { 700, 5000, 10000, 20000, 40000 };
	u64 seed = 42;
	u32 i, j, k, n;

	for (k = 0; k < 4; k++)
		for (j = 0; j < 5; j++) {
			struct cca_rate_window at_once, spread;
			u32 pkts = 0, most_us = windows_us[k] / CCA_RATE_MERGE, next_us[32];

			row = (int)(10 * k + j);
			cca_rate_reset(&at_once, 0, 0);
			cca_rate_reset(&spread, 0, 0);
			for (i = 0; i < 200; i++) {
				u64 begins_us = (u64)i * (gaps_us[j] + most_us);
				u32 acks = 1 + random_below(&seed, 32), late_us = 0;

				for (n = 0; n < acks; n++) {
					next_us[n] = late_us;
					late_us += random_below(&seed, 2 * most_us / acks + 1);
					late_us = cca_min_u32(late_us, most_us);
				}
				for (n = 0; n < acks; n++, pkts++) {
					u32 a, b;

					add(&at_once, begins_us, pkts + 1, windows_us[k]);
					add(&spread, begins_us + next_us[n], pkts + 1,
					    windows_us[k]);
					a = cca_rate_pkts(&at_once);
					b = cca_rate_pkts(&spread);
					CHECK(a <= b + 1 && b <= a + 1);
					CHECK_EQ(cca_rate_span_us(&at_once),
						 cca_rate_span_us(&spread));
				}
			}
		}
}

/* A pair of ACKs per round trip, as at GR's lowest rate: B is two packets per round trip after both. */
TEST(a_pair_of_acks_counts_as_a_pair)
{
	static const struct { u32 window_us, apart_us, every_us; } cases[] = {
		{ 15758, 0, 176000 },		/* both at one microsecond */
		{ 15758, 4500, 176000 },	/* 2.64 Mbit/s */
		{ 2000, 4500, 176000 },
		{ 4000, 12000, 100000 },	/* 1 Mbit/s */
		{ 20000, 1000, 60000 },
	};

	FOR_ROWS(cases) {
		u64 expected = cca_rate_bytes_per_s(2, MSS, c->every_us);
		u32 i;

		cca_rate_reset(&w, 0, 0);
		for (i = 0; i < 50; i++) {
			u64 now_us = (u64)i * c->every_us;

			cca_rate_add(&w, now_us, 2 * i + 1, c->window_us, c->every_us / 4);
			if (i > 1)
				CHECK_EQ(cca_rate_of(&w, MSS), expected);
			cca_rate_add(&w, now_us + c->apart_us, 2 * i + 2, c->window_us,
				     c->every_us / 4);
			if (i > 1)
				CHECK_EQ(cca_rate_of(&w, MSS), expected);
		}
	}
}

/* A burst that lasts longer than half of the gap before it is still one burst. */
TEST(a_long_burst_counts_wholly)
{
	static const struct { u32 window_us, every_us, lasts_us; } cases[] = {
		{ 15758, 40000, 4000 }, { 15758, 40000, 13000 }, { 15758, 40000, 14000 },
		{ 15758, 40000, 18000 }, { 5000, 40000, 18000 }, { 100000, 40000, 16000 },
	};

	FOR_ROWS(cases) {
		u64 expected = cca_rate_bytes_per_s(20, MSS, c->every_us);
		u32 i, n;

		cca_rate_reset(&w, 0, 0);
		for (i = 0; i < 50; i++)
			for (n = 0; n < 20; n++) {
				cca_rate_add(&w, (u64)i * c->every_us + n * c->lasts_us / 20,
					     20 * i + n + 1, c->window_us, 25000);
				if (i > 10)
					CHECK_EQ(cca_rate_of(&w, MSS), expected);
			}
	}
}

/* 20 s without an ACK, then an ACK per millisecond: the outage leaves B after a burst and W. */
TEST(an_outage_leaves_the_window_after_a_burst)
{
	u64 now_us = 0;
	u32 i, pkts = 0;

	cca_rate_reset(&w, 0, 0);
	for (i = 0; i < 100; i++)
		cca_rate_add(&w, now_us += 1000, ++pkts, 20000, 30000);
	now_us += 20000000;
	for (i = 0; i <= 31 + 20; i++)
		cca_rate_add(&w, now_us += 1000, ++pkts, 20000, 30000);
	CHECK_EQ(cca_rate_of(&w, MSS), 1448000);
}

TEST(a_clock_that_steps_back_starts_the_window_over)
{
	cca_rate_reset(&w, 1000000, 0);
	add(&w, 1000000, 10, 20000);
	add(&w, 1010000, 20, 20000);
	CHECK_EQ(cca_rate_of(&w, MSS), 1448000);
	add(&w, 1009999, 30, 20000);
	CHECK_EQ(cca_rate_of(&w, MSS), 0);
	CHECK_EQ(cca_rate_span_us(&w), 0);
	add(&w, 1019999, 40, 20000);
	CHECK_EQ(cca_rate_of(&w, MSS), 1448000);
}

TEST(a_long_silence_starts_the_window_over)
{
	static const struct { u64 gap_us; u32 span_us; } cases[] = {
		{ 1u << 28, 1u << 28 }, { (1u << 28) + 1, 0 }, { 1ull << 32, 0 }, { U64_TOP >> 1, 0 },
	};

	FOR_ROWS(cases) {
		cca_rate_reset(&w, 5, 0);
		add(&w, 5 + c->gap_us, 100, 20000);
		CHECK_EQ(cca_rate_span_us(&w), c->span_us);
	}
}

TEST(a_closed_window_is_opened_by_the_next_ack)
{
	u32 i;

	cca_rate_reset(&w, 0, 0);
	for (i = 1; i <= 50; i++)
		add(&w, (u64)i * 1000, i, 20000);
	/* W is a whole number of gaps, none of them merged: the window is W to the microsecond. */
	CHECK_EQ(cca_rate_span_us(&w), 20000);
	cca_rate_close(&w);
	CHECK(cca_rate_is_closed(&w));
	CHECK_EQ(cca_rate_span_us(&w), 0);
	CHECK_EQ(cca_rate_of(&w, MSS), 0);
	add(&w, 60000, 70, 20000);
	CHECK(!cca_rate_is_closed(&w));
	CHECK_EQ(cca_rate_of(&w, MSS), 0);
	/* The 20 packets of the opening ACK are those of the time until the next one. */
	add(&w, 70000, 72, 20000);
	CHECK_EQ(cca_rate_span_us(&w), 10000);
	CHECK_EQ(cca_rate_of(&w, MSS), 2896000);
}

TEST(acks_at_one_instant_are_one_sample)
{
	u32 i;

	cca_rate_reset(&w, 0, 0);
	for (i = 1; i <= 10; i++)
		add(&w, 0, i, 20000);
	CHECK_EQ(cca_rate_of(&w, MSS), 0);
	add(&w, 10000, 20, 20000);
	CHECK_EQ(cca_rate_of(&w, MSS), 1448000);
}
