/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ROCCET as operations of Linux's TCP, for both hosts in the kernel: the module (tcp_roccet.c) and
 * the BPF object (kmod/bpf/roccet.bpf.c). The includer has included its ccatune.h, and defines
 * roccet_kflow_of(sk).
 */
#ifndef CCATUNE_ROCCET_OPS_H
#define CCATUNE_ROCCET_OPS_H

#include "kflow.h"
#include "recall.h"
#include "roccet_recording.h"
#include "window.h"

/* NULL for a socket that has no flow. */
static struct roccet_kflow *roccet_kflow_of(const struct sock *sk);

/* --- recording ----------------------------------------------------------------- */

static void roccet_record_start(struct roccet_kflow *f, const struct cca_start *start,
				const struct ccatune_params *params)
{
	struct ccatune_recording *recording = ccatune_recording(&f->head);
	struct rec_record r;

	if (!recording)
		return;
	ccatune_record_params(recording, params, CCA_ID_roccet);
	rec_init(&r, REC_START, f->head.recorded_as, start->now_us);
	rec_put_start(&r, start, f->roccet.ens.clock.delay_class, f->head.hash, params->version);
	roccet_put_outcome(&r, &f->roccet);
	ccatune_record(recording, &r);
}

/* before, after: the window before and after the ACK. */
static void roccet_record_ack(struct roccet_kflow *f, const struct sock *sk,
			      const struct cca_ack *ack,
			      const struct cca_window *before, const struct cca_window *after,
			      const struct ccatune_table *table,
			      const struct ccatune_params *params)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	recording = ccatune_begin_record(&f->head, sk, &r, REC_WINDOW_ACK);
	if (!recording)
		return;
	ens_flow_put_ack(&r, &f->roccet.ens, ack, table ? table->ens.generation : 0,
			 params->version);
	roccet_put_windows(&r, before, after);
	roccet_put_outcome(&r, &f->roccet);
	if (f->roccet.ens.epoch_end != ENS_WAITED) {
		ccatune_record_table(recording, table);
		ccatune_record_params(recording, params, CCA_ID_roccet);
	}
	ccatune_record(recording, &r);
}

static void roccet_record_event(struct roccet_kflow *f, const struct sock *sk,
				const struct cca_event *ev)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_begin_record(&f->head, sk, &r, REC_EVENT);
	if (recording) {
		rec_put_event(&r, ev);
		roccet_put_outcome(&r, &f->roccet);
		ccatune_record(recording, &r);
	}
	rcu_read_unlock();
}

/* --- calls from the kernel ------------------------------------------------------- */

/*
 * Makes the flow follow a recall of rows, if there was one. Call this under rcu_read_lock(),
 * before an ACK or a transmission.
 */
static void roccet_follow_recall(struct roccet_kflow *f, const struct sock *sk, u64 now_us)
{
	const struct ccatune_params *params;
	struct ccatune_table *table;

	if (likely(!ccatune_is_recalled(&f->head)))
		return;
	table = ccatune_flow_table(&f->head);
	params = ccatune_flow_params(&f->head);
	ens_flow_set_class(&f->roccet.ens, ccatune_flow_class(&f->head, sk, table));
	roccet_flow_recall(&f->roccet, (const struct roccet_params *)params->value,
			   table ? &table->ens : NULL, now_us);
	ccatune_flow_recalled(&f->head, sk, &f->roccet.ens, &f->roccet.params, table, params,
			      CCA_ID_roccet, now_us);
}

