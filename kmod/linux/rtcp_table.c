// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_rtcp.ko: the clients that the modules of R-TCP share, one table a network namespace, and
 * the file `clients` in the folder of each (rtcp_clients_file.c).
 *
 *   sets             of the initial namespace's table, a power of two: 8 clients each
 *   namespace_sets   of any other's; 0: none, and each connection has a client of its own
 *   keep_s           how long a client outlives its connections
 *   ipv6_prefix      bits of an IPv6 address that tell clients apart
 *
 * Memory. The initial namespace's table is made when the module is loaded. Any other's is made when
 * its first connection of R-TCP begins, and then never grows. Connections begin where nothing may
 * sleep: a worker makes the table, and those that begin before it is there have clients of their
 * own. Workers are charged to nobody; namespace_sets is what bounds this memory.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/workqueue.h>
#include <net/ipv6.h>

#include "rtcp_internal.h"
#include "sock.h"

#define RTCP_DEFAULT_SETS 2048u			/* 16384 clients, 5 MiB */
#define RTCP_DEFAULT_NAMESPACE_SETS 64u		/* 512 clients, 160 KiB */

static unsigned int sets = RTCP_DEFAULT_SETS;
module_param(sets, uint, 0444);
MODULE_PARM_DESC(sets, "8 clients each, of the initial namespace; rounded up to a power of two");

static unsigned int namespace_sets = RTCP_DEFAULT_NAMESPACE_SETS;
module_param(namespace_sets, uint, 0444);
MODULE_PARM_DESC(namespace_sets, "8 clients each, of any other namespace; 0: no table");

static unsigned int keep_s = RTCP_KEEP_US / USEC_PER_SEC;
module_param(keep_s, uint, 0444);
MODULE_PARM_DESC(keep_s, "time for which a client outlives its connections");

static unsigned int ipv6_prefix = RTCP_IPV6_PREFIX_BITS;
module_param(ipv6_prefix, uint, 0444);
MODULE_PARM_DESC(ipv6_prefix, "bits of an IPv6 address that tell clients apart");

static unsigned int rtcp_net_id;

struct rtcp_net {
	struct rtcp_table __rcu *table;		/* NULL: none, or none yet */
	struct work_struct work;		/* makes it */
	spinlock_t lock;			/* of the two below */
	unsigned long asked_jiffies;		/* when the worker was started last */
	bool may_ask;
};

u32 rtcp_ipv6_prefix_bits(void)
{
	return min(ipv6_prefix, 128u);
}

/* --- tables ------------------------------------------------------------------------ */

/* asked_sets: at least 1. NULL: no memory. */
static struct rtcp_table *rtcp_table_new(unsigned int asked_sets)
{
	u32 n_sets = (u32)roundup_pow_of_two(min(asked_sets, RTCP_MOST_SETS));
	u32 n = n_sets * RTCP_WAYS, i;
	struct cca_siphash_key hash_key;
	struct rtcp_table *t;

	/* At most 2^27 x 320 bytes: more than the kernel gives, or a 32-bit one can count. */
	t = kvzalloc(size_add(sizeof(*t), array_size(n, sizeof(*t->places) +
							sizeof(struct rtcp_entry))),
		     GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!t)
		return NULL;
	get_random_bytes(&hash_key, sizeof(hash_key));
	refcount_set(&t->refs, 1);
	spin_lock_init(&t->lock);
	for (i = 0; i < n; i++)
		spin_lock_init(&t->places[i].lock);
	rtcp_clients_init(&t->clients, (struct rtcp_entry *)(t->places + n), n_sets,
			  &hash_key, (u64)keep_s * USEC_PER_SEC);
	return t;
}

void rtcp_table_put(struct rtcp_table *t)
{
	if (refcount_dec_and_test(&t->refs))
		kvfree_rcu(t, rcu);
}

/* With a reference; NULL where there is none, or no more. */
struct rtcp_table *rtcp_table_get(const struct net *net)
{
	const struct rtcp_net *own = net_generic(net, rtcp_net_id);
	struct rtcp_table *t;

	rcu_read_lock();
	t = rcu_dereference(own->table);
	if (t && !refcount_inc_not_zero(&t->refs))
		t = NULL;
	rcu_read_unlock();
	return t;
}

/* Under rcu_read_lock(). */
struct rtcp_table *rtcp_table_seen(const struct net *net)
{
	const struct rtcp_net *own = net_generic(net, rtcp_net_id);

	return rcu_dereference(own->table);
}

static void rtcp_table_make(struct work_struct *work)
{
	struct rtcp_net *own = container_of(work, struct rtcp_net, work);
	struct rtcp_table *t;

	/* Nobody else makes one, and it is not taken away while this runs. */
	if (rcu_access_pointer(own->table))
		return;
	t = rtcp_table_new(namespace_sets);
	if (t)
		rcu_assign_pointer(own->table, t);
}

/*
 * A connection of a namespace without a table begins: one is made. Where there is no memory for it,
 * the next connection tries again, once a second at most.
 */
static void rtcp_table_ask(const struct net *net)
{
	struct rtcp_net *own = net_generic(net, rtcp_net_id);

	spin_lock_bh(&own->lock);
	if (own->may_ask && time_after_eq(jiffies, own->asked_jiffies + HZ)) {
		own->asked_jiffies = jiffies;
		schedule_work(&own->work);
	}
	spin_unlock_bh(&own->lock);
}

/* --- members ----------------------------------------------------------------------- */

