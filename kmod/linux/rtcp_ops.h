/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What table_ops.h requires, for R-TCP, whose flows may share a client (compare no_client.h). The
 * host has:
 *
 *   rtcp_member_join()    gives a connection its client
 *   rtcp_member_part()    from here on the connection has a client of its own
 *   rtcp_member_client()  the client
 *   rtcp_member_lock()    locks the client; records its state first, if necessary
 *   rtcp_member_unlock()
 *   rtcp_member_renew()   discards what is known of the client if it is too old
 *   rtcp_member_on_ack()  the same before an ACK
 *   rtcp_member_number()  of the client in a recording; 0: it belongs to the flow alone
 *   rtcp_member_is_own()  whether it belongs to the flow alone
 */
#ifndef CCATUNE_RTCP_OPS_H
#define CCATUNE_RTCP_OPS_H

#include "sock.h"

#define alg_join(f, sk, now_us) \
	do { \
		rtcp_tally_init(&(f)->member.tally, tcp_sk(sk)->data_segs_out, \
				tcp_sk(sk)->total_retrans); \
		rtcp_member_join(&(f)->member, sk, now_us); \
	} while (0)
#define alg_part(f) rtcp_member_part(&(f)->member)
#define alg_renew(f, recording, now_us) rtcp_member_renew(&(f)->member, recording, now_us)
#define alg_before_ack(f, recording, now_us) rtcp_member_on_ack(&(f)->member, recording, now_us)
#define alg_update_share(f, waiting_bytes) \
	rtcp_flow_update_share(&(f)->core.state.flow, alg_client(f), waiting_bytes)
#define alg_is_inactive(f) (!(f)->core.state.flow.active)

static inline void alg_lock(struct alg_flow *f, struct ccatune_recording *recording, bool anew)
	__acquires(&f->member)
{
	rtcp_member_lock(&f->member, recording, anew);
}

static inline void alg_unlock(struct alg_flow *f)
	__releases(&f->member)
{
	rtcp_member_unlock(&f->member);
}

/* The unsent and unacknowledged bytes of a connection: u + v in equation 22, below 2^32. */
static inline u32 alg_waiting_bytes(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return READ_ONCE(tp->write_seq) - tp->snd_una;
}

static inline void alg_put_states(struct rec_record *r, const struct alg_flow *f)
{
	rtcp_put_states(r, alg_client(f), &f->core.state.flow, rtcp_member_number(&f->member));
}

#define alg_put_ack(r, waiting_bytes) ((r)->word[RTCP_REC_WAITING] = (waiting_bytes))

/* Counts the segments that the socket has sent. Call this with the client's lock held. */
static noinline void alg_count(struct alg_flow *f, const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct rtcp_counts more = rtcp_tally_read(&f->member.tally, tp->data_segs_out,
						  tp->total_retrans,
						  alg_client(f)->kind == RTCP_LIMITED);

	rtcp_member_count(&f->member, &more);
}

/* Adds the counts since the last call to the totals of `status`. */
static noinline void alg_report_counts(struct alg_flow *f)
{
	struct ccatune_counters *counts = ccatune_counts(&f->head);
	struct rtcp_tally *t = &f->member.tally;

	if (!counts)
		return;
	if (t->now.limited_segments && !t->reported.limited_segments)
		ccatune_add(&counts->limiter[CCATUNE_LIMITED_FLOWS], 1);
	ccatune_add(&counts->limiter[CCATUNE_ALL_SEGMENTS],
		    t->now.segments - t->reported.segments);
	ccatune_add(&counts->limiter[CCATUNE_ALL_RETRANSMITTED],
		    t->now.retransmitted - t->reported.retransmitted);
	ccatune_add(&counts->limiter[CCATUNE_LIMITED_SEGMENTS],
		    t->now.limited_segments - t->reported.limited_segments);
	ccatune_add(&counts->limiter[CCATUNE_LIMITED_RETRANSMITTED],
		    t->now.limited_retransmitted - t->reported.limited_retransmitted);
	t->reported = t->now;
}

/*
 * Call this after an ACK, with the client's lock held. Returns true if the flow has left a client
 * that is split.
 */
static inline bool alg_moves(struct alg_flow *f, u64 now_us)
{
	struct rtcp_client *c = alg_client(f);

	if (likely(c->kind != RTCP_SPLIT) || rtcp_member_is_own(&f->member))
		return false;
	rtcp_flow_moves(&f->core.state.flow, c, &f->member.own, now_us);
	return true;
}

/* The connection ends, or changes its algorithm. */
static inline void alg_leave(struct alg_flow *f, const struct sock *sk)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	alg_lock(f, recording, false);
	alg_count(f, sk);
	alg_report_counts(f);
	rtcp_flow_leaves(&f->core.state.flow, alg_client(f));
	if (recording) {
		rec_init(&r, (enum rec_kind)RTCP_REC_LEAVE, f->head.recorded_as,
			 tcp_sk(sk)->tcp_mstamp);
		alg_put_states(&r, f);
		ccatune_record(recording, &r);
	}
	alg_unlock(f);
	rcu_read_unlock();
	alg_part(f);
}

#endif /* CCATUNE_RTCP_OPS_H */