static void roccet_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	const struct ccatune_params *params;
	struct ccatune_table *table;
	struct cca_window before, w;
	struct cca_ack ack;

	if (!f || !ccatune_read_window_ack(sk, &f->last_ack, sample, &ack))
		return;
	ccatune_read_window(sk, &before);
	w = before;
	rcu_read_lock();
	roccet_follow_recall(f, sk, ack.now_us);
	table = ccatune_flow_table(&f->head);
	params = ccatune_flow_params(&f->head);
	ens_flow_set_class(&f->roccet.ens, ccatune_flow_class(&f->head, sk, table));
	roccet_flow_on_ack(&f->roccet, (const struct roccet_params *)params->value,
			   table ? &table->ens : NULL, &ack, &w);
	if (ack.rtt_us)
		f->queueing_delay_us = roccet_queueing_delay_us(&f->roccet.roccet, ack.rtt_us);
	ccatune_flow_sample(&f->head, &ack, f->queueing_delay_us);
	if (f->roccet.ens.epoch_end != ENS_WAITED)
		ccatune_flow_epoch_ended(&f->head, sk, &f->roccet.ens, table, ack.now_us);
	roccet_record_ack(f, sk, &ack, &before, &w, table, params);
	rcu_read_unlock();
	ccatune_write_window(sk, &w);
}

static void roccet_cong_avoid(struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	struct cca_window before, w;

	/* The window grows only if it limited the sender. */
	if (!f || !tcp_is_cwnd_limited(sk))
		return;
	ccatune_read_window(sk, &before);
	w = before;
	roccet_flow_grow(&f->roccet, &w, acked_pkts);
	ccatune_write_window(sk, &w);
	ccatune_record_call(&f->head, sk, REC_GROW, &before, &w, acked_pkts, 0);
}

static u32 roccet_threshold(struct sock *sk)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	struct cca_window before, w;
	u32 result;

	if (!f)
		return tcp_reno_ssthresh(sk);
	ccatune_read_window(sk, &before);
	w = before;
	result = roccet_flow_ssthresh(&f->roccet, &w);
	tcp_sk(sk)->snd_cwnd_cnt = w.credit_pkts;
	ccatune_record_call(&f->head, sk, REC_SSTHRESH, &before, &w, 0, result);
	return result;
}

static void roccet_notify(struct sock *sk, enum cca_event_kind kind)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	struct cca_event ev;

	if (!f)
		return;
	ccatune_read_event(sk, kind, &ev);
	roccet_flow_on_event(&f->roccet, &ev);
	roccet_record_event(f, sk, &ev);
}

static u32 roccet_undo_cwnd(struct sock *sk)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	struct cca_window w;
	u32 result;

	if (!f)
		return tcp_reno_undo_cwnd(sk);
	ccatune_read_window(sk, &w);
	result = roccet_flow_undo(&f->roccet, &w);
	ccatune_record_call(&f->head, sk, REC_UNDO, &w, &w, 0, result);
	roccet_notify(sk, CCA_UNDO);
	return result;
}

static void roccet_set_state(struct sock *sk, u8 new_state)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	enum cca_event_kind kind;

	if (f && ccatune_read_window_state(sk, &f->last_ack, new_state, &kind))
		roccet_notify(sk, kind);
}

CCATUNE_TX_START(roccet_tx_start)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	enum cca_event_kind kind;

	if (!f)
		return;
	rcu_read_lock();
	roccet_follow_recall(f, sk, tcp_sk(sk)->tcp_mstamp);
	rcu_read_unlock();
	if (ccatune_read_tx_start(sk, &kind))
		roccet_notify(sk, kind);
}

/* --- beginning and end of a connection ------------------------------------------- */

static void roccet_begin(struct roccet_kflow *f, struct sock *sk)
{
	const struct ccatune_params *params;
	struct cca_start start;

	ccatune_read_start(sk, &start);
	ccatune_last_ack_init(sk, &f->last_ack);
	rcu_read_lock();
	params = ccatune_flow_params(&f->head);
	roccet_flow_init(&f->roccet, (const struct roccet_params *)params->value, &start,
			 ccatune_flow_class(&f->head, sk, ccatune_flow_table(&f->head)),
			 f->head.hash);
	roccet_record_start(f, &start, params);
	rcu_read_unlock();
	/*
	 * If the socket changes its algorithm during a recovery, the kernel controls the window
	 * until that ends.
	 */
	if (ccatune_is_reduced(ccatune_ca_state(sk)))
		roccet_notify(sk, CCA_RECOVERY_ENTERED);
}

#endif /* CCATUNE_ROCCET_OPS_H */
