/* SPDX-License-Identifier: GPL-2.0 */
/*
 * R-TCP over CUBIC as operations of Linux's TCP, for both hosts in the kernel: the module
 * (tcp_rtcp_cubic.c) and the BPF object (kmod/bpf/rtcp_cubic.bpf.c). The includer has included its
 * ccatune.h and what rtcp_ops.h names, and defines rtcp_cubic_of(sk) and rtcp_cubic_copy_info().
 */
#ifndef CCATUNE_RTCP_CUBIC_OPS_H
#define CCATUNE_RTCP_CUBIC_OPS_H

#include "rtcp_ops.h"
#include "window.h"

/* NULL if the socket has no flow. */
static struct rtcp_cubic_kflow *rtcp_cubic_of(const struct sock *sk);

/* Keeps what `ss` shows of the flow. */
static void rtcp_cubic_copy_info(struct sock *sk, const struct rtcp_cubic_kflow *f);

/* --- recording, with the client's lock held: records are in the order of events ------ */

static void rtcp_cubic_record(struct rtcp_cubic_kflow *f, const struct rtcp_client *c,
			      struct ccatune_recording *recording, struct rec_record *r)
{
	rtcp_kflow_record(&f->shared, &f->cubic.state.flow, c, recording, r);
}

static void rtcp_cubic_record_start(struct rtcp_cubic_kflow *f, const struct rtcp_client *c,
				    struct ccatune_recording *recording,
				    const struct cca_start *start, u32 waiting_bytes,
				    const struct cca_window *before,
				    const struct cca_window *after,
				    const struct ccatune_params *params)
{
	struct rec_record r;

	if (!recording)
		return;
	rtcp_begin_start(recording, &r, &f->shared, &f->cubic.ens, start, waiting_bytes, params,
			 CCA_ID_rtcp_cubic);
	rtcp_cubic_put_windows(&r, before, after);
	rtcp_cubic_put_outcome(&r, &f->cubic, c);
	rtcp_cubic_record(f, c, recording, &r);
}

/* before, after: the window before and after the ACK. */
static void rtcp_cubic_record_ack(struct rtcp_cubic_kflow *f, const struct rtcp_client *c,
				  struct ccatune_recording *recording, const struct cca_ack *ack,
				  u32 waiting_bytes, const struct cca_window *before,
				  const struct cca_window *after,
				  const struct ccatune_table *table,
				  const struct ccatune_params *params)
{
	struct rec_record r;

	if (!recording)
		return;
	rtcp_begin_ack(recording, &r, REC_WINDOW_ACK, &f->shared, &f->cubic.ens, ack, waiting_bytes,
		       table, params, CCA_ID_rtcp_cubic);
	rtcp_cubic_put_windows(&r, before, after);
	rtcp_cubic_put_outcome(&r, &f->cubic, c);
	rtcp_cubic_record(f, c, recording, &r);
}

static inline void rtcp_cubic_record_asked(struct rtcp_cubic_kflow *f, const struct sock *sk,
					   const struct rtcp_client *c, enum rec_kind kind,
					   const struct cca_window *before,
					   const struct cca_window *after, u32 acked_pkts,
					   u32 result)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	recording = ccatune_begin_record(&f->shared.head, sk, &r, kind);
	if (!recording)
		return;
	rtcp_cubic_put_windows(&r, before, after);
	r.word[REC_ACKED] = acked_pkts;
	r.word[REC_RESULT] = result;
	rtcp_cubic_record(f, c, recording, &r);
}

/* --- calls from the kernel --------------------------------------------------------- */

/*
 * Passes an ACK to the core. Returns the table in force, NULL for none. Call this under
 * rcu_read_lock().
 */
static struct ccatune_table *rtcp_cubic_take_ack(struct rtcp_cubic_kflow *f, const struct sock *sk,
						 struct cca_ack *ack, struct cca_window *w)
{
	struct ccatune_recording *recording = ccatune_recording(&f->shared.head);
	u32 waiting_bytes = rtcp_waiting_bytes(sk);
	struct rtcp_client *c = rtcp_kflow_lock(&f->shared, recording);
	struct cca_window before = *w;
	struct ccatune_flow *head = &f->shared.head;
	const struct ccatune_params *params;
	struct ccatune_table *table;
	bool moves;

