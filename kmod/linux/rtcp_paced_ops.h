/* SPDX-License-Identifier: GPL-2.0 */
/*
 * R-TCP over an algorithm in control mode (kmod/core/rtcp.h) as operations of Linux's TCP, for both
 * hosts in the kernel: the modules (tcp_rtcp_paced.h) and the BPF objects (kmod/bpf/rtcp_paced.h).
 * Every ACK sets pacing rate and cwnd.
 *
 * As in the kernel's own BBR, each ACK checks whether the socket is in recovery. If one recovery
 * ends and another begins within one ACK, they count as one. The core is notified of a recovery
 * before the ACK that shows it.
 *
 * The includer has included its ccatune.h and what rtcp_ops.h names, defines paced_of(sk) and
 * paced_copy_info(), and the following:
 *
 *   PACED_ID                          id of the algorithm
 *   paced_kflow                       the struct of its flow in the host (rtcp_kflow.h)
 *   paced_flow_init(), paced_flow_on_ack(), paced_flow_on_event()    functions of the flow
 *   paced_put_outcome()               writes the outcome of an event into a record
 *   PACED_SINGLE_BELOW                optional: rate below which it sends single packets
 *   paced_flow_on_loss()              optional: learns from single losses (tcp_rtcp_losses.h)
 */
#ifndef CCATUNE_RTCP_PACED_OPS_H
#define CCATUNE_RTCP_PACED_OPS_H

#include "rtcp_ops.h"

#define PACED_SNDBUF_WINDOWS 3u	/* BBR may double its window even in recovery */

/* NULL if the socket has no flow. */
static struct paced_kflow *paced_of(const struct sock *sk);

/* Keeps what `ss` shows of the flow. */
static void paced_copy_info(struct sock *sk, const struct paced_kflow *f);

/* --- recording, with the client's lock held: records are in the order of events ------ */

static void paced_record(struct paced_kflow *f, const struct rtcp_client *c,
			 struct ccatune_recording *recording, struct rec_record *r)
{
	rtcp_kflow_record(&f->shared, &f->bbr.state.flow, c, recording, r);
}

static void paced_record_start(struct paced_kflow *f, const struct rtcp_client *c,
			       struct ccatune_recording *recording,
			       const struct cca_start *start, u32 waiting_bytes,
			       const struct ccatune_params *params)
{
	struct rec_record r;

	if (!recording)
		return;
	rtcp_begin_start(recording, &r, &f->shared, &f->bbr.ens, start, waiting_bytes, params,
			 PACED_ID);
	paced_put_outcome(&r, &f->bbr, c, &f->decision);
	paced_record(f, c, recording, &r);
}

static void paced_record_ack(struct paced_kflow *f, const struct rtcp_client *c,
			     struct ccatune_recording *recording, const struct cca_ack *ack,
			     u32 waiting_bytes, const struct ccatune_table *table,
			     const struct ccatune_params *params)
{
	struct rec_record r;

	if (!recording)
		return;
	rtcp_begin_ack(recording, &r, REC_ACK, &f->shared, &f->bbr.ens, ack, waiting_bytes, table,
		       params, PACED_ID);
	paced_put_outcome(&r, &f->bbr, c, &f->decision);
	paced_record(f, c, recording, &r);
}

/* Not inline, so that the record is not on the stack while the core handles the event. */
static noinline void paced_record_event(struct paced_kflow *f, const struct rtcp_client *c,
					struct ccatune_recording *recording,
					const struct cca_event *ev)
{
	struct rec_record r;

	rec_init(&r, REC_EVENT, f->shared.head.recorded_as, ev->now_us);
	rec_put_event(&r, ev);
	paced_put_outcome(&r, &f->bbr, c, &f->decision);
	paced_record(f, c, recording, &r);
}

/* --- events ------------------------------------------------------------------------ */

static void paced_notify(struct sock *sk, enum cca_event_kind kind)
{
	struct paced_kflow *f = paced_of(sk);
	struct ccatune_recording *recording;
	struct rtcp_client *c;
	struct cca_event ev;

	if (!f)
		return;
	ccatune_read_event(sk, kind, &ev);
	rcu_read_lock();
	recording = ccatune_recording(&f->shared.head);
	c = rtcp_kflow_lock(&f->shared, recording);
	paced_flow_on_event(&f->bbr, c, &ev, &f->decision);
	if (recording)
		paced_record_event(f, c, recording, &ev);
	rtcp_kflow_unlock(&f->shared);
	rcu_read_unlock();
	ccatune_apply(sk, &f->decision);
}

/* Notifies the core of a recovery that began or ended since the last ACK. */
static void paced_look(struct sock *sk, struct paced_kflow *f)
{
	u8 state = ccatune_ca_state(sk), seen = f->seen_state;

	f->seen_state = state;
	if (state == TCP_CA_Recovery && seen != TCP_CA_Recovery)
		paced_notify(sk, CCA_RECOVERY_ENTERED);
	else if (state < TCP_CA_Recovery && seen >= TCP_CA_Recovery)
		paced_notify(sk, CCA_RECOVERY_LEFT);
}

#include "tcp_rtcp_losses.h"

/* --- the events of a socket --------------------------------------------------------- */

/*
 * Passes an ACK to the core. Returns the table in force, NULL for none. Call this under
 * rcu_read_lock().
 */
