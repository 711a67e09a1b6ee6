/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What both hosts in the kernel count. A host has ccatune_count, a number of 64 bits that several
 * processors add to.
 */
#ifndef CCATUNE_COUNTS_H
#define CCATUNE_COUNTS_H

#include "ensemble_recording.h"
#include "histogram.h"

enum ccatune_group {
	CCATUNE_ENSEMBLE,		/* flows that use the table's rows */
	CCATUNE_HELD_BACK,		/* flows that hold_back_permille excludes from the table */
	CCATUNE_GROUPS,
	/*
	 * The same two groups, for flows of namespaces that follow the initial namespace's table.
	 */
	CCATUNE_FOLLOWERS = CCATUNE_GROUPS,
	CCATUNE_MOST_GROUPS = 2 * CCATUNE_GROUPS,
};

/* Sums over the epochs that flows spent on a row. */
enum ccatune_sum {
	CCATUNE_VISITS,			/* epochs that began on the row */
	CCATUNE_LOOKUPS,		/* visits that began with a look-up of the row */
	CCATUNE_EPOCHS,			/* visits that have ended; all sums below cover these */
	CCATUNE_TIME_US,
	CCATUNE_BYTES,			/* acknowledged */
	CCATUNE_SEGMENTS,		/* sent, including retransmissions */
	CCATUNE_RETRANSMITTED,
	CCATUNE_DELAY_SAMPLES,		/* of queueing delay */
	CCATUNE_DELAY_US,		/* sum of the samples */
	CCATUNE_WITHIN_TARGET,		/* samples at or below the class's target */
	CCATUNE_SUMS,
};

/* Sums of R-TCP over all flows, up to the end of their last epoch (rtcp_tally.h). */
enum ccatune_limiter_sum {
	CCATUNE_LIMITED_FLOWS,		/* flows that have sent segments to a limited client */
	CCATUNE_ALL_SEGMENTS,
	CCATUNE_ALL_RETRANSMITTED,
	CCATUNE_LIMITED_SEGMENTS,
	CCATUNE_LIMITED_RETRANSMITTED,
	CCATUNE_LIMITER_SUMS,
};

struct ccatune_sums {
	ccatune_count sum[CCATUNE_SUMS];
};

struct ccatune_delays {
	ccatune_count bucket[CCA_HISTOGRAM_BUCKETS];
};

struct ccatune_counters {
	ccatune_count flows_started;
	ccatune_count allocation_fallbacks;
	ccatune_count epoch_ends[ENS_KEPT + 1];	/* by enum ens_epoch_end */
	ccatune_count reoptimisations;		/* epochs after which a row was chosen anew */
	ccatune_count limiter[CCATUNE_LIMITER_SUMS];	/* of R-TCP */
};

#endif /* CCATUNE_COUNTS_H */
