// SPDX-License-Identifier: MIT
/* kmod/core/histogram.h: buckets, their edges, and percentiles within the error that is stated. */
#include "histogram.h"

#include "check.h"

TEST(a_delay_falls_between_the_edges_of_its_bucket)
{
	static const struct { u32 delay_us, bucket; } cases[] = {
		{ 0, 0 }, { 255, 0 }, { 256, 1 }, { 287, 1 }, { 288, 2 }, { 511, 8 }, { 512, 9 },
		{ 1048575, 96 }, { 1048576, 96 }, { 0xffffffffu, 96 },
	};
	u32 delay_us;

	CHECK_EQ(CCA_HISTOGRAM_BUCKETS, 97);
	FOR_ROWS(cases)
		CHECK_EQ(cca_histogram_bucket(c->delay_us), c->bucket);
	for (delay_us = 1; delay_us < 1u << 20; delay_us += 1 + delay_us / 100) {
		u32 bucket = cca_histogram_bucket(delay_us);

		CHECK(cca_histogram_edge_us(bucket) <= delay_us);
		CHECK(delay_us < cca_histogram_edge_us(bucket + 1));
	}
	CHECK_EQ(cca_histogram_edge_us(CCA_HISTOGRAM_BUCKETS), 1u << 20);
}

TEST(a_percentile_is_off_by_a_sixteenth_at_most)
{
	u64 counts[CCA_HISTOGRAM_BUCKETS];
	u32 delay_us, came, difference;

	for (delay_us = 256; delay_us < 1u << 20; delay_us += 1 + delay_us / 50) {
		memset(counts, 0, sizeof(counts));
		counts[cca_histogram_bucket(delay_us)] = 1;
		came = cca_histogram_percentile_us(counts, 95);
		difference = came > delay_us ? came - delay_us : delay_us - came;
		CHECK(difference * 16 <= delay_us);
	}
}

TEST(percentiles_are_of_the_samples)
{
	u64 counts[CCA_HISTOGRAM_BUCKETS] = { 0 };

	CHECK_EQ(cca_histogram_percentile_us(counts, 95), 0);
	counts[0] = 94;
	counts[96] = 6;
	CHECK_EQ(cca_histogram_percentile_us(counts, 94), 128);
	CHECK_EQ(cca_histogram_percentile_us(counts, 95), (15u << 16) + (1u << 15));
	CHECK_EQ(cca_histogram_percentile_us(counts, 1), 128);
	counts[0] = 0;
	CHECK_EQ(cca_histogram_percentile_us(counts, 0), (15u << 16) + (1u << 15));
}
