/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What each epoch of a flow adds to the sums of its row, for both hosts in the kernel. The includer
 * has struct ccatune_flow, and:
 *
 *   ccatune_add()            adds to a ccatune_count
 *   ccatune_counts()         the counters of the flow's instance
 *   ccatune_sums_of()        the sums of the flow's row and group, NULL for none
 *   ccatune_delays_of()      the histogram of a class and the flow's group, NULL for none
 *   ccatune_group_of()       the group of a flow with this table
 */
#ifndef CCATUNE_SUMS_H
#define CCATUNE_SUMS_H

/* The class of a row (ens_row_index()). */
static inline u32 ccatune_class_of(const struct ccatune_table *table, u8 delay_class)
{
	u32 class = cca_min_u32(delay_class, ens_state_rows(&table->ens) - 1);

	return class < ENS_MAX_CLASSES ? class : 0;
}

CCATUNE_PART int ccatune_clear_samples(struct ccatune_flow *flow)
{
	u32 i;

	if (CCATUNE_LACKS(!flow))
		return 0;
	flow->samples = 0;
	flow->within = 0;
	flow->delay_us = 0;
	for (i = 0; i < CCA_HISTOGRAM_BUCKETS; i++)
		flow->bucket[i] = 0;
	return 0;
}

static inline void ccatune_flow_begin_epoch(struct ccatune_flow *flow, const struct sock *sk,
					    u64 now_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	flow->epoch_start_us = now_us;
	flow->epoch_bytes = tp->bytes_acked;
	flow->epoch_segments = tp->data_segs_out;
	flow->epoch_retransmitted = tp->total_retrans;
	ccatune_clear_samples(flow);
}

/* What a flow did in an epoch. */
struct ccatune_epoch {
	u64 time_us;
	u64 bytes;			/* acknowledged */
	u32 segments;			/* sent */
	u32 retransmitted;
};

/* Adds the epoch that ends to the sums of its row, and its delays to those of the class. */
CCATUNE_PART int ccatune_add_epoch(struct ccatune_flow *flow, struct ccatune_table *table,
				   const struct ccatune_epoch *epoch)
{
	struct ccatune_delays *delays;
	struct ccatune_sums *sums;
	u32 i;

	if (CCATUNE_LACKS(!flow || !table || !epoch))
		return 0;
	sums = ccatune_sums_of(flow, table);
	if (!sums)
		return 0;
	ccatune_add(&sums->sum[CCATUNE_EPOCHS], 1);
	ccatune_add(&sums->sum[CCATUNE_TIME_US], epoch->time_us);
	ccatune_add(&sums->sum[CCATUNE_BYTES], epoch->bytes);
	ccatune_add(&sums->sum[CCATUNE_SEGMENTS], epoch->segments);
	ccatune_add(&sums->sum[CCATUNE_RETRANSMITTED], epoch->retransmitted);
	ccatune_add(&sums->sum[CCATUNE_DELAY_SAMPLES], flow->samples);
	ccatune_add(&sums->sum[CCATUNE_DELAY_US], flow->delay_us);
	ccatune_add(&sums->sum[CCATUNE_WITHIN_TARGET], flow->within);
	delays = ccatune_delays_of(flow, table, ccatune_class_of(table, flow->delay_class));
	if (!delays || !flow->samples)
		return 0;
	for (i = 0; i < CCA_HISTOGRAM_BUCKETS; i++)
		if (flow->bucket[i])
			ccatune_add(&delays->bucket[i], flow->bucket[i]);
	return 0;
}

CCATUNE_PART int ccatune_take_row(struct ccatune_flow *flow, struct ccatune_table *table,
				  const struct ens_clock *clock, u32 epoch_end)
{
	struct ccatune_sums *sums;

	if (CCATUNE_LACKS(!flow || !table || !clock))
		return 0;
	flow->row = ens_row_index(&table->ens, clock->state, clock->delay_class);
	flow->target_us = U32_MAX;	/* without classes every delay is within the target */
	if (table->ens.n_classes)
		flow->target_us = table->ens.classes[ccatune_class_of(table, clock->delay_class)]
					  .queueing_delay_us;
	sums = ccatune_sums_of(flow, table);
	if (!sums)
		return 0;
	ccatune_add(&sums->sum[CCATUNE_VISITS], 1);
	if (epoch_end == ENS_LOOKED_UP)
		ccatune_add(&sums->sum[CCATUNE_LOOKUPS], 1);
	return 0;
}

/* The epoch was on a row of this table: it counts. */
static inline void ccatune_close_epoch(struct ccatune_flow *flow, const struct sock *sk,
				       struct ccatune_table *table, u64 now_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct ccatune_epoch epoch = {
		.time_us = cca_elapsed_us(now_us, flow->epoch_start_us),
		.bytes = tp->bytes_acked - flow->epoch_bytes,
		.segments = tp->data_segs_out - flow->epoch_segments,
		.retransmitted = tp->total_retrans - flow->epoch_retransmitted,
	};

	ccatune_add_epoch(flow, table, &epoch);
}

/*
 * Counts the epoch that has ended and begins the next one. Call this under rcu_read_lock(), after
 * the flow's clock has ended its epoch. table: the one that the clock read, NULL for none. An
 * epoch that began under another table is not counted, because its row no longer exists.
 */
static inline void ccatune_end_epoch(struct ccatune_flow *flow, const struct sock *sk,
				     const struct ens_flow *ens, struct ccatune_table *table,
				     u64 now_us)
{
	const struct ens_clock *clock = &ens->clock;
	struct ccatune_counters *counts = ccatune_counts(flow);
	bool same = table && flow->table == table->ens.generation;
	u8 epoch_end = ens->epoch_end;

	if (counts && epoch_end <= ENS_KEPT)
		ccatune_add(&counts->epoch_ends[epoch_end], 1);
	if (same)
		ccatune_close_epoch(flow, sk, table, now_us);
	if (counts && same && epoch_end != ENS_KEPT)
		ccatune_add(&counts->reoptimisations, 1);
	ccatune_flow_begin_epoch(flow, sk, now_us);
	flow->epoch_end = epoch_end;
	flow->delay_class = clock->delay_class;
	flow->group = ccatune_group_of(flow, table, ens->held_back);
	flow->table = 0;
	if (table && clock->state != ENS_NO_STATE) {
		flow->table = table->ens.generation;
		ccatune_take_row(flow, table, clock, epoch_end);
	}
}

/*
 * Adds a sample of queueing delay to the current epoch. The conditions are those of
 * ens_clock_on_ack(), but R-TCP, whose clock takes no delays, is sampled, too.
 */
static inline void ccatune_flow_sample(struct ccatune_flow *flow, const struct cca_ack *ack,
				       u32 queueing_delay_us)
{
	u32 bucket;

	if (!ack->rtt_us || ack->app_limited || flow->samples == CCA_MAX_PKTS)
		return;
	flow->samples++;
	flow->delay_us += queueing_delay_us;
	flow->within += queueing_delay_us <= flow->target_us;
	bucket = cca_histogram_bucket(queueing_delay_us);
	if (bucket < CCA_HISTOGRAM_BUCKETS)
		flow->bucket[bucket]++;
}

#endif /* CCATUNE_SUMS_H */