	rtcp_member_on_ack(&f->shared.member, recording, ack->now_us);
	rtcp_kflow_follow_recall(&f->shared, sk, recording, &f->cubic.ens, &f->cubic.state.flow, c,
				 &f->cubic.params.rtcp, CCA_ID_rtcp_cubic, ack->now_us);
	/* After the recall, so that no epoch ends with a table that was recalled. */
	table = ccatune_flow_table(head);
	params = ccatune_flow_params(head);
	ens_flow_set_class(&f->cubic.ens.flow, ccatune_flow_class(head, sk, table));
	rtcp_flow_update_share(&f->cubic.state.flow, c, waiting_bytes);
	rtcp_cubic_flow_on_ack(&f->cubic, c, (const struct rtcp_params *)params->value,
			       table ? &table->ens : NULL, ack, w);
	if (ack->rtt_us)
		f->shared.queueing_delay_us = rtcp_queueing_delay_us(c, ack->rtt_us);
	rtcp_cubic_record_ack(f, c, recording, ack, waiting_bytes, &before, w, table, params);
	moves = rtcp_kflow_moves(&f->shared, &f->cubic.state.flow, c, ack->now_us);
	rtcp_kflow_unlock(&f->shared);
	if (unlikely(moves))
		rtcp_member_part(&f->shared.member);
	return table;
}

static void rtcp_cubic_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct rtcp_cubic_kflow *f = rtcp_cubic_of(sk);
	struct ccatune_table *table;
	struct ccatune_flow *head;
	struct ens_flow *ens;
	struct cca_window w;
	struct cca_ack ack;

	if (!f || !ccatune_read_window_ack(sk, &f->last_ack, sample, &ack))
		return;
	head = &f->shared.head;
	ens = &f->cubic.ens.flow;
	ccatune_read_window(sk, &w);
	rcu_read_lock();
	table = rtcp_cubic_take_ack(f, sk, &ack, &w);
	ccatune_flow_sample(head, &ack, f->shared.queueing_delay_us);
	if (ens->epoch_end != ENS_WAITED)
		ccatune_flow_epoch_ended(head, sk, ens, table, ack.now_us);
	rcu_read_unlock();
	rtcp_cubic_copy_info(sk, f);
	ccatune_write_window(sk, &w);
}

static void rtcp_cubic_cong_avoid(struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	struct rtcp_cubic_kflow *f = rtcp_cubic_of(sk);
	struct cca_window before, w;
	struct rtcp_client *c;

	/* The window grows only if it limited the sender. */
	if (!f || !tcp_is_cwnd_limited(sk))
		return;
	ccatune_read_window(sk, &before);
	w = before;
	rcu_read_lock();
	c = rtcp_kflow_lock(&f->shared, ccatune_recording(&f->shared.head));
	rtcp_cubic_grow(&f->cubic.state, &f->cubic.params, c, &w, acked_pkts);
	rtcp_cubic_record_asked(f, sk, c, REC_GROW, &before, &w, acked_pkts, 0);
	rtcp_kflow_unlock(&f->shared);
	rcu_read_unlock();
	ccatune_write_window(sk, &w);
}

static u32 rtcp_cubic_threshold(struct sock *sk)
{
	struct rtcp_cubic_kflow *f = rtcp_cubic_of(sk);
	struct cca_window before, w;
	struct rtcp_client *c;
	u32 result;

	if (!f)
		return tcp_reno_ssthresh(sk);
	ccatune_read_window(sk, &before);
	w = before;
	rcu_read_lock();
	c = rtcp_kflow_lock(&f->shared, ccatune_recording(&f->shared.head));
	result = rtcp_cubic_ssthresh(&f->cubic.state, &f->cubic.params, c, &w);
	rtcp_cubic_record_asked(f, sk, c, REC_SSTHRESH, &before, &w, 0, result);
	rtcp_kflow_unlock(&f->shared);
	rcu_read_unlock();
	tcp_sk(sk)->snd_cwnd_cnt = w.credit_pkts;
	return result;
}

