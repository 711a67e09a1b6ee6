/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface between ccatune.ko and the algorithm modules (tcp_gr.ko and others). ccatune.ko
 * keeps the tree /proc/net/ccatune, the tables and parameters in force, and the list of flows.
 *
 *   struct ccatune_algorithm   one per module: what the /proc tree needs to know of it
 *   struct ccatune_cca         an algorithm in one network namespace
 *   struct ccatune_flow        head of the memory that the algorithm allocates for a socket
 *
 * Lifetimes. A flow holds a reference to its ccatune_cca, and a socket holds one to its
 * algorithm's module. Therefore no flow has a dangling pointer after a namespace or a module is
 * gone. Flows read tables and parameters under rcu_read_lock() and keep no pointer to them
 * afterwards. A flow's memory is freed a grace period after its socket has released it.
 */
#ifndef CCATUNE_H
#define CCATUNE_H

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "compat.h"
#include "ensemble_format.h"
#include "host.h"

typedef atomic64_t ccatune_count;

#include "counts.h"

struct ccatune_cca;
struct ccatune_flow;
struct ccatune_recording;
struct ccatune_view;
struct seq_file;

struct ccatune_algorithm {
	u32 id;				/* CCA_ID_... of the core (params.h) */
	const char *cache_name;
	unsigned int flow_bytes;	/* memory of a flow, including ccatune_flow */
	void (*view)(const struct ccatune_flow *flow, struct ccatune_view *view);
	/* Writes fields ` name=value` that only this algorithm has. */
	void (*show)(struct seq_file *m, const struct ccatune_flow *flow);
	struct pernet_operations net_ops;
	unsigned int net_id;
	struct kmem_cache *cache;
	struct ccatune_cca *initial;	/* of the initial namespace */
};

struct ccatune_table {
	struct ens_table ens;
	refcount_t refs;		/* process context: one while in force, one per open file */
	const struct ccatune_cca *owner;	/* its namespace's; compared, never dereferenced */
	u32 groups;			/* 2, or 4 if other namespaces may follow the table */
	struct ccatune_sums *sums;	/* [rows][groups] */
	struct ccatune_delays *delays;	/* [classes][groups] */
};

struct ccatune_params {
	struct rcu_head rcu;
	u32 version;			/* unique */
	u32 value[CCA_MAX_PARAMS];
};

enum ccatune_setting {
	CCATUNE_CLASS_SOURCE,
	CCATUNE_CLASS_MASK,
	CCATUNE_DEFAULT_CLASS,
	CCATUNE_FOLLOW_INITIAL,
	CCATUNE_MAX_FLOWS,
	CCATUNE_SETTINGS,
};

struct ccatune_cca {
	/*
	 * Flows read these fields for each ACK. Only writes to files in /proc and the end of the
	 * namespace change them.
	 */
	struct ccatune_table __rcu *table;	/* this namespace's own; NULL: none */
	struct ccatune_params __rcu *params;	/* never NULL */
	struct ccatune_recording __rcu *recording;
	struct ccatune_cca *initial;		/* the initial namespace's; NULL if this is it */
	u32 recalls;				/* number of recalls (ensemble_flow.h) */
	u32 setting[CCATUNE_SETTINGS];
	bool has_params;			/* the namespace has parameters of its own */

	struct ccatune_algorithm *algorithm ____cacheline_aligned_in_smp;
	struct net *net;			/* valid while the /proc files exist */
	struct proc_dir_entry *dir;
	struct mutex lock;			/* serialises writers */
	struct ccatune_table *leaving;		/* table to free when the namespace ends */
	struct ccatune_recording *recorded;	/* a recording that has ended and can be read */
	u64 instance;				/* random; a reload of the module changes it */
	u64 generation;				/* changes of table, parameters or settings */
	refcount_t refs;
	struct rcu_head rcu;
	atomic64_t rejected_writes;

	struct xarray flows ____cacheline_aligned_in_smp;	/* by ccatune_flow.number */
	atomic_t n_flows;
	struct ccatune_counters counters;
};

struct ccatune_flow {
	struct ccatune_cca *cca;
	struct sock *sk;		/* type-stable under RCU (SLAB_TYPESAFE_BY_RCU) */
	bool ended;			/* sk may have been reused for another socket */
	struct rcu_head rcu;
	u32 number;			/* index in the namespace's flows */
	u32 recalls;			/* ccatune_recalls() when the flow last followed a recall */
	u32 hash;			/* random, constant for the flow */
	u32 start_delivered;		/* tp->delivered when the flow began */
	u32 recorded_as;		/* number in recordings */

