/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Passes the events of a socket to an algorithm that follows a table, and records them, for both
 * hosts in the kernel: the modules (module.h) and BPF (kmod/bpf/algorithm.bpf.c). The includer has
 * included its ccatune.h and the algorithm's adapter (gr_host.h ...), which has:
 *
 *   ALG_WINDOW          1 in window mode, 0 in control mode
 *   struct alg_flow     head, the core's flow, and what the mode's operations name
 *   struct alg_params   the algorithm's parameters
 *   alg_ens(), alg_set()    the flow's part in ensembles, and its parameters in force
 *   alg_init(), alg_on_ack(), alg_on_event(), alg_recall()    functions of the core
 *   alg_queueing_delay_us()    of an RTT sample
 *   alg_put_outcome()   writes the outcome of an event into a record
 *   and the functions of no_client.h. R-TCP has its own, because its flows share a client
 *   (rtcp_ops.h). alg_lock() then locks the client, so that records are in the order of events.
 */
#ifndef CCATUNE_TABLE_OPS_H
#define CCATUNE_TABLE_OPS_H

#include "sock.h"

#ifdef ALG_HAS_CLIENT
#include "rtcp_ops.h"
#endif

/* In window mode: the window before and after an event. In control mode there is none. */
struct ops_windows {
	struct cca_window before, after;
};

/* What an ACK sets. */
#if ALG_WINDOW
#define alg_result cca_window
#define ops_result(f, w) (&(w)->after)
#else
#define alg_result cca_decision
#define ops_result(f, w) (&(f)->decision)
#endif

/* --- the core's large functions, which the verifier of BPF checks once each --------------- */

CCATUNE_PART int ops_core_on_ack(struct alg_flow *f, const struct alg_params *defaults,
				 const struct ccatune_table *table, const struct cca_ack *ack,
				 struct alg_result *result)
{
	if (CCATUNE_LACKS(!f || !defaults || !ack || !result))
		return 0;
	alg_on_ack(f, defaults, table ? &table->ens : NULL, ack, result);
	return 0;
}

CCATUNE_PART int ops_core_on_event(struct alg_flow *f, const struct cca_event *ev)
{
	if (CCATUNE_LACKS(!f || !ev))
		return 0;
	alg_on_event(f, ev);
	return 0;
}

CCATUNE_PART int ops_core_recall(struct alg_flow *f, const struct alg_params *defaults,
				 const struct ccatune_table *table, u64 now_us)
{
	if (CCATUNE_LACKS(!f || !defaults))
		return 0;
	alg_recall(f, defaults, table ? &table->ens : NULL, now_us);
	return 0;
}

/* --- recording ----------------------------------------------------------------------------- */

/*
 * params, table: those that the core has read. Functions with more than five arguments are inline,
 * because BPF has no more.
 */
static inline void ops_record_start(struct alg_flow *f, struct ccatune_recording *recording,
				    const struct cca_start *start, const struct ops_windows *w,
				    u32 waiting_bytes, const struct ccatune_params *params)
{
	struct rec_record r;

	ccatune_record_params(recording, params, CCATUNE_ID);
	rec_init(&r, REC_START, f->head.recorded_as, start->now_us);
	rec_put_start(&r, start, alg_ens(f)->clock.delay_class, f->head.hash, params->version);
#ifdef ALG_HAS_CLIENT
	r.word[RTCP_REC_START_WAITING] = waiting_bytes;
#endif
#ifdef ALG_BOUNDS_START
	rec_put_window(&r, &w->before);
	rec_put_window_after(&r, &w->after);
#endif
	alg_put_outcome(&r, f);
	alg_put_states(&r, f);
	ccatune_record(recording, &r);
}

/* What the record of an ACK has beside the ACK, the windows and the flow. */
struct ops_read {
	u64 generation;		/* of the table; 0: none */
	u32 version;		/* of the parameters */
	u32 waiting_bytes;
};

