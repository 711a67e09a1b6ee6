/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an algorithm module (tcp_gr.ko ...) needs of ccatune.ko, which keeps the
 * tree /proc/net/ccatune, the tables and parameters in force, and the flows.
 *
 *   struct ccatune_algorithm   one a module: what the /proc tree must know of it
 *   struct ccatune_cca         the algorithm in one network namespace
 *   struct ccatune_flow        head of what the algorithm keeps for a socket
 *
 * Lifetimes. A flow holds its ccatune_cca, and sockets hold the algorithm's
 * module, so that a namespace or a module that goes leaves no flow with a bad
 * pointer. Tables and parameters are read under rcu_read_lock() and held no
 * longer. A flow's memory is freed a grace period after its socket has left it.
 */
#ifndef CCATUNE_H
#define CCATUNE_H

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "compat.h"
#include "ensemble_format.h"
#include "ensemble_recording.h"
#include "histogram.h"

#define CCATUNE_VERSION "0.1.0"

struct ccatune_cca;
struct ccatune_flow;
struct ccatune_recording;
struct seq_file;

/* What `flows` says of a flow beyond what every flow has. */
struct ccatune_view {
	const struct ens_clock *clock;
	const void *params;		/* in force for this flow */
	const char *mode;
	u64 pacing_bytes_per_s;
	u32 min_rtt_us;
	u32 queueing_delay_us;
};

struct ccatune_algorithm {
	u32 id;				/* CCA_ID_ of the core */
	const char *cache_name;
	unsigned int flow_bytes;	/* with the ccatune_flow at its head */
	void (*view)(const struct ccatune_flow *flow, struct ccatune_view *view);
	/* NULL, or what only this algorithm knows: ` name=value` each */
	void (*show)(struct seq_file *m, const struct ccatune_flow *flow);
	struct pernet_operations net_ops;
	unsigned int net_id;
	struct kmem_cache *cache;
	struct ccatune_cca *initial;	/* of the initial namespace */
};

enum ccatune_group {
	CCATUNE_ENSEMBLE,		/* flows on the rows of a table */
	CCATUNE_HELD_BACK,		/* flows that the same table leaves alone */
	CCATUNE_GROUPS,
	/* The same of the namespaces that follow the table's; in the initial one's tables alone. */
	CCATUNE_FOLLOWERS = CCATUNE_GROUPS,
	CCATUNE_MOST_GROUPS = 2 * CCATUNE_GROUPS,
};

/* Sums over the epochs that flows spent on a row. */
struct ccatune_sums {
	atomic64_t visits;		/* epochs begun on it */
	atomic64_t lookups;		/* of these: found by level, not kept nor raised to */
	atomic64_t epochs;		/* of these: ended, and counted below */
	atomic64_t time_us;
	atomic64_t bytes;		/* acknowledged */
	atomic64_t segments;		/* sent, with the retransmitted ones */
	atomic64_t retransmitted;
	atomic64_t samples;		/* of queueing delay */
	atomic64_t delay_us;		/* their sum */
	atomic64_t within;		/* samples at or below the class's target */
};

struct ccatune_delays {
	atomic64_t bucket[CCA_HISTOGRAM_BUCKETS];
};

struct ccatune_table {
	struct ens_table ens;
	refcount_t refs;		/* of process context: the one in force, open files */
	const struct ccatune_cca *owner;	/* whose it is; compared, and never followed */
	u32 groups;			/* 2, and 4 where others may follow */
	struct ccatune_sums *sums;	/* [rows][groups] */
	struct ccatune_delays *delays;	/* [classes][groups] */
};

