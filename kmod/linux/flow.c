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
		atomic64_inc(&cca->counters.allocation_fallbacks);
		ccatune_cca_put(cca);
		return NULL;
	}
	atomic64_inc(&cca->counters.flows_started);
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

/* Call this under rcu_read_lock(), after the flow's clock has ended its epoch (sums.h). */
void ccatune_flow_epoch_ended(struct ccatune_flow *flow, const struct sock *sk,
			      const struct ens_flow *ens, struct ccatune_table *table,
			      u64 now_us)
{
	ccatune_end_epoch(flow, sk, ens, table, now_us);
}
EXPORT_SYMBOL_GPL(ccatune_flow_epoch_ended);
