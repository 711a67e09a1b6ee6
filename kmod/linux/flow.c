// SPDX-License-Identifier: GPL-2.0
/*
 * Flows: their memory, the list that the file `flows` shows, and what each epoch adds to the sums
 * of its row.
 */
#include <linux/random.h>

#include "internal.h"

static void ccatune_cca_free(struct rcu_head *head)
{
	struct ccatune_cca *cca = container_of(head, struct ccatune_cca, rcu);

	xa_destroy(&cca->flows);
	kfree(rcu_dereference_protected(cca->params, true));
	kfree(cca);
}

void ccatune_cca_put(struct ccatune_cca *cca)
{
	if (refcount_dec_and_test(&cca->refs))
		call_rcu(&cca->rcu, ccatune_cca_free);
}

static void ccatune_flow_begin_epoch(struct ccatune_flow *flow, const struct sock *sk, u64 now_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	flow->epoch_start_us = now_us;
	flow->epoch_bytes = tp->bytes_acked;
	flow->epoch_segments = tp->data_segs_out;
	flow->epoch_retransmitted = tp->total_retrans;
	flow->samples = 0;
	flow->within = 0;
	flow->delay_us = 0;
	memset(flow->bucket, 0, sizeof(flow->bucket));
}

/*
 * Returns the instance with a reference, or NULL if the namespace has ended. The kernel's own
 * sockets may outlive their namespace.
 */
static struct ccatune_cca *ccatune_cca_get(const struct net *net,
					   const struct ccatune_algorithm *algorithm)
{
	struct ccatune_cca *cca;

	rcu_read_lock();
	cca = ccatune_cca_of(net, algorithm);
	if (cca && !refcount_inc_not_zero(&cca->refs))
		cca = NULL;
	rcu_read_unlock();
	return cca;
}

/* Returns NULL if there is no memory. Readers of `flows` see the flow from here on. */
static struct ccatune_flow *ccatune_flow_new(struct ccatune_cca *cca, struct sock *sk)
{
	struct kmem_cache *cache = cca->algorithm->cache;
	struct ccatune_flow *flow = kmem_cache_zalloc(cache, GFP_ATOMIC | __GFP_NOWARN);

	if (!flow)
		return NULL;
	flow->cca = cca;
	flow->sk = sk;
	flow->hash = get_random_u32();
	flow->start_delivered = tcp_sk(sk)->delivered;
	flow->recorded_as = ccatune_recording_number();
	flow->recalls = ccatune_recalls(cca);
	ccatune_flow_begin_epoch(flow, sk, tcp_clock_us());
	if (!xa_alloc_bh(&cca->flows, &flow->number, flow, xa_limit_32b,
			 GFP_ATOMIC | __GFP_NOWARN))
		return flow;
	kmem_cache_free(cache, flow);
	return NULL;
}

/*
 * Returns NULL if there is no memory, if there are too many flows, or if the namespace has ended.
 * The socket then has no flow. allocation_fallbacks counts the first two cases.
 */
struct ccatune_flow *ccatune_flow_start(struct ccatune_algorithm *algorithm, struct sock *sk)
{
	struct ccatune_cca *cca = ccatune_cca_get(sock_net(sk), algorithm);
	struct ccatune_flow *flow = NULL;

	if (!cca)
		return NULL;
	if (atomic_inc_return(&cca->n_flows) <= ccatune_setting(cca, CCATUNE_MAX_FLOWS))
		flow = ccatune_flow_new(cca, sk);
	if (!flow) {
		atomic_dec(&cca->n_flows);
		atomic64_inc(&cca->allocation_fallbacks);
		ccatune_cca_put(cca);
		return NULL;
	}
	atomic64_inc(&cca->flows_started);
	return flow;
}
EXPORT_SYMBOL_GPL(ccatune_flow_start);

static void ccatune_flow_free(struct rcu_head *head)
{
	struct ccatune_flow *flow = container_of(head, struct ccatune_flow, rcu);
	struct ccatune_cca *cca = flow->cca;

	kmem_cache_free(cca->algorithm->cache, flow);
	ccatune_cca_put(cca);
}