/* Not inline, as the next one, so that the record is not on the stack while the core works. */
static noinline void ops_put_ack(struct alg_flow *f, struct ccatune_recording *recording,
				 const struct cca_ack *ack, const struct ops_windows *w,
				 const struct ops_read *read)
{
	struct rec_record r;

	rec_init(&r, ALG_WINDOW ? REC_WINDOW_ACK : REC_ACK, f->head.recorded_as, ack->now_us);
	ens_flow_put_ack(&r, alg_ens(f), ack, read->generation, read->version);
	alg_put_ack(&r, read->waiting_bytes);
	if (ALG_WINDOW) {
		rec_put_window(&r, &w->before);
		rec_put_window_after(&r, &w->after);
	}
	alg_put_outcome(&r, f);
	alg_put_states(&r, f);
	ccatune_record(recording, &r);
}

static inline void ops_record_ack(struct alg_flow *f, struct ccatune_recording *recording,
				  const struct cca_ack *ack, const struct ops_windows *w,
				  u32 waiting_bytes, const struct ccatune_table *table,
				  const struct ccatune_params *params)
{
	struct ops_read read = {
		.generation = table ? table->ens.generation : 0,
		.version = params->version,
		.waiting_bytes = waiting_bytes,
	};

	if (alg_ens(f)->epoch_end != ENS_WAITED) {
		ccatune_record_table(recording, table);
		ccatune_record_params(recording, params, CCATUNE_ID);
	}
	ops_put_ack(f, recording, ack, w, &read);
}

static noinline void ops_record_event(struct alg_flow *f, struct ccatune_recording *recording,
				      const struct cca_event *ev)
{
	struct rec_record r;

	rec_init(&r, REC_EVENT, f->head.recorded_as, ev->now_us);
	rec_put_event(&r, ev);
	alg_put_outcome(&r, f);
	alg_put_states(&r, f);
	ccatune_record(recording, &r);
}

static noinline void ops_record_recall(struct alg_flow *f, struct ccatune_recording *recording,
				       const struct ccatune_table *table,
				       const struct ccatune_params *params, u64 now_us)
{
	struct rec_record r;

	ccatune_record_table(recording, table);
	ccatune_record_params(recording, params, CCATUNE_ID);
	rec_init(&r, REC_RECALL, f->head.recorded_as, now_us);
	ens_flow_put_recall(&r, alg_ens(f), table ? table->ens.generation : 0, params->version);
	alg_put_recall(&r, f);
	alg_put_states(&r, f);
	ccatune_record(recording, &r);
}

/* --- events -------------------------------------------------------------------------------- */

/*
 * Makes the flow follow a recall of rows (kmod/core/ensemble_flow.h), if there was one. Call this
 * under rcu_read_lock() and alg_lock(). recording: that of the event which finds the recall, so
 * that a recording that stops meanwhile has both or neither.
 */
static void ops_follow_recall(struct alg_flow *f, const struct sock *sk,
			      struct ccatune_recording *recording, u64 now_us)
{
	const struct ccatune_params *params;
	struct ccatune_table *table;

	if (likely(!ccatune_is_recalled(&f->head)))
		return;
	table = ccatune_flow_table(&f->head);
	params = ccatune_flow_params(&f->head);
	ens_flow_set_class(alg_ens(f), ccatune_flow_class(&f->head, sk, table));
	ops_core_recall(f, (const struct alg_params *)params->value, table, now_us);
	if (alg_ens(f)->epoch_end == ENS_WAITED)
		return;
	ccatune_flow_epoch_ended(&f->head, sk, alg_ens(f), table, now_us);
	recording = ccatune_recording_still(recording, &f->head);
	if (recording)
		ops_record_recall(f, recording, table, params, now_us);
}

/* Call this before a transmission. */
static void ops_before_sending(struct alg_flow *f, const struct sock *sk)
{
	struct ccatune_recording *recording;

	if (likely(!ccatune_was_recalled(&f->head)))
		return;
	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	alg_lock(f, recording, false);
	ops_follow_recall(f, sk, recording, tcp_sk(sk)->tcp_mstamp);
	alg_unlock(f);
	rcu_read_unlock();
}

/*
 * As ccatune_read_tx_start(). In addition, a flow of R-TCP that is inactive, because all of its
 * data was acknowledged, starts a transfer even if the kernel does not take it for
 * application-limited.
 */
