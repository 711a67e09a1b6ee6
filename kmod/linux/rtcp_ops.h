/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What R-TCP's operations have in common, for both hosts in the kernel. The includer has included
 * its ccatune.h, and has:
 *
 *   rtcp_member_join()    gives a connection its client
 *   rtcp_member_part()    from here on the connection has a client of its own
 *   rtcp_member_lock()    locks the client and returns it; records its state first, if necessary
 *   rtcp_member_unlock()
 *   rtcp_member_renew()   discards what is known of the client if it is too old
 *   rtcp_member_on_ack()  the same before an ACK
 *   rtcp_member_number()  of the client in a recording; 0: it belongs to the flow alone
 *   rtcp_member_is_own()  whether it belongs to the flow alone
 */
#ifndef CCATUNE_RTCP_OPS_H
#define CCATUNE_RTCP_OPS_H

#include "recall.h"
#include "rtcp_kflow.h"
#include "rtcp_recording.h"
#include "sock.h"

/* Locks the client of a flow that has begun. recording: that of the flow. */
static inline struct rtcp_client *rtcp_kflow_lock(struct rtcp_kflow *f,
						  struct ccatune_recording *recording)
	__acquires(&f->member)
{
	return rtcp_member_lock(&f->member, recording, false);
}

static inline void rtcp_kflow_unlock(struct rtcp_kflow *f)
	__releases(&f->member)
{
	rtcp_member_unlock(&f->member);
}

/* --- recording, with the client's lock held: records are in the order of events -------- */

/* Begins the record of a connection's start. id: of the algorithm. */
static inline void rtcp_begin_start(struct ccatune_recording *recording, struct rec_record *r,
				    const struct rtcp_kflow *f, const struct rtcp_ens *ens,
				    const struct cca_start *start, u32 waiting_bytes,
				    const struct ccatune_params *params, u32 id)
{
	ccatune_record_params(recording, params, id);
	rec_init(r, REC_START, f->head.recorded_as, start->now_us);
	rec_put_start(r, start, ens->flow.clock.delay_class, f->head.hash, params->version);
	r->word[RTCP_REC_START_WAITING] = waiting_bytes;
}

/* Begins the record of an ACK, REC_ACK or REC_WINDOW_ACK. id: of the algorithm. */
static inline void rtcp_begin_ack(struct ccatune_recording *recording, struct rec_record *r,
				  enum rec_kind kind, const struct rtcp_kflow *f,
				  const struct rtcp_ens *ens, const struct cca_ack *ack,
				  u32 waiting_bytes, const struct ccatune_table *table,
				  const struct ccatune_params *params, u32 id)
{
	if (ens->flow.epoch_end != ENS_WAITED) {
		ccatune_record_table(recording, table);
		ccatune_record_params(recording, params, id);
	}
	rec_init(r, kind, f->head.recorded_as, ack->now_us);
	ens_flow_put_ack(r, &ens->flow, ack, table ? table->ens.generation : 0, params->version);
	r->word[RTCP_REC_WAITING] = waiting_bytes;
}

static inline void rtcp_kflow_record(const struct rtcp_kflow *f, const struct rtcp_flow *flow,
				     const struct rtcp_client *c,
				     struct ccatune_recording *recording, struct rec_record *r)
{
	rtcp_put_states(r, c, flow, rtcp_member_number(&f->member));
	ccatune_record(recording, r);
}

/* --- events ------------------------------------------------------------------------ */

/*
 * Call this after an ACK, with the client's lock held. Returns true if the flow has left a client
 * that is split.
 */
static inline bool rtcp_kflow_moves(struct rtcp_kflow *f, struct rtcp_flow *flow,
				    struct rtcp_client *c, u64 now_us)
{
	if (likely(c->kind != RTCP_SPLIT) || rtcp_member_is_own(&f->member))
		return false;
	rtcp_flow_moves(flow, c, &f->member.own, now_us);
	return true;
}

