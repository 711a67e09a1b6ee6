/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the modules of R-TCP need of tcp_rtcp.ko: the clients of a network namespace
 * (kmod/core/rtcp_clients.h), which all of them share, whatever they cap.
 *
 *   struct rtcp_table    a namespace's clients, with a lock for joining and leaving
 *   struct rtcp_place    what the shell has beside a client: its lock
 *   struct rtcp_member   a connection's part in a client, or a client of its own
 *   struct rtcp_kflow    head of what an R-TCP module keeps for a socket
 *
 * Locks. A client has one of its own, taken with each ACK; that of the table is taken where a
 * connection begins, ends, or parts from a client that is split. Neither is taken within the
 * other, except where `clients` is read or written: the table's, then the client's.
 *
 * Lifetimes. A member holds its table, which outlives its namespace as long as it is held, and
 * is freed a grace period behind that: who reads of a flow under RCU may follow its member.
 */
#ifndef CCATUNE_TCP_RTCP_H
#define CCATUNE_TCP_RTCP_H

#include "ccatune.h"
#include "rtcp_clients.h"
#include "rtcp_recording.h"

struct rtcp_place {
	spinlock_t lock;		/* of the client */
	const void *recording;		/* that has all that became of it; never followed */
} ____cacheline_aligned_in_smp;

struct rtcp_table {
	struct rtcp_clients clients;
	struct rcu_head rcu;
	refcount_t refs;
	spinlock_t lock;		/* of joining and leaving */
	struct rtcp_place places[];	/* one an entry; the entries lie behind them */
};

struct rtcp_member {
	struct rtcp_table *table;	/* held while there is an entry */
	struct rtcp_entry *entry;	/* NULL: the client is its own */
	struct rtcp_client own;
};

/* The core asserts that client and flow are within 250 bytes; the place in the table is more. */
RTCP_ASSERT(member_is_small, sizeof(struct rtcp_member) + sizeof(struct rtcp_flow) <=
			     RTCP_MOST_STATE_BYTES + 2 * sizeof(void *));

struct rtcp_kflow {
	struct ccatune_flow head;
	struct rtcp_member member;
	u32 queueing_delay_us;
};

/* In the socket's private area: what `ss` shows, which may not follow the pointer. */
struct rtcp_sock {
	struct rtcp_kflow *flow;
	u32 limit_bytes_per_s;		/* 0: none is known */
	u32 min_rtt_us;
	u32 gain_permille;		/* of the cap; 0: there is none */
	u32 sharing;			/* flows that it is divided among */
};

int rtcp_register_net(struct net *net, struct ccatune_algorithm *algorithm);

void rtcp_member_join(struct rtcp_member *m, const struct sock *sk, u64 now_us);
void rtcp_member_part(struct rtcp_member *m);
void rtcp_member_tell(struct rtcp_member *m, struct ccatune_recording *recording);
void rtcp_kflow_end(struct sock *sk, struct rtcp_kflow *f, struct rtcp_flow *flow);

void rtcp_view(const struct rtcp_kflow *f, const struct rtcp_flow *flow,
	       const struct rtcp_ens *ens, const struct rtcp_params *params,
	       struct ccatune_view *view);
void rtcp_show(struct seq_file *m, const struct rtcp_kflow *f, const struct rtcp_flow *flow,
	       const struct rtcp_params *params);
void rtcp_copy_info(struct sock *sk, const struct rtcp_kflow *f, const struct rtcp_flow *flow,
		    const struct rtcp_params *params);
size_t rtcp_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);
bool rtcp_read_tx_start(const struct sock *sk, const struct rtcp_flow *flow,
			enum cca_event_kind *kind);

static inline struct rtcp_kflow *rtcp_kflow_of(const struct sock *sk)
{
	return ((struct rtcp_sock *)inet_csk_ca(sk))->flow;
}

/* 0: the client is the flow's own. */
static inline u32 rtcp_member_number(const struct rtcp_member *m)
{
	return m->entry ? (u32)(m->entry - m->table->clients.entries) + 1 : 0;
}

static inline struct rtcp_place *rtcp_member_place(const struct rtcp_member *m)
{
	return &m->table->places[m->entry - m->table->clients.entries];
}

/*
 * The client, locked. Under rcu_read_lock(), where recording is one: it is then told of the
 * client's state, unless it has all that became of it. NULL: the flow is not recorded. anew: for
 * a flow that begins; what another recording was told counts for none, whatever its name.
 */
static inline struct rtcp_client *rtcp_member_lock(struct rtcp_member *m,
						   struct ccatune_recording *recording, bool anew)
	__acquires(m)
{
	struct rtcp_place *place;

	if (!m->entry) {
		__acquire(m);
		return &m->own;
	}
	place = rtcp_member_place(m);
	spin_lock_bh(&place->lock);
	if (anew || place->recording != recording)
		rtcp_member_tell(m, recording);
	return &m->entry->client;
}

static inline void rtcp_member_unlock(struct rtcp_member *m)
	__releases(m)
{
	if (m->entry)
		spin_unlock_bh(&rtcp_member_place(m)->lock);
	else
		__release(m);
}

/* With the client's lock, under rcu_read_lock(): ahead of a flow that begins. */
static inline void rtcp_member_renew(struct rtcp_member *m, struct ccatune_recording *recording,
				     u64 now_us)
{
	if (m->entry && unlikely(rtcp_entry_renew(&m->table->clients, m->entry, now_us)))
		rtcp_member_tell(m, recording);
}

/* The same ahead of an ACK. */
static inline void rtcp_member_on_ack(struct rtcp_member *m, struct ccatune_recording *recording,
				      u64 now_us)
{
	if (m->entry && unlikely(rtcp_entry_on_ack(&m->table->clients, m->entry, now_us)))
		rtcp_member_tell(m, recording);
}

/* With the client's lock, so that records are in the order of events. */
static inline void rtcp_kflow_record(const struct rtcp_kflow *f, const struct rtcp_flow *flow,
				     const struct rtcp_client *c,
				     struct ccatune_recording *recording, struct rec_record *r)
{
	rtcp_put_states(r, c, flow, rtcp_member_number(&f->member));
	ccatune_record(recording, r);
}

/* Behind an ACK, with the client's lock; true: the flow has left a client that is split. */
static inline bool rtcp_kflow_moves(struct rtcp_kflow *f, struct rtcp_flow *flow,
				    struct rtcp_client *c, u64 now_us)
{
	if (likely(c->kind != RTCP_SPLIT) || !f->member.entry)
		return false;
	rtcp_flow_moves(flow, c, &f->member.own, now_us);
	return true;
}

/* What a connection has to get acknowledged still: equation 22's u + v, below 2^32. */
static inline u32 rtcp_waiting_bytes(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return READ_ONCE(tp->write_seq) - tp->snd_una;
}

#endif /* CCATUNE_TCP_RTCP_H */