	/* The current epoch and its row. */
	u64 table;			/* generation of the table that has the row; 0: none */
	u64 epoch_start_us;
	u64 epoch_bytes;		/* this and the next two: socket counters at its start */
	u32 epoch_segments;
	u32 epoch_retransmitted;
	u32 row;
	u32 target_us;
	u8 delay_class;
	u8 group;			/* enum ccatune_group; followers: + CCATUNE_FOLLOWERS */
	u8 epoch_end;			/* enum ens_epoch_end that began the epoch */
	u32 samples;
	u32 within;
	u64 delay_us;
	u32 bucket[CCA_HISTOGRAM_BUCKETS];
};

/* --- for an algorithm module ------------------------------------------------- */

int ccatune_register(struct ccatune_algorithm *algorithm);
void ccatune_unregister(struct ccatune_algorithm *algorithm);
int ccatune_net_init(struct net *net, struct ccatune_algorithm *algorithm);
void ccatune_net_pre_exit(struct net *net, struct ccatune_algorithm *algorithm);
void ccatune_net_exit(struct net *net, struct ccatune_algorithm *algorithm);

void ccatune_cca_put(struct ccatune_cca *cca);
struct ccatune_flow *ccatune_flow_start(struct ccatune_algorithm *algorithm, struct sock *sk);
void ccatune_flow_end(struct ccatune_flow *flow);
void ccatune_flow_epoch_ended(struct ccatune_flow *flow, const struct sock *sk,
			      const struct ens_flow *ens, struct ccatune_table *table,
			      u64 now_us);

/*
 * CUBIC, for a socket without a flow (fallback.c). ccatune_fallback_begin() gives the socket's
 * private area to it.
 */
extern const struct tcp_congestion_ops ccatune_fallback_ops;
void ccatune_fallback_begin(struct sock *sk);

#define ccatune_read(count) atomic64_read(count)
#define ccatune_add(count, by) atomic64_add(by, count)
#define ccatune_counts(flow) (&(flow)->cca->counters)

static inline struct ccatune_sums *ccatune_sums_of(const struct ccatune_flow *flow,
						   const struct ccatune_table *table)
{
	return &table->sums[flow->row * table->groups + flow->group];
}

static inline struct ccatune_delays *ccatune_delays_of(const struct ccatune_flow *flow,
						       const struct ccatune_table *table,
						       u32 class)
{
	return &table->delays[class * table->groups + flow->group];
}

/*
 * A table of another owner is the initial namespace's. It has separate sums for the flows of its
 * followers.
 */
static inline u8 ccatune_group_of(const struct ccatune_flow *flow,
				  const struct ccatune_table *table, bool held_back)
{
	u8 group = held_back ? CCATUNE_HELD_BACK : CCATUNE_ENSEMBLE;

	return table && table->owner != flow->cca ? group + CCATUNE_FOLLOWERS : group;
}

static inline struct ccatune_cca *ccatune_cca_of(const struct net *net,
						 const struct ccatune_algorithm *algorithm)
{
	return READ_ONCE(*(struct ccatune_cca **)net_generic(net, algorithm->net_id));
}

static inline u32 ccatune_setting(const struct ccatune_cca *cca, enum ccatune_setting setting)
{
	return READ_ONCE(cca->setting[setting]);
}

/*
 * The table in force, NULL if there is none. A namespace without a table of its own uses the
 * initial namespace's, if its settings say so. Call this under rcu_read_lock().
 */
static inline struct ccatune_table *ccatune_table(const struct ccatune_cca *cca)
{
	struct ccatune_table *t = rcu_dereference(cca->table);

	if (!t && cca->initial && ccatune_setting(cca, CCATUNE_FOLLOW_INITIAL))
		t = rcu_dereference(cca->initial->table);
	return t;
}

/*
 * The parameters in force. A namespace without parameters of its own uses the initial
 * namespace's, as for tables. Call this under rcu_read_lock().
 */
static inline const struct ccatune_params *ccatune_params(const struct ccatune_cca *cca)
{
	if (!smp_load_acquire(&cca->has_params) && cca->initial &&
	    ccatune_setting(cca, CCATUNE_FOLLOW_INITIAL))
		return rcu_dereference(cca->initial->params);
	return rcu_dereference(cca->params);
}

/* The number of recalls in this namespace and in the initial one, whose table it may use. */
static inline u32 ccatune_recalls(const struct ccatune_cca *cca)
{
	/* Pairs with ccatune_recall(): a reader of the new count also sees its cause. */
	u32 recalls = smp_load_acquire(&cca->recalls);

	return cca->initial ? recalls + smp_load_acquire(&cca->initial->recalls) : recalls;
}