struct ccatune_params {
	struct rcu_head rcu;
	u32 version;			/* never given twice */
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

enum ccatune_class_source {
	CCATUNE_CLASS_OF_NOTHING,
	CCATUNE_CLASS_OF_PRIORITY,
	CCATUNE_CLASS_OF_MARK,
};

struct ccatune_cca {
	/* Read for every ACK, written by hand only. */
	struct ccatune_table __rcu *table;	/* of this namespace; NULL: none */
	struct ccatune_params __rcu *params;	/* never NULL */
	struct ccatune_recording __rcu *recording;
	struct ccatune_cca *initial;		/* of the initial namespace; NULL in it */
	u32 recalls;				/* how often rows were recalled (ensemble_flow.h) */
	u32 setting[CCATUNE_SETTINGS];
	bool has_params;			/* written in this namespace */

	struct ccatune_algorithm *algorithm ____cacheline_aligned_in_smp;
	struct net *net;			/* while the /proc files are there */
	struct proc_dir_entry *dir;
	struct mutex lock;			/* of writers */
	struct ccatune_table *leaving;		/* with the namespace */
	struct ccatune_recording *recorded;	/* ended, to be read */
	u64 instance;				/* random: another one after a reload */
	u64 generation;				/* changes: of table, parameters, settings */
	refcount_t refs;
	struct rcu_head rcu;
	atomic64_t rejected_writes;

	struct xarray flows ____cacheline_aligned_in_smp;	/* by number */
	atomic_t n_flows;
	atomic64_t flows_started;
	atomic64_t allocation_fallbacks;
	atomic64_t turns[ENS_KEPT + 1];		/* by enum ens_turn */
	atomic64_t reoptimisations;		/* turns that the rule of epsilon asked for */
};

struct ccatune_flow {
	struct ccatune_cca *cca;
	struct sock *sk;		/* its memory is a socket's as long as RCU holds the flow */
	bool ended;			/* sk may be another socket by now */
	struct rcu_head rcu;
	u32 number;			/* its place in the namespace's flows */
	u32 recalls;			/* of the namespace, when the flow last followed them */
	u32 hash;			/* random, fixed */
	u32 start_delivered;		/* tp->delivered when the connection began */
	u32 recorded_as;		/* number within recordings; 0: not recorded */

