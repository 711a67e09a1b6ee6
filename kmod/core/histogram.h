/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Percentiles of a delay, without its samples: a histogram on a log scale.
 *
 *   bucket 0               delays below 256 us
 *   8 buckets per octave   parts of equal width, up to 2^20 us (1 s)
 *   the last bucket        also counts all longer delays
 *
 * The width of a part is at most 1/8 of its lower edge, and its middle represents it.
 * So the error of a percentile is at most 1/16 (6.3 %), or 128 us in bucket 0.
 */
#ifndef CCA_HISTOGRAM_H
#define CCA_HISTOGRAM_H

#include "cca.h"

#define CCA_HISTOGRAM_FIRST_BITS 8u	/* 256 us */
#define CCA_HISTOGRAM_PART_BITS 3u
#define CCA_HISTOGRAM_PART_MASK ((1u << CCA_HISTOGRAM_PART_BITS) - 1)
#define CCA_HISTOGRAM_OCTAVES 12u
#define CCA_HISTOGRAM_BUCKETS (1u + (CCA_HISTOGRAM_OCTAVES << CCA_HISTOGRAM_PART_BITS))

CCA_FN u32 cca_histogram_bucket(u32 delay_us)
{
	u32 bits, part;

	if (!(delay_us >> CCA_HISTOGRAM_FIRST_BITS))
		return 0;
	bits = 31u - (u32)__builtin_clz(delay_us);
	part = (delay_us >> (bits - CCA_HISTOGRAM_PART_BITS)) & CCA_HISTOGRAM_PART_MASK;
	bits = (bits - CCA_HISTOGRAM_FIRST_BITS) << CCA_HISTOGRAM_PART_BITS;
	return cca_min_u32(1 + bits + part, CCA_HISTOGRAM_BUCKETS - 1);
}

/*
 * The lowest delay of a bucket. For CCA_HISTOGRAM_BUCKETS it is the upper end of the last
 * bucket. At most 2^20 us.
 */
CCA_FN u32 cca_histogram_edge_us(u32 bucket)
{
	u32 octave, part;

	if (!bucket)
		return 0;
	octave = (bucket - 1) >> CCA_HISTOGRAM_PART_BITS;
	part = (bucket - 1) & CCA_HISTOGRAM_PART_MASK;
	return ((1u << CCA_HISTOGRAM_PART_BITS) + part) <<
	       (octave + CCA_HISTOGRAM_FIRST_BITS - CCA_HISTOGRAM_PART_BITS);
}

/*
 * The delay that `percentile` per cent of the samples do not exceed; 0 without
 * a sample. counts: CCA_HISTOGRAM_BUCKETS counts, with a sum below 2^64 / 100.
 */
CCA_FN u32 cca_histogram_percentile_us(const u64 *counts, u32 percentile)
{
	u64 total = 0, seen = 0;
	u32 i;

	for (i = 0; i < CCA_HISTOGRAM_BUCKETS; i++)
		total += counts[i];
	for (i = 0; total && i < CCA_HISTOGRAM_BUCKETS; i++) {
		seen += counts[i];
		if (seen * 100 >= total * percentile && seen)
			return (cca_histogram_edge_us(i) + cca_histogram_edge_us(i + 1)) / 2;
	}
	return 0;
}

#endif /* CCA_HISTOGRAM_H */