static struct rtcp_key rtcp_key_of(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return rtcp_key_of_ipv6(sk->sk_v6_daddr.s6_addr, ipv6_prefix);
#endif
	return rtcp_key_of_ipv4(ntohl(inet_sk(sk)->inet_daddr));
}

/* The connection's client, as it is: of its address, or of its own. */
void rtcp_member_join(struct rtcp_member *m, const struct sock *sk, u64 now_us)
{
	struct rtcp_table *t = rtcp_table_get(sock_net(sk));
	struct rtcp_key key = rtcp_key_of(sk);

	m->table = t;
	m->entry = NULL;
	if (!t)
		rtcp_table_ask(sock_net(sk));
	if (t) {
		spin_lock_bh(&t->lock);
		m->entry = rtcp_clients_join(&t->clients, &key, now_us);
		spin_unlock_bh(&t->lock);
	}
	if (m->entry)
		return;
	if (t)
		rtcp_table_put(t);
	m->table = NULL;
	rtcp_client_init(&m->own, now_us);
}
EXPORT_SYMBOL_GPL(rtcp_member_join);

/* The client is the connection's own from here on; its lock is not held. */
void rtcp_member_part(struct rtcp_member *m)
{
	struct rtcp_entry *entry = m->entry;
	struct rtcp_table *t = m->table;

	if (!entry)
		return;
	WRITE_ONCE(m->entry, NULL);
	m->table = NULL;
	spin_lock_bh(&t->lock);
	rtcp_clients_leave(entry);
	spin_unlock_bh(&t->lock);
	rtcp_table_put(t);
}
EXPORT_SYMBOL_GPL(rtcp_member_part);

/* The client's lock is held. NULL: what comes now is part of no recording. */
void rtcp_member_tell(struct rtcp_member *m, struct ccatune_recording *recording)
{
	struct rec_record r;
	u32 part;

	rtcp_member_place(m)->recording = recording;
	for (part = 0; recording && part < RTCP_REC_PARTS; part++) {
		rec_init(&r, (enum rec_kind)RTCP_REC_CLIENT, 0, 0);
		rtcp_put_client(&r, &m->entry->client, rtcp_member_number(m), part);
		ccatune_record(recording, &r);
	}
}
EXPORT_SYMBOL_GPL(rtcp_member_tell);

/* The connection ends, or takes another algorithm; f is freed. */
void rtcp_kflow_end(struct sock *sk, struct rtcp_kflow *f, struct rtcp_flow *flow)
{
	struct rtcp_sock *own = inet_csk_ca(sk);
	struct ccatune_recording *recording;
	struct rtcp_client *c;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	c = rtcp_member_lock(&f->member, recording, false);
	rtcp_flow_leaves(flow, c);
	if (recording) {
		rec_init(&r, (enum rec_kind)RTCP_REC_LEAVE, f->head.recorded_as,
			 tcp_sk(sk)->tcp_mstamp);
		rtcp_kflow_record(f, flow, c, recording, &r);
	}
	rtcp_member_unlock(&f->member);
	rcu_read_unlock();
	rtcp_member_part(&f->member);
	own->flow = NULL;
	ccatune_flow_end(&f->head);
}
EXPORT_SYMBOL_GPL(rtcp_kflow_end);

/*
 * As ccatune_read_tx_start(). A flow that rests, because all of its data was acknowledged,
 * starts whatever the kernel takes the application for.
 */
bool rtcp_read_tx_start(const struct sock *sk, const struct rtcp_flow *flow,
			enum cca_event_kind *kind)
{
	if (ccatune_read_tx_start(sk, kind))
		return true;
	*kind = CCA_TRANSFER_STARTED;
	return ccatune_is_tx_start(sk) && !flow->active;
}
EXPORT_SYMBOL_GPL(rtcp_read_tx_start);

/* --- the module -------------------------------------------------------------------- */

/* Without memory for the initial namespace's table the module is not loaded. */
static int __net_init rtcp_net_init(struct net *net)
{
	struct rtcp_net *own = net_generic(net, rtcp_net_id);
	struct rtcp_table *t;

	INIT_WORK(&own->work, rtcp_table_make);
	spin_lock_init(&own->lock);
	own->asked_jiffies = jiffies - HZ;
	own->may_ask = !net_eq(net, &init_net) && namespace_sets;
	if (!net_eq(net, &init_net) || !sets)
		return 0;
	t = rtcp_table_new(sets);
	if (!t)
		return -ENOMEM;
	RCU_INIT_POINTER(own->table, t);
	return 0;
}

static void __net_exit rtcp_net_exit(struct net *net)
{
	struct rtcp_net *own = net_generic(net, rtcp_net_id);
	struct rtcp_table *t;

	/* A kernel's own sockets may outlast the namespace. */
	spin_lock_bh(&own->lock);
	own->may_ask = false;
	spin_unlock_bh(&own->lock);
	cancel_work_sync(&own->work);
	t = rcu_replace_pointer(own->table, NULL, true);
	if (t)
		rtcp_table_put(t);
}

static struct pernet_operations rtcp_net_ops = {
	.init = rtcp_net_init,
	.exit = rtcp_net_exit,
	.id = &rtcp_net_id,
	.size = sizeof(struct rtcp_net),
};

static int __init rtcp_init(void)
{
	return register_pernet_subsys(&rtcp_net_ops);
}

static void __exit rtcp_exit(void)
{
	unregister_pernet_subsys(&rtcp_net_ops);
}

module_init(rtcp_init);
module_exit(rtcp_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);
MODULE_DESCRIPTION("R-TCP: the clients behind rate limiters that its algorithms share");