	/* The epoch that runs, and the row that it belongs to. */
	u64 table;			/* generation; 0: none */
	u64 epoch_start_us;
	u64 epoch_bytes;		/* counters of the socket at its start */
	u32 epoch_segments;
	u32 epoch_retransmitted;
	u32 row;
	u32 target_us;
	u8 delay_class;
	u8 group;			/* enum ccatune_group, of a follower + CCATUNE_FOLLOWERS */
	u8 turn;			/* that began it */
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
void ccatune_flow_epoch_ended(struct ccatune_flow *flow, const struct ens_clock *clock,
			 struct ccatune_table *table, u64 now_us, u8 turn, bool held_back);

static inline struct ccatune_cca *ccatune_cca_of(const struct net *net,
						 const struct ccatune_algorithm *algorithm)
{
	return READ_ONCE(*(struct ccatune_cca **)net_generic(net, algorithm->net_id));
}

static inline u32 ccatune_setting(const struct ccatune_cca *cca, enum ccatune_setting setting)
{
	return READ_ONCE(cca->setting[setting]);
}

/* Under rcu_read_lock(). A namespace without a table of its own follows the initial one's. */
static inline struct ccatune_table *ccatune_table(const struct ccatune_cca *cca)
{
	struct ccatune_table *t = rcu_dereference(cca->table);

	if (!t && cca->initial && ccatune_setting(cca, CCATUNE_FOLLOW_INITIAL))
		t = rcu_dereference(cca->initial->table);
	return t;
}

/* Under rcu_read_lock(). As with tables: who never wrote any follows. */
static inline const struct ccatune_params *ccatune_params(const struct ccatune_cca *cca)
{
	if (!smp_load_acquire(&cca->has_params) && cca->initial &&
	    ccatune_setting(cca, CCATUNE_FOLLOW_INITIAL))
		return rcu_dereference(cca->initial->params);
	return rcu_dereference(cca->params);
}

/* Rows recalled in this namespace, or in the one whose table it may follow. */
static inline u32 ccatune_recalls(const struct ccatune_cca *cca)
{
	/* Pairs with ccatune_recall(): who sees the count sees the table that it is about. */
	u32 recalls = smp_load_acquire(&cca->recalls);

	return cca->initial ? recalls + smp_load_acquire(&cca->initial->recalls) : recalls;
}

/* Whether rows were recalled since the flow was asked last, and it has to look its row up. */
static inline bool ccatune_is_recalled(struct ccatune_flow *flow)
{
	u32 recalls = ccatune_recalls(flow->cca);

	if (likely(recalls == flow->recalls))
		return false;
	flow->recalls = recalls;
	return true;
}

/* The class that a socket asks for: 1 names the first of the table's classes. */
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
	/* The mask is not 0. */
	number = (number & mask) >> __ffs(mask);
	if (number && number <= (table ? table->ens.n_classes : ENS_MAX_CLASSES))
		return (u8)(number - 1);
	return (u8)ccatune_setting(cca, CCATUNE_DEFAULT_CLASS);
}

/* A sample of queueing delay for the epoch that runs, as its clock counts them. */
static inline void ccatune_flow_sample(struct ccatune_flow *flow, const struct cca_ack *ack,
				       u32 queueing_delay_us)
{
	if (!ack->rtt_us || ack->app_limited || flow->samples == CCA_MAX_PKTS)
		return;
	flow->samples++;
	flow->delay_us += queueing_delay_us;
	flow->within += queueing_delay_us <= flow->target_us;
	flow->bucket[cca_histogram_bucket(queueing_delay_us)]++;
}

/* --- recording, for an algorithm module -------------------------------------- */

struct ccatune_recording *ccatune_recording_with(const struct ccatune_flow *flow);

/* Under rcu_read_lock(): the recording that this flow is part of, NULL for none. */
static inline struct ccatune_recording *ccatune_recording(const struct ccatune_flow *flow)
{
	return rcu_access_pointer(flow->cca->recording) ? ccatune_recording_with(flow) : NULL;
}

/* Finishes the record and keeps a copy of it. */
void ccatune_record(struct ccatune_recording *recording, struct rec_record *record);
/* Tells of what a flow has read, before it is used, unless the recording knows it. */
void ccatune_record_table(struct ccatune_recording *recording, const struct ccatune_table *table);
void ccatune_record_params(struct ccatune_recording *recording,
			   const struct ccatune_params *params, u32 id);

/* A record of a recall, up to what the flow stands on behind it. */
static inline void ccatune_begin_recall(struct ccatune_recording *recording, struct rec_record *r,
					const struct ccatune_flow *flow, const struct ens_flow *ens,
					const struct ccatune_table *table,
					const struct ccatune_params *params, u64 now_us)
{
	ccatune_record_table(recording, table);
	ccatune_record_params(recording, params, flow->cca->algorithm->id);
	rec_init(r, REC_RECALL, flow->recorded_as, now_us);
	ens_flow_put_recall(r, ens, table ? table->ens.generation : 0, params->version);
}

/*
 * After a flow has followed a recall, under rcu_read_lock(): the sums of its rows, and the
 * recording. set: the parameter set in force.
 */
static inline void ccatune_flow_recalled(struct ccatune_flow *flow, const struct ens_flow *ens,
					 const void *set, struct ccatune_table *table,
					 const struct ccatune_params *params, u64 now_us)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	if (ens->turn == ENS_WAITED)
		return;
	ccatune_flow_epoch_ended(flow, &ens->clock, table, now_us, ens->turn, ens->held_back);
	recording = ccatune_recording(flow);
	if (!recording)
		return;
	ccatune_begin_recall(recording, &r, flow, ens, table, params, now_us);
	ens_flow_put_outcome(&r, ens, set, flow->cca->algorithm->id);
	ccatune_record(recording, &r);
}

#endif /* CCATUNE_H */
