/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface between tcp_rtcp.ko and the R-TCP modules: the clients of a network namespace
 * (kmod/core/rtcp_clients.h). All R-TCP modules share them, whichever base algorithm they cap.
 *
 *   struct rtcp_table    the clients of a namespace, with a lock for joining and leaving
 *   struct rtcp_place    the kernel's data about a client, such as its lock
 *   struct rtcp_member   the client of a connection: a shared one, or its own
 *
 * Locks. Each client has a lock, which is taken for each ACK. The table's lock is taken when a
 * connection begins, ends, or leaves a client that is split. Neither is taken while the other is
 * held. The exception is the file `clients`, which takes the table's lock and then the client's.
 *
 * Lifetimes. A member holds a reference to its table, so the table may outlive its namespace. The
 * table is freed a grace period after the last reference is dropped. Therefore a reader of a flow
 * under RCU may follow its member.
 */
#ifndef CCATUNE_TCP_RTCP_H
#define CCATUNE_TCP_RTCP_H

#include "ccatune.h"
#include "rtcp_clients.h"
#include "rtcp_recording.h"
#include "rtcp_tally.h"

struct rtcp_place {
	spinlock_t lock;		/* the client's lock */
	const void *recording;		/* has all changes of the client; never dereferenced */
	/* As struct rtcp_counts: of all the client's connections since it got the entry. */
	u64 segments, retransmitted, limited_segments, limited_retransmitted;
} ____cacheline_aligned_in_smp;

struct rtcp_table {
	struct rtcp_clients clients;
	struct rcu_head rcu;
	refcount_t refs;
	spinlock_t lock;		/* for joining and leaving */
	struct rtcp_place places[];	/* one per entry; the entries follow them */
};

struct rtcp_member {
	struct rtcp_table *table;	/* referenced while there is an entry */
	struct rtcp_entry *entry;	/* NULL: the connection's client is `own` */
	struct rtcp_client own;
	struct rtcp_tally tally;
};

/*
 * The core asserts that the states of client and flow are within 250 bytes. A member adds two
 * pointers and its counts.
 */
RTCP_ASSERT(member_is_small, sizeof(struct rtcp_member) + sizeof(struct rtcp_flow) <=
			     RTCP_MOST_STATE_BYTES + 2 * sizeof(void *) +
			     sizeof(struct rtcp_tally));

/* The socket's private area: a pointer, and the values that `ss` shows without it. */
struct rtcp_sock {
	void *flow;
	u32 limit_bytes_per_s;		/* 0: no limiter is known */
	u32 min_rtt_us;
	u32 gain_permille;		/* of the cap; 0: no cap */
	u32 sharing;			/* number of flows that share the cap */
};

int rtcp_register_net(struct net *net, struct ccatune_algorithm *algorithm);

void rtcp_member_join(struct rtcp_member *m, const struct sock *sk, u64 now_us);
void rtcp_member_part(struct rtcp_member *m);
void rtcp_member_tell(struct rtcp_member *m, struct ccatune_recording *recording);
void rtcp_copy_info(struct sock *sk, const struct rtcp_member *m, const struct rtcp_flow *flow,
		    const struct rtcp_params *params);
size_t rtcp_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);

/* rtcp_table.c, for the files of tcp_rtcp.ko */
struct rtcp_table *rtcp_table_get(const struct net *net);
struct rtcp_table *rtcp_table_seen(const struct net *net);
void rtcp_table_put(struct rtcp_table *t);
u32 rtcp_ipv6_prefix_bits(void);

/* The client. Who does not hold its lock reads it under RCU. */
static inline struct rtcp_client *rtcp_member_client(const struct rtcp_member *m)
{
	struct rtcp_entry *entry = READ_ONCE(m->entry);

	return entry ? &entry->client : (struct rtcp_client *)&m->own;
}

/* The number of a client in a recording. 0: it belongs to the flow alone. */
static inline u32 rtcp_member_number(const struct rtcp_member *m)
{
	return m->entry ? (u32)(m->entry - m->table->clients.entries) + 1 : 0;
}

static inline bool rtcp_member_is_own(const struct rtcp_member *m)
{
	return !READ_ONCE(m->entry);
}

static inline struct rtcp_place *rtcp_member_place(const struct rtcp_member *m)
{
	return &m->table->places[m->entry - m->table->clients.entries];
}

/*
 * Locks the client. recording: that of the flow, NULL if there is none; otherwise call this under
 * rcu_read_lock(). The client's state is recorded first, unless the recording has all changes of
 * the client. anew: for a flow that begins. Then the state is always recorded, because a new
 * recording may have the address of an old one.
 */
static inline void rtcp_member_lock(struct rtcp_member *m, struct ccatune_recording *recording,
				    bool anew)
	__acquires(m)
{
	struct rtcp_place *place;

	if (!m->entry) {
		__acquire(m);
		return;
	}
	place = rtcp_member_place(m);
	spin_lock_bh(&place->lock);
	if (anew || place->recording != recording)
		rtcp_member_tell(m, recording);
}

static inline void rtcp_member_unlock(struct rtcp_member *m)
	__releases(m)
{
	if (m->entry)
		spin_unlock_bh(&rtcp_member_place(m)->lock);
	else
		__release(m);
}

/* Adds to the counts of the client. Call this with its lock held. */
static inline void rtcp_member_count(struct rtcp_member *m, const struct rtcp_counts *more)
{
	struct rtcp_place *place;

	if (!m->entry)
		return;
	place = rtcp_member_place(m);
	place->segments += more->segments;
	place->retransmitted += more->retransmitted;
	place->limited_segments += more->limited_segments;
	place->limited_retransmitted += more->limited_retransmitted;
}

/*
 * Discards what is known of the client if it is too old. Call this before a flow begins, with the
 * client's lock held and under rcu_read_lock().
 */
static inline void rtcp_member_renew(struct rtcp_member *m, struct ccatune_recording *recording,
				     u64 now_us)
{
	if (m->entry && unlikely(rtcp_entry_renew(&m->table->clients, m->entry, now_us)))
		rtcp_member_tell(m, recording);
}

/* The same before an ACK. */
static inline void rtcp_member_on_ack(struct rtcp_member *m, struct ccatune_recording *recording,
				      u64 now_us)
{
	if (m->entry && unlikely(rtcp_entry_on_ack(&m->table->clients, m->entry, now_us)))
		rtcp_member_tell(m, recording);
}

#endif /* CCATUNE_TCP_RTCP_H */