/* Whether rows were recalled that the flow has not looked up again. */
static inline bool ccatune_was_recalled(const struct ccatune_flow *flow)
{
	return ccatune_recalls(flow->cca) != flow->recalls;
}

/*
 * Whether rows were recalled since the last call for this flow. If so, the flow must look its row
 * up again.
 */
static inline bool ccatune_is_recalled(struct ccatune_flow *flow)
{
	u32 recalls = ccatune_recalls(flow->cca);

	if (likely(recalls == flow->recalls))
		return false;
	flow->recalls = recalls;
	return true;
}

/*
 * The delay class that a socket requests: 1 is the first of the table's classes. 0 and numbers
 * beyond the classes give the default class.
 */
static inline u8 ccatune_delay_class(const struct ccatune_cca *cca, const struct sock *sk,
				     const struct ccatune_table *table)
{
	u32 source = ccatune_setting(cca, CCATUNE_CLASS_SOURCE);
	u32 mask = ccatune_setting(cca, CCATUNE_CLASS_MASK);
	u32 number = 0;

	if (source == CCATUNE_CLASS_OF_PRIORITY)
		number = READ_ONCE(sk->sk_priority);
	else if (source == CCATUNE_CLASS_OF_MARK)
		number = READ_ONCE(sk->sk_mark);
	/* The mask is at least 1, so __ffs() is defined. */
	number = (number & mask) >> __ffs(mask);
	if (number && number <= (table ? table->ens.n_classes : ENS_MAX_CLASSES))
		return (u8)(number - 1);
	return (u8)ccatune_setting(cca, CCATUNE_DEFAULT_CLASS);
}

/* In BPF, `flows` shows the numbers of the socket that are noted here. */
#define ccatune_flow_note(flow, sk) do { } while (0)

/* The module has other operations for a socket without a flow (fallback.c). */
#define ccatune_plain_grow(sk, acked_pkts) do { } while (0)
#define ccatune_plain_set_state(sk, new_state) do { } while (0)

static inline void ccatune_need_pacing(struct sock *sk)
{
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

/* What applies to a flow. The BPF host (kmod/bpf/ccatune.h) has functions of the same names. */
static inline struct ccatune_table *ccatune_flow_table(const struct ccatune_flow *flow)
{
	return ccatune_table(flow->cca);
}

static inline const struct ccatune_params *ccatune_flow_params(const struct ccatune_flow *flow)
{
	return ccatune_params(flow->cca);
}

static inline u8 ccatune_flow_class(const struct ccatune_flow *flow, const struct sock *sk,
				    const struct ccatune_table *table)
{
	return ccatune_delay_class(flow->cca, sk, table);
}

/* Bit-fields, which BPF reads in another way. */
static inline u8 ccatune_ca_state(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_state;
}

static inline bool ccatune_cwnd_limited(const struct tcp_sock *tp)
{
	return tp->is_cwnd_limited;
}

/*
 * BPF's verifier checks some functions on their own (kmod/bpf/ccatune.h). It takes their pointers
 * for possibly missing.
 */
#define CCATUNE_PART static inline
#define CCATUNE_LACKS(condition) (false && (condition))

#include "sums.h"

/* --- recording, for an algorithm module -------------------------------------- */

struct ccatune_recording *ccatune_recording_with(const struct ccatune_flow *flow);

/* The recording that includes this flow, NULL if there is none. Call this under rcu_read_lock(). */
static inline struct ccatune_recording *ccatune_recording(const struct ccatune_flow *flow)
{
	return rcu_access_pointer(flow->cca->recording) ? ccatune_recording_with(flow) : NULL;
}

/* The same once more within an event that has looked already, and found this one. */
static inline struct ccatune_recording *ccatune_recording_still(struct ccatune_recording *found,
								const struct ccatune_flow *flow)
{
	return found;
}

/* Finishes the record and copies it into the recording, if there is room. */
void ccatune_record(struct ccatune_recording *recording, struct rec_record *record);
/*
 * These record the table or the parameters that a flow has read, unless the recording contains
 * them already. Call them before the record that refers to the table or the parameters.
 */
void ccatune_record_table(struct ccatune_recording *recording, const struct ccatune_table *table);
void ccatune_record_params(struct ccatune_recording *recording,
			   const struct ccatune_params *params, u32 id);

#endif /* CCATUNE_H */