static bool ops_read_tx_start(const struct sock *sk, const struct alg_flow *f,
			      enum cca_event_kind *kind)
{
	if (ccatune_read_tx_start(sk, kind))
		return true;
	*kind = CCA_TRANSFER_STARTED;
	return alg_is_inactive(f) && ccatune_is_tx_start(sk);
}

/*
 * Passes an ACK to the core. Returns the table in force, NULL for none. Call this under
 * rcu_read_lock(). w: in window mode, with the window before the ACK.
 */
static struct ccatune_table *ops_take_ack(struct alg_flow *f, const struct sock *sk,
					  const struct cca_ack *ack, struct ops_windows *w)
{
	struct ccatune_recording *recording = ccatune_recording(&f->head);
	u32 waiting_bytes = alg_waiting_bytes(sk);
	const struct ccatune_params *params;
	struct ccatune_table *table;
	bool moves;

	alg_lock(f, recording, false);
	alg_before_ack(f, recording, ack->now_us);
	ops_follow_recall(f, sk, recording, ack->now_us);
	/* After the recall, so that no epoch ends with a table that was recalled. */
	table = ccatune_flow_table(&f->head);
	params = ccatune_flow_params(&f->head);
	ens_flow_set_class(alg_ens(f), ccatune_flow_class(&f->head, sk, table));
	alg_update_share(f, waiting_bytes);
	ops_core_on_ack(f, (const struct alg_params *)params->value, table, ack,
			ops_result(f, w));
	if (ack->rtt_us)
		f->queueing_delay_us = alg_queueing_delay_us(f, ack->rtt_us);
	if (unlikely(recording))
		ops_record_ack(f, recording, ack, w, waiting_bytes, table, params);
	alg_count(f, sk);
	moves = alg_moves(f, ack->now_us);
	alg_unlock(f);
	if (unlikely(moves))
		alg_part(f);
	return table;
}

static void ops_on_ack(struct alg_flow *f, const struct sock *sk, const struct cca_ack *ack,
		       struct ops_windows *w)
{
	struct ccatune_table *table;

	rcu_read_lock();
	table = ops_take_ack(f, sk, ack, w);
	ccatune_flow_sample(&f->head, ack, f->queueing_delay_us);
	if (alg_ens(f)->epoch_end != ENS_WAITED) {
		ccatune_flow_epoch_ended(&f->head, sk, alg_ens(f), table, ack->now_us);
		alg_report_counts(f);
	}
	rcu_read_unlock();
}

static void ops_on_event(struct alg_flow *f, const struct sock *sk, enum cca_event_kind kind)
{
	struct ccatune_recording *recording;
	struct cca_event ev;

	ccatune_read_event(sk, kind, &ev);
	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	alg_lock(f, recording, false);
	ops_core_on_event(f, &ev);
	if (unlikely(recording))
		ops_record_event(f, recording, &ev);
	alg_unlock(f);
	rcu_read_unlock();
}

/* A connection begins. w: the first window, in window mode. */
static void ops_begin(struct alg_flow *f, const struct sock *sk, struct ops_windows *w)
{
	u32 waiting_bytes = alg_waiting_bytes(sk);
	struct ccatune_recording *recording;
	const struct ccatune_params *params;
	struct cca_start start;

	ccatune_read_start(sk, &start);
	alg_join(f, sk, start.now_us);
	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	params = ccatune_flow_params(&f->head);
	alg_lock(f, recording, true);
	alg_renew(f, recording, start.now_us);
	alg_init(f, (const struct alg_params *)params->value, &start,
		 ccatune_flow_class(&f->head, sk, ccatune_flow_table(&f->head)));
	alg_update_share(f, waiting_bytes);
#ifdef ALG_BOUNDS_START
	alg_bound(f, &w->after);
#endif
	if (unlikely(recording))
		ops_record_start(f, recording, &start, w, waiting_bytes, params);
	alg_unlock(f);
	rcu_read_unlock();
}

#endif /* CCATUNE_TABLE_OPS_H */
