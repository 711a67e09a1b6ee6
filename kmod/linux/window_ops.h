/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An algorithm in window mode as operations of Linux's TCP, for both hosts in the kernel: the
 * kernel requests growth, threshold and undo, and does loss recovery itself. An ACK may lower the
 * window. An ECN mark and a full local queue count as a loss. The includer has included its
 * ccatune.h and the algorithm's adapter (table_ops.h), whose flow has a ccatune_last_ack. It
 * defines alg_flow_of(sk), NULL for a socket without a flow, and alg_copy_info(sk, f), which keeps
 * what `ss` shows. An adapter also has alg_grow(), alg_ssthresh() and alg_undo(), and may define:
 *
 *   ALG_BOUNDS_START    alg_bound() bounds the first window
 *   ALG_ACKS_LEAVE_WINDOW    only growth and episodes change the window
 *   ALG_NO_TABLE        it follows no table and is not recorded (params_ops.h)
 */
#ifndef CCATUNE_WINDOW_OPS_H
#define CCATUNE_WINDOW_OPS_H

#include "window.h"

#ifdef ALG_NO_TABLE
#include "params_ops.h"
#else

#include "table_ops.h"

#define ops_read_ack(f, sk, sample, ack) ccatune_read_window_ack(sk, &(f)->last_ack, sample, ack)

/*
 * The kernel marks packets as lost before it enters Loss. No later ACK reports them, because the
 * event of the timeout includes them. After a reduction of the MTU they were not lost at all.
 */
#define ops_forget_losses(sk, f) ((f)->last_ack.lost_pkts = tcp_sk(sk)->lost)

/* Records a call of the kernel. result: the window or threshold that the core returned, or 0. */
static noinline void ops_record_call(struct alg_flow *f, struct ccatune_recording *recording,
				     struct rec_record *r, const struct ops_windows *w, u32 result)
{
	rec_put_window(r, &w->before);
	rec_put_window_after(r, &w->after);
	r->word[REC_RESULT] = result;
	alg_put_states(r, f);
	ccatune_record(recording, r);
}

/* kind: REC_GROW, REC_SSTHRESH or REC_UNDO. Returns the window or threshold; 0 for growth. */
static inline u32 ops_call(struct alg_flow *f, const struct sock *sk, enum rec_kind kind,
			   struct ops_windows *w, u32 acked_pkts)
{
	struct ccatune_recording *recording;
	struct rec_record r;
	u32 result = 0;

	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	alg_lock(f, recording, false);
	if (kind == REC_GROW)
		alg_grow(f, &w->after, acked_pkts);
	else if (kind == REC_SSTHRESH)
		result = alg_ssthresh(f, &w->after);
	else
		result = alg_undo(f, &w->after);
	if (unlikely(recording)) {
		rec_init(&r, kind, f->head.recorded_as, tcp_sk(sk)->tcp_mstamp);
		r.word[REC_ACKED] = acked_pkts;
		ops_record_call(f, recording, &r, w, result);
	}
	alg_unlock(f);
	rcu_read_unlock();
	return result;
}

#endif

static inline void ops_read_windows(const struct sock *sk, struct ops_windows *w)
{
	ccatune_read_window(sk, &w->before);
	w->after = w->before;
}

static void ops_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct alg_flow *f = alg_flow_of(sk);
	struct ops_windows w;
	struct cca_ack ack;

	if (!f)
		return;
	if (ops_read_ack(f, sk, sample, &ack)) {
		ops_read_windows(sk, &w);
		ops_on_ack(f, sk, &ack, &w);
		alg_copy_info(sk, f);
#ifndef ALG_ACKS_LEAVE_WINDOW
		ccatune_write_window(sk, &w.after);
#endif
	}
	ccatune_flow_note(&f->head, sk);
}

static void ops_cong_avoid(struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	struct alg_flow *f = alg_flow_of(sk);
	struct ops_windows w;

	if (!f) {
		ccatune_plain_grow(sk, acked_pkts);
		return;
	}
	/* The window grows only if it limited the sender. */
	if (!tcp_is_cwnd_limited(sk))
		return;
	ops_read_windows(sk, &w);
	ops_call(f, sk, REC_GROW, &w, acked_pkts);
	ccatune_write_window(sk, &w.after);
}

static u32 ops_ssthresh(struct sock *sk)
{
	struct alg_flow *f = alg_flow_of(sk);
	struct ops_windows w;
	u32 ssthresh_pkts;

	if (!f)
		return tcp_reno_ssthresh(sk);
	ops_read_windows(sk, &w);
	ssthresh_pkts = ops_call(f, sk, REC_SSTHRESH, &w, 0);
	tcp_sk(sk)->snd_cwnd_cnt = w.after.credit_pkts;
	return ssthresh_pkts;
}

static u32 ops_undo_cwnd(struct sock *sk)
{
	struct alg_flow *f = alg_flow_of(sk);
	struct ops_windows w;
	u32 cwnd_pkts;

	if (!f)
		return tcp_reno_undo_cwnd(sk);
	ops_read_windows(sk, &w);
	cwnd_pkts = ops_call(f, sk, REC_UNDO, &w, 0);
	ops_on_event(f, sk, CCA_UNDO);
	return cwnd_pkts;
}

static void ops_set_state(struct sock *sk, u8 new_state)
{
	struct alg_flow *f = alg_flow_of(sk);
	enum cca_event_kind kind;

	if (!f)
		return;
	if (new_state == TCP_CA_Loss)
		ops_forget_losses(sk, f);
	if (ccatune_read_window_state(sk, new_state, &kind))
		ops_on_event(f, sk, kind);
}

CCATUNE_TX_START(ops_tx_start)
{
	struct alg_flow *f = alg_flow_of(sk);
	enum cca_event_kind kind;

	if (!f)
		return;
	ops_before_sending(f, sk);
	if (ops_read_tx_start(sk, f, &kind))
		ops_on_event(f, sk, kind);
}

/* The flow of a socket begins. */
static void ops_open(struct sock *sk, struct alg_flow *f)
{
	struct ops_windows w;

	ops_read_windows(sk, &w);
#ifndef ALG_NO_TABLE
	ccatune_last_ack_init(sk, &f->last_ack);
#endif
	ops_begin(f, sk, &w);
#ifdef ALG_BOUNDS_START
	ccatune_write_window(sk, &w.after);
#endif
	/*
	 * If the socket changes its algorithm during a recovery, the kernel controls the window
	 * until that ends.
	 */
	if (ccatune_is_reduced(ccatune_ca_state(sk)))
		ops_on_event(f, sk, CCA_RECOVERY_ENTERED);
}

#endif /* CCATUNE_WINDOW_OPS_H */