void ccatune_flow_end(struct ccatune_flow *flow)
{
	struct ccatune_cca *cca = flow->cca;

	WRITE_ONCE(flow->ended, true);
	/* `ended` must be visible before the socket is reused. Pairs with flows_is_gone(). */
	smp_wmb();
	xa_erase_bh(&cca->flows, flow->number);
	atomic_dec(&cca->n_flows);
	call_rcu(&flow->rcu, ccatune_flow_free);
}
EXPORT_SYMBOL_GPL(ccatune_flow_end);

/*
 * Adds the epoch that ends to the sums of its row, and its queueing delays to those of the class.
 */
static void ccatune_flow_add_epoch(struct ccatune_flow *flow, const struct sock *sk,
				   struct ccatune_table *table, u64 now_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct ccatune_sums *sums = &table->sums[flow->row * table->groups + flow->group];
	u32 class = flow->row % ens_state_rows(&table->ens);
	atomic64_t *bucket = table->delays[class * table->groups + flow->group].bucket;
	unsigned int i;

	atomic64_inc(&sums->epochs);
	atomic64_add(cca_elapsed_us(now_us, flow->epoch_start_us), &sums->time_us);
	atomic64_add(tp->bytes_acked - flow->epoch_bytes, &sums->bytes);
	atomic64_add(tp->data_segs_out - flow->epoch_segments, &sums->segments);
	atomic64_add(tp->total_retrans - flow->epoch_retransmitted, &sums->retransmitted);
	atomic64_add(flow->samples, &sums->samples);
	atomic64_add(flow->delay_us, &sums->delay_us);
	atomic64_add(flow->within, &sums->within);
	for (i = 0; flow->samples && i < CCA_HISTOGRAM_BUCKETS; i++)
		if (flow->bucket[i])
			atomic64_add(flow->bucket[i], &bucket[i]);
}

static void ccatune_flow_take_row(struct ccatune_flow *flow, struct ccatune_table *table,
				  const struct ens_clock *clock, u8 epoch_end)
{
	struct ccatune_sums *sums;
	u32 class;

	flow->row = ens_row_index(&table->ens, clock->state, clock->delay_class);
	class = flow->row % ens_state_rows(&table->ens);
	flow->target_us = U32_MAX;	/* without classes every delay is within the target */
	if (table->ens.n_classes)
		flow->target_us = table->ens.classes[class].queueing_delay_us;
	sums = &table->sums[flow->row * table->groups + flow->group];
	atomic64_inc(&sums->visits);
	if (epoch_end == ENS_LOOKED_UP)
		atomic64_inc(&sums->lookups);
}

/*
 * Counts the epoch that has ended and begins the next one. Call this under rcu_read_lock(), after
 * the flow's clock has ended its epoch. table: the one that the clock read, NULL for none. An
 * epoch that began under another table is not counted, because its row no longer exists.
 */
void ccatune_flow_epoch_ended(struct ccatune_flow *flow, const struct sock *sk,
			      const struct ens_flow *ens, struct ccatune_table *table,
			      u64 now_us)
{
	const struct ens_clock *clock = &ens->clock;
	struct ccatune_cca *cca = flow->cca;
	u8 epoch_end = ens->epoch_end;
	bool same = table && flow->table == table->ens.generation;

	if (epoch_end <= ENS_KEPT)
		atomic64_inc(&cca->epoch_ends[epoch_end]);
	if (same)
		ccatune_flow_add_epoch(flow, sk, table, now_us);
	if (same && epoch_end != ENS_KEPT)
		atomic64_inc(&cca->reoptimisations);
	ccatune_flow_begin_epoch(flow, sk, now_us);
	flow->epoch_end = epoch_end;
	flow->delay_class = clock->delay_class;
	flow->group = ens->held_back ? CCATUNE_HELD_BACK : CCATUNE_ENSEMBLE;
	/*
	 * A table of another owner is the initial namespace's. It has separate sums for the flows
	 * of its followers.
	 */
	if (table && table->owner != cca)
		flow->group += CCATUNE_FOLLOWERS;
	flow->table = 0;
	if (table && clock->state != ENS_NO_STATE) {
		flow->table = table->ens.generation;
		ccatune_flow_take_row(flow, table, clock, epoch_end);
	}
}
EXPORT_SYMBOL_GPL(ccatune_flow_epoch_ended);
