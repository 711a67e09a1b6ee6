// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_rtcp.ko: the clients that R-TCP's modules share, with one table per network namespace, and
 * the file `clients` in the folder of each module (rtcp_clients_file.c).
 *
 *   sets             sets of 8 clients in the initial namespace's table; a power of two
 *   namespace_sets   the same for any other namespace
 *                    0 (of either): no table, and each connection has a client of its own
 *   keep_s           time after its last ACK for which a client without connections is kept
 *   ipv6_prefix      bits of an IPv6 address that distinguish clients
 *
 * Memory. The initial namespace's table is allocated when the module is loaded. The table of
 * another namespace is allocated when its first R-TCP connection begins, and never grows.
 * Connections begin where nothing may sleep, so a worker allocates the table. Connections that
 * begin before it is ready have clients of their own. The memory of a worker is charged to no
 * cgroup; namespace_sets bounds it.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/workqueue.h>
#include <net/ipv6.h>

#include "tcp_rtcp.h"

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
	struct work_struct work;		/* allocates the table */
	spinlock_t lock;			/* protects the two fields below */
	unsigned long started_jiffies;		/* last start of the worker */
	bool may_start;
};

u32 rtcp_ipv6_prefix_bits(void)
{
	return min(ipv6_prefix, 128u);
}

/* --- tables ------------------------------------------------------------------------ */

/* requested_sets: at least 1. Returns NULL if there is no memory. */
static struct rtcp_table *rtcp_table_new(unsigned int requested_sets)
{
	u32 n_sets = (u32)roundup_pow_of_two(min(requested_sets, RTCP_MOST_SETS));
	u32 n = n_sets * RTCP_WAYS, i;
	struct cca_siphash_key hash_key;
	struct rtcp_table *t;

	/*
	 * At most 2^27 entries of 320 bytes. The kernel does not allocate that much. The size
	 * saturates on a 32-bit machine.
	 */
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

/* The namespace's table with a reference. NULL: there is no table, or it is about to be freed. */
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

/* The namespace's table, NULL for none. Call this under rcu_read_lock(). */
struct rtcp_table *rtcp_table_seen(const struct net *net)
{
	const struct rtcp_net *own = net_generic(net, rtcp_net_id);

	return rcu_dereference(own->table);
}

static void rtcp_table_make(struct work_struct *work)
{
	struct rtcp_net *own = container_of(work, struct rtcp_net, work);
	struct rtcp_table *t;

	/*
	 * Only this worker sets the pointer, and the namespace resets it only after the worker
	 * has ended.
	 */
	if (rcu_access_pointer(own->table))
		return;
	t = rtcp_table_new(namespace_sets);
	if (t)
		rcu_assign_pointer(own->table, t);
}

/*
 * Starts the worker when a connection begins in a namespace without a table. If there is no
 * memory for the table, a later connection tries again, at most once per second.
 */
static void rtcp_table_start(const struct net *net)
{
	struct rtcp_net *own = net_generic(net, rtcp_net_id);

	spin_lock_bh(&own->lock);
	if (own->may_start && time_after_eq(jiffies, own->started_jiffies + HZ)) {
		own->started_jiffies = jiffies;
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

/* Call this when the entry has been given to another client. */
static void rtcp_place_clear(struct rtcp_place *place)
{
	place->segments = 0;
	place->retransmitted = 0;
	place->limited_segments = 0;
	place->limited_retransmitted = 0;
}

/*
 * Gives a connection its client: the one of its address, or one of its own if the table has none
 * for it.
 */
void rtcp_member_join(struct rtcp_member *m, const struct sock *sk, u64 now_us)
{
	struct rtcp_table *t = rtcp_table_get(sock_net(sk));
	struct rtcp_key key = rtcp_key_of(sk);
	bool known;

	m->table = t;
	m->entry = NULL;
	if (!t)
		rtcp_table_start(sock_net(sk));
	if (t) {
		spin_lock_bh(&t->lock);
		known = rtcp_clients_find(&t->clients, &key);
		m->entry = rtcp_clients_join(&t->clients, &key, now_us);
		if (m->entry && !known)
			rtcp_place_clear(rtcp_member_place(m));
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

/* From here on the connection has a client of its own. Call this without the client's lock. */
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

/*
 * Records the client's state, to which the next records refer. Call this with the client's lock
 * held. recording: NULL if the next changes are not recorded.
 */
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

/* --- the module -------------------------------------------------------------------- */

/* If there is no memory for the initial namespace's table, the module is not loaded. */
static int __net_init rtcp_net_init(struct net *net)
{
	struct rtcp_net *own = net_generic(net, rtcp_net_id);
	struct rtcp_table *t;

	INIT_WORK(&own->work, rtcp_table_make);
	spin_lock_init(&own->lock);
	own->started_jiffies = jiffies - HZ;
	own->may_start = !net_eq(net, &init_net) && namespace_sets;
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

	/* The kernel's own sockets may outlive the namespace. They must start no worker. */
	spin_lock_bh(&own->lock);
	own->may_start = false;
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