static void rtcp_cubic_notify(struct sock *sk, enum cca_event_kind kind)
{
	struct rtcp_cubic_kflow *f = rtcp_cubic_of(sk);
	struct ccatune_recording *recording;
	struct rtcp_client *c;
	struct cca_event ev;
	struct rec_record r;

	if (!f)
		return;
	ccatune_read_event(sk, kind, &ev);
	rcu_read_lock();
	recording = ccatune_begin_record(&f->shared.head, sk, &r, REC_EVENT);
	c = rtcp_kflow_lock(&f->shared, recording);
	rtcp_cubic_flow_on_event(&f->cubic, c, &ev);
	if (recording) {
		rec_put_event(&r, &ev);
		rtcp_cubic_put_outcome(&r, &f->cubic, c);
		rtcp_cubic_record(f, c, recording, &r);
	}
	rtcp_kflow_unlock(&f->shared);
	rcu_read_unlock();
}

static u32 rtcp_cubic_undo_cwnd(struct sock *sk)
{
	struct rtcp_cubic_kflow *f = rtcp_cubic_of(sk);
	struct rtcp_client *c;
	struct cca_window w;
	u32 result;

	if (!f)
		return tcp_reno_undo_cwnd(sk);
	ccatune_read_window(sk, &w);
	rcu_read_lock();
	c = rtcp_kflow_lock(&f->shared, ccatune_recording(&f->shared.head));
	result = rtcp_cubic_undo(&f->cubic.state, &f->cubic.params, c, &w);
	rtcp_cubic_record_asked(f, sk, c, REC_UNDO, &w, &w, 0, result);
	rtcp_kflow_unlock(&f->shared);
	rcu_read_unlock();
	rtcp_cubic_notify(sk, CCA_UNDO);
	return result;
}

static void rtcp_cubic_set_state(struct sock *sk, u8 new_state)
{
	struct rtcp_cubic_kflow *f = rtcp_cubic_of(sk);
	enum cca_event_kind kind;

	if (f && ccatune_read_window_state(sk, &f->last_ack, new_state, &kind))
		rtcp_cubic_notify(sk, kind);
}

CCATUNE_TX_START(rtcp_cubic_tx_start)
{
	struct rtcp_cubic_kflow *f = rtcp_cubic_of(sk);
	enum cca_event_kind kind;

	if (!f)
		return;
	rtcp_kflow_before_sending(&f->shared, sk, &f->cubic.ens, &f->cubic.state.flow,
				  &f->cubic.params.rtcp, CCA_ID_rtcp_cubic);
	if (rtcp_read_tx_start(sk, &f->cubic.state.flow, &kind))
		rtcp_cubic_notify(sk, kind);
}

/* --- beginning and end of a connection --------------------------------------------- */

/*
 * If the limiter of the client is known, its cap applies to the first window already. A flow
 * without data is inactive until a transfer starts.
 */
static void rtcp_cubic_begin(struct rtcp_cubic_kflow *f, struct sock *sk)
{
	struct ccatune_flow *head = &f->shared.head;
	u32 waiting_bytes = rtcp_waiting_bytes(sk);
	struct ccatune_recording *recording;
	const struct ccatune_params *params;
	struct cca_window before, w;
	struct cca_start start;
	struct rtcp_client *c;

	ccatune_read_start(sk, &start);
	ccatune_read_window(sk, &before);
	w = before;
	ccatune_last_ack_init(sk, &f->last_ack);
	rtcp_member_join(&f->shared.member, sk, start.now_us);
	rcu_read_lock();
	recording = ccatune_recording(head);
	params = ccatune_flow_params(head);
	c = rtcp_member_lock(&f->shared.member, recording, true);
	rtcp_member_renew(&f->shared.member, recording, start.now_us);
	rtcp_cubic_flow_init(&f->cubic, c, (const struct rtcp_params *)params->value, &start,
			     ccatune_flow_class(head, sk, ccatune_flow_table(head)),
			     head->hash);
	rtcp_flow_update_share(&f->cubic.state.flow, c, waiting_bytes);
	rtcp_cubic_bound(&f->cubic.state, &f->cubic.params, c, &w);
	rtcp_cubic_record_start(f, c, recording, &start, waiting_bytes, &before, &w, params);
	rtcp_kflow_unlock(&f->shared);
	rcu_read_unlock();
	ccatune_write_window(sk, &w);
	/*
	 * If the socket changes its algorithm during a recovery, the kernel controls the window
	 * until that ends.
	 */
	if (ccatune_is_reduced(ccatune_ca_state(sk)))
		rtcp_cubic_notify(sk, CCA_RECOVERY_ENTERED);
}

#endif /* CCATUNE_RTCP_CUBIC_OPS_H */