/* The unsent and unacknowledged bytes of a connection: u + v in equation 22, below 2^32. */
static inline u32 rtcp_waiting_bytes(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return READ_ONCE(tp->write_seq) - tp->snd_una;
}

/*
 * As ccatune_read_tx_start(). In addition, a flow that is inactive, because all of its data was
 * acknowledged, starts a transfer even if the kernel does not take it for application-limited.
 */
static inline bool rtcp_read_tx_start(const struct sock *sk, const struct rtcp_flow *flow,
				      enum cca_event_kind *kind)
{
	if (ccatune_read_tx_start(sk, kind))
		return true;
	*kind = CCA_TRANSFER_STARTED;
	return ccatune_is_tx_start(sk) && !flow->active;
}

/*
 * Makes the flow follow a recall of rows (kmod/core/ensemble_flow.h). Call this with the client's
 * lock held and under rcu_read_lock(). recording: that of the event which finds the recall, so that
 * a recording that stops meanwhile has both or neither. set: the flow's parameters, which this
 * updates. id: of the algorithm.
 */
static inline void rtcp_kflow_follow_recall(struct rtcp_kflow *f, const struct sock *sk,
					    struct ccatune_recording *recording,
					    struct rtcp_ens *ens, const struct rtcp_flow *flow,
					    const struct rtcp_client *c,
					    struct rtcp_params *set, u32 id, u64 now_us)
{
	const struct ccatune_params *params;
	struct ccatune_table *table;
	struct rec_record r;

	if (likely(!ccatune_is_recalled(&f->head)))
		return;
	table = ccatune_flow_table(&f->head);
	params = ccatune_flow_params(&f->head);
	ens_flow_set_class(&ens->flow, ccatune_flow_class(&f->head, sk, table));
	rtcp_ens_recall(ens, c, (const struct rtcp_params *)params->value,
			table ? &table->ens : NULL, now_us, set);
	if (ens->flow.epoch_end == ENS_WAITED)
		return;
	ccatune_flow_epoch_ended(&f->head, sk, &ens->flow, table, now_us);
	recording = ccatune_recording_still(recording, &f->head);
	if (!recording)
		return;
	ccatune_begin_recall(recording, &r, &f->head, &ens->flow, table, params, id, now_us);
	rtcp_put_outcome(&r, ens, set, c, flow, id);
	rtcp_kflow_record(f, flow, c, recording, &r);
}

/* The same before a transmission. This locks the client, if there was a recall. */
static inline void rtcp_kflow_before_sending(struct rtcp_kflow *f, const struct sock *sk,
					     struct rtcp_ens *ens, const struct rtcp_flow *flow,
					     struct rtcp_params *set, u32 id)
{
	struct ccatune_recording *recording;
	struct rtcp_client *c;

	if (likely(!ccatune_was_recalled(&f->head)))
		return;
	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	c = rtcp_kflow_lock(f, recording);
	rtcp_kflow_follow_recall(f, sk, recording, ens, flow, c, set, id,
				 tcp_sk(sk)->tcp_mstamp);
	rtcp_kflow_unlock(f);
	rcu_read_unlock();
}

/* The connection ends, or changes its algorithm. */
static inline void rtcp_kflow_leave(struct rtcp_kflow *f, const struct sock *sk,
				    struct rtcp_flow *flow)
{
	struct ccatune_recording *recording;
	struct rtcp_client *c;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	c = rtcp_kflow_lock(f, recording);
	rtcp_flow_leaves(flow, c);
	if (recording) {
		rec_init(&r, (enum rec_kind)RTCP_REC_LEAVE, f->head.recorded_as,
			 tcp_sk(sk)->tcp_mstamp);
		rtcp_kflow_record(f, flow, c, recording, &r);
	}
	rtcp_kflow_unlock(f);
	rcu_read_unlock();
	rtcp_member_part(&f->member);
}

#endif /* CCATUNE_RTCP_OPS_H */