static struct ccatune_table *paced_take_ack(struct paced_kflow *f, const struct sock *sk,
					    const struct cca_ack *ack)
{
	struct ccatune_recording *recording = ccatune_recording(&f->shared.head);
	u32 waiting_bytes = rtcp_waiting_bytes(sk);
	struct rtcp_client *c = rtcp_kflow_lock(&f->shared, recording);
	struct ccatune_flow *head = &f->shared.head;
	const struct ccatune_params *params;
	struct ccatune_table *table;
	bool moves;

	rtcp_member_on_ack(&f->shared.member, recording, ack->now_us);
	rtcp_kflow_follow_recall(&f->shared, sk, recording, &f->bbr.ens, &f->bbr.state.flow, c,
				 &f->bbr.params.rtcp, PACED_ID, ack->now_us);
	/* After the recall, so that no epoch ends with a table that was recalled. */
	table = ccatune_flow_table(head);
	params = ccatune_flow_params(head);
	ens_flow_set_class(&f->bbr.ens.flow, ccatune_flow_class(head, sk, table));
	rtcp_flow_update_share(&f->bbr.state.flow, c, waiting_bytes);
	paced_flow_on_ack(&f->bbr, c, (const struct rtcp_params *)params->value,
			  table ? &table->ens : NULL, ack, &f->decision);
	if (ack->rtt_us)
		f->shared.queueing_delay_us = rtcp_queueing_delay_us(c, ack->rtt_us);
	paced_record_ack(f, c, recording, ack, waiting_bytes, table, params);
	moves = rtcp_kflow_moves(&f->shared, &f->bbr.state.flow, c, ack->now_us);
	rtcp_kflow_unlock(&f->shared);
	if (unlikely(moves))
		rtcp_member_part(&f->shared.member);
	return table;
}

CCATUNE_CONG_CONTROL(paced_main)
{
	struct paced_kflow *f = paced_of(sk);
	struct ccatune_table *table;
	struct ccatune_flow *head;
	struct ens_flow *ens;
	struct cca_ack ack;

	if (!f)
		return;
	paced_note_sent(sk, f, rs);
	paced_look(sk, f);
	head = &f->shared.head;
	ens = &f->bbr.ens.flow;
	if (!ccatune_read_ack(head, sk, rs, &ack))
		return;
	paced_put_sent(sk, f, &ack);
	rcu_read_lock();
	table = paced_take_ack(f, sk, &ack);
	ccatune_flow_sample(head, &ack, f->shared.queueing_delay_us);
	if (ens->epoch_end != ENS_WAITED)
		ccatune_flow_epoch_ended(head, sk, ens, table, ack.now_us);
	rcu_read_unlock();
	paced_copy_info(sk, f);
	ccatune_apply(sk, &f->decision);
}

/* Only a timeout is reported at once. paced_look() reports other changes with the next ACK. */
static void paced_set_state(struct sock *sk, u8 new_state)
{
	struct paced_kflow *f = paced_of(sk);
	enum cca_event_kind kind;

	if (!f || new_state != TCP_CA_Loss)
		return;
	if (!ccatune_read_state(sk, new_state, &kind)) {
		paced_forget_losses(sk, f);	/* the path MTU has shrunk */
		return;
	}
	f->seen_state = TCP_CA_Loss;
	paced_notify_losses(sk, f);
	paced_notify(sk, kind);
}

CCATUNE_TX_START(paced_tx_start)
{
	struct paced_kflow *f = paced_of(sk);
	enum cca_event_kind kind;

	if (!f)
		return;
	rtcp_kflow_before_sending(&f->shared, sk, &f->bbr.ens, &f->bbr.state.flow,
				  &f->bbr.params.rtcp, PACED_ID);
	if (rtcp_read_tx_start(sk, &f->bbr.state.flow, &kind))
		paced_notify(sk, kind);
}

/* The undo ends the episode, so paced_look() must not report its end again. */
static u32 paced_undo_cwnd(struct sock *sk)
{
	struct paced_kflow *f = paced_of(sk);

	if (f) {
		f->seen_state = TCP_CA_Open;
		paced_notify_losses(sk, f);	/* of a timer, which the undo reverts */
	}
	paced_notify(sk, CCA_UNDO);
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* BBR does not use ssthresh. Returns it unchanged. */
static u32 paced_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 paced_min_tso_segs(struct sock *sk)
{
#ifdef PACED_SINGLE_BELOW
	return READ_ONCE(sk->sk_pacing_rate) < PACED_SINGLE_BELOW ? 1 : 2;
#else
	return 2;
#endif
}

static u32 paced_sndbuf_expand(struct sock *sk)
{
	return PACED_SNDBUF_WINDOWS;
}

/* --- beginning and end of a connection --------------------------------------------- */

/* A flow without data is inactive until a transfer starts. */
static void paced_begin(struct paced_kflow *f, struct sock *sk)
{
	struct ccatune_flow *head = &f->shared.head;
	u32 waiting_bytes = rtcp_waiting_bytes(sk);
	struct ccatune_recording *recording;
	const struct ccatune_params *params;
	struct cca_start start;
	struct rtcp_client *c;

	ccatune_read_start(sk, &start);
	f->seen_state = TCP_CA_Open;
	paced_begin_log(sk, f);
	rtcp_member_join(&f->shared.member, sk, start.now_us);
	rcu_read_lock();
	recording = ccatune_recording(head);
	params = ccatune_flow_params(head);
	c = rtcp_member_lock(&f->shared.member, recording, true);
	rtcp_member_renew(&f->shared.member, recording, start.now_us);
	paced_flow_init(&f->bbr, c, (const struct rtcp_params *)params->value, &start,
			ccatune_flow_class(head, sk, ccatune_flow_table(head)),
			head->hash, &f->decision);
	rtcp_flow_update_share(&f->bbr.state.flow, c, waiting_bytes);
	paced_record_start(f, c, recording, &start, waiting_bytes, params);
	rtcp_kflow_unlock(&f->shared);
	rcu_read_unlock();
}

#endif /* CCATUNE_RTCP_PACED_OPS_H */
