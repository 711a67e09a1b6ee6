/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GR as operations of Linux's TCP, for both hosts in the kernel: the module (tcp_gr.c) and the BPF
 * object (kmod/bpf/gr.bpf.c). The includer has included its ccatune.h, and defines
 * gr_kflow_of(sk) and gr_copy_info(sk, f).
 */
#ifndef CCATUNE_GR_OPS_H
#define CCATUNE_GR_OPS_H

#include "gr_recording.h"
#include "kflow.h"
#include "recall.h"
#include "sock.h"

/* NULL for a socket that has no flow. */
static struct gr_kflow *gr_kflow_of(const struct sock *sk);
/* Copies what `ss` shows, where the host has a place for it. */
static void gr_copy_info(struct sock *sk, const struct gr_kflow *f);

/* --- recording ---------------------------------------------------------------- */

static void gr_record(struct gr_kflow *f, struct ccatune_recording *recording,
		      struct rec_record *r)
{
	gr_put_outcome(r, &f->gr, &f->decision);
	ccatune_record(recording, r);
}

static void gr_record_start(struct gr_kflow *f, const struct cca_start *start,
			    const struct ccatune_params *params)
{
	struct ccatune_recording *recording = ccatune_recording(&f->head);
	struct rec_record r;

	if (!recording)
		return;
	ccatune_record_params(recording, params, CCA_ID_gr);
	rec_init(&r, REC_START, f->head.recorded_as, start->now_us);
	rec_put_start(&r, start, f->gr.ens.clock.delay_class, f->head.hash, params->version);
	gr_record(f, recording, &r);
}

static void gr_record_ack(struct gr_kflow *f, const struct cca_ack *ack,
			  const struct ccatune_table *table, const struct ccatune_params *params)
{
	struct ccatune_recording *recording = ccatune_recording(&f->head);
	struct rec_record r;

	if (!recording)
		return;
	rec_init(&r, REC_ACK, f->head.recorded_as, ack->now_us);
	ens_flow_put_ack(&r, &f->gr.ens, ack, table ? table->ens.generation : 0, params->version);
	if (f->gr.ens.epoch_end != ENS_WAITED) {
		ccatune_record_table(recording, table);
		ccatune_record_params(recording, params, CCA_ID_gr);
	}
	gr_record(f, recording, &r);
}

static void gr_record_event(struct gr_kflow *f, const struct cca_event *ev)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	if (recording) {
		rec_init(&r, REC_EVENT, f->head.recorded_as, ev->now_us);
		rec_put_event(&r, ev);
		gr_record(f, recording, &r);
	}
	rcu_read_unlock();
}

/* --- events ------------------------------------------------------------------- */

/*
 * Makes the flow follow a recall of rows, if there was one. Call this under rcu_read_lock(),
 * before an ACK or a transmission.
 */
static void gr_follow_recall(struct gr_kflow *f, const struct sock *sk, u64 now_us)
{
	const struct ccatune_params *params;
	struct ccatune_table *table;

	if (likely(!ccatune_is_recalled(&f->head)))
		return;
	table = ccatune_flow_table(&f->head);
	params = ccatune_flow_params(&f->head);
	ens_flow_set_class(&f->gr.ens, ccatune_flow_class(&f->head, sk, table));
	gr_flow_recall(&f->gr, (const struct gr_params *)params->value,
		       table ? &table->ens : NULL, now_us);
	ccatune_flow_recalled(&f->head, sk, &f->gr.ens, &f->gr.params, table, params, CCA_ID_gr,
			      now_us);
}

CCATUNE_CONG_CONTROL(gr_main)
{
	struct gr_kflow *f = gr_kflow_of(sk);
	const struct ccatune_params *params;
	struct ccatune_table *table;
	struct cca_ack ack;

	if (!f || !ccatune_read_ack(&f->head, sk, rs, &ack))
		return;
	rcu_read_lock();
	gr_follow_recall(f, sk, ack.now_us);
	table = ccatune_flow_table(&f->head);
	params = ccatune_flow_params(&f->head);
	ens_flow_set_class(&f->gr.ens, ccatune_flow_class(&f->head, sk, table));
	gr_flow_on_ack(&f->gr, (const struct gr_params *)params->value,
		       table ? &table->ens : NULL, &ack, &f->decision);
	if (ack.rtt_us)
		f->queueing_delay_us = gr_queueing_delay_us(&f->gr.gr, ack.rtt_us);
	ccatune_flow_sample(&f->head, &ack, f->queueing_delay_us);
	if (f->gr.ens.epoch_end != ENS_WAITED)
		ccatune_flow_epoch_ended(&f->head, sk, &f->gr.ens, table, ack.now_us);
	gr_record_ack(f, &ack, table, params);
	rcu_read_unlock();
	gr_copy_info(sk, f);
	ccatune_apply(sk, &f->decision);
}

static void gr_notify(struct sock *sk, enum cca_event_kind kind)
{
	struct gr_kflow *f = gr_kflow_of(sk);
	struct cca_event ev;

	if (!f)
		return;
	ccatune_read_event(sk, kind, &ev);
	gr_flow_on_event(&f->gr, &ev, &f->decision);
	gr_record_event(f, &ev);
	ccatune_apply(sk, &f->decision);
}

/*
 * The kernel enters CWR after an ECE, and after a local queue was full. It does so only from Open
 * and Disorder. In Recovery it does not react to the ECE until the recovery has ended.
 */
static void gr_set_state(struct sock *sk, u8 new_state)
{
	enum cca_event_kind kind;

	if (new_state == TCP_CA_CWR)
		gr_notify(sk, CCA_ECN);
	else if (ccatune_read_state(sk, new_state, &kind))
		gr_notify(sk, kind);
}

CCATUNE_TX_START(gr_tx_start)
{
	struct gr_kflow *f = gr_kflow_of(sk);
	enum cca_event_kind kind;

	if (!f)
		return;
	rcu_read_lock();
	gr_follow_recall(f, sk, tcp_sk(sk)->tcp_mstamp);
	rcu_read_unlock();
	if (ccatune_read_tx_start(sk, &kind))
		gr_notify(sk, kind);
}

static u32 gr_undo_cwnd(struct sock *sk)
{
	gr_notify(sk, CCA_UNDO);
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* GR does not use ssthresh, because its core ends slow start itself. Returns it unchanged. */
static u32 gr_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

/* --- beginning and end of a connection ----------------------------------------- */

static void gr_begin(struct gr_kflow *f, struct sock *sk)
{
	const struct ccatune_params *params;
	struct cca_start start;

	ccatune_read_start(sk, &start);
	rcu_read_lock();
	params = ccatune_flow_params(&f->head);
	gr_flow_init(&f->gr, (const struct gr_params *)params->value, &start,
		     ccatune_flow_class(&f->head, sk, ccatune_flow_table(&f->head)),
		     f->head.hash, &f->decision);
	gr_record_start(f, &start, params);
	rcu_read_unlock();
}

#endif /* CCATUNE_GR_OPS_H */
