/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An algorithm in control mode as operations of Linux's TCP, for both hosts in the kernel. Every
 * ACK sets pacing rate and cwnd. The includer has included its ccatune.h and the algorithm's
 * adapter (table_ops.h), whose flow has a cca_decision. It defines alg_flow_of(sk), NULL for a
 * socket without a flow, and alg_copy_info(sk, f), which keeps what `ss` shows. An adapter may
 * define:
 *
 *   ALG_ANSWERS_ECN        the core is notified of congestion marks
 *   ALG_LOOKS_WITH_ACKS    recoveries are looked for with ACKs, as in the kernel's own BBR. If one
 *                          recovery ends and another begins within one ACK, they count as one. The
 *                          core is notified of a recovery before the ACK that shows it
 *   ALG_LEARNS_FROM_LOSSES the core has alg_on_loss() (losses.h)
 *   ALG_SINGLE_BELOW       pacing rate below which single packets are sent
 *   ALG_SNDBUF_WINDOWS     windows that the send buffer has room for
 */
#ifndef CCATUNE_CONTROL_OPS_H
#define CCATUNE_CONTROL_OPS_H

#include "table_ops.h"

static void ops_notify(struct sock *sk, struct alg_flow *f, enum cca_event_kind kind)
{
	ops_on_event(f, sk, kind);
	ccatune_apply(sk, &f->decision);
}

#include "losses.h"

#ifdef ALG_LOOKS_WITH_ACKS

/* Notifies the core of a recovery that began or ended since the last ACK. */
static void ops_look(struct sock *sk, struct alg_flow *f)
{
	u8 state = ccatune_ca_state(sk), seen = f->seen_state;

	f->seen_state = state;
	if (state == TCP_CA_Recovery && seen != TCP_CA_Recovery)
		ops_notify(sk, f, CCA_RECOVERY_ENTERED);
	else if (state < TCP_CA_Recovery && seen >= TCP_CA_Recovery)
		ops_notify(sk, f, CCA_RECOVERY_LEFT);
}

/* Only a timeout is reported at once. ops_look() reports other changes with the next ACK. */
static void ops_state_changed(struct sock *sk, struct alg_flow *f, u8 new_state)
{
	enum cca_event_kind kind;

	if (new_state != TCP_CA_Loss)
		return;
	if (!ccatune_read_state(sk, new_state, &kind)) {
		ops_forget_losses(sk, f);	/* the path MTU has shrunk */
		return;
	}
	f->seen_state = TCP_CA_Loss;
	ops_notify_losses(sk, f);
	ops_notify(sk, f, kind);
}

/* The undo ends the episode, so ops_look() must not report its end again. */
static void ops_before_undo(struct sock *sk, struct alg_flow *f)
{
	f->seen_state = TCP_CA_Open;
	ops_notify_losses(sk, f);	/* of a timer, which the undo reverts */
}

#else

#define ops_look(sk, f) do { } while (0)
#define ops_before_undo(sk, f) do { } while (0)

/*
 * The kernel enters CWR after an ECE, and after a local queue was full. It does so only from Open
 * and Disorder. In Recovery it does not react to the ECE until the recovery has ended.
 */
static void ops_state_changed(struct sock *sk, struct alg_flow *f, u8 new_state)
{
	enum cca_event_kind kind;

	if (ccatune_read_state(sk, new_state, &kind))
		ops_notify(sk, f, kind);
#ifdef ALG_ANSWERS_ECN
	else if (new_state == TCP_CA_CWR)
		ops_notify(sk, f, CCA_ECN);
#endif
}

#endif

/* --- operations ---------------------------------------------------------------------------- */

CCATUNE_CONG_CONTROL(ops_cong_control)
{
	struct alg_flow *f = alg_flow_of(sk);
	struct cca_ack ack;

	if (!f) {
		ccatune_plain_grow(sk, rs->acked_sacked);
		return;
	}
	ops_note_sent(sk, f, rs);
	ops_look(sk, f);
	if (ccatune_read_ack(&f->head, sk, rs, &ack)) {
		ops_put_sent(sk, f, &ack);
		ops_on_ack(f, sk, &ack, NULL);
		alg_copy_info(sk, f);
		ccatune_apply(sk, &f->decision);
	}
	ccatune_flow_note(&f->head, sk);
}

static void ops_set_state(struct sock *sk, u8 new_state)
{
	struct alg_flow *f = alg_flow_of(sk);

	if (f)
		ops_state_changed(sk, f, new_state);
	else
		ccatune_plain_set_state(sk, new_state);
}

CCATUNE_TX_START(ops_tx_start)
{
	struct alg_flow *f = alg_flow_of(sk);
	enum cca_event_kind kind;

	if (!f)
		return;
	ops_before_sending(f, sk);
	if (ops_read_tx_start(sk, f, &kind))
		ops_notify(sk, f, kind);
}

static u32 ops_undo_cwnd(struct sock *sk)
{
	struct alg_flow *f = alg_flow_of(sk);

	if (!f)
		return tcp_reno_undo_cwnd(sk);
	ops_before_undo(sk, f);
	ops_notify(sk, f, CCA_UNDO);
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* An algorithm in control mode does not use ssthresh. Returns it unchanged. */
static u32 ops_ssthresh(struct sock *sk)
{
	return alg_flow_of(sk) ? tcp_sk(sk)->snd_ssthresh : tcp_reno_ssthresh(sk);
}

#ifdef ALG_LOOKS_WITH_ACKS

static u32 ops_min_tso_segs(struct sock *sk)
{
#ifdef ALG_SINGLE_BELOW
	return READ_ONCE(sk->sk_pacing_rate) < ALG_SINGLE_BELOW ? 1 : 2;
#else
	return 2;
#endif
}

static u32 ops_sndbuf_expand(struct sock *sk)
{
	return ALG_SNDBUF_WINDOWS;
}

#endif

/* The flow of a socket begins. */
static void ops_open(struct sock *sk, struct alg_flow *f)
{
#ifdef ALG_LOOKS_WITH_ACKS
	f->seen_state = TCP_CA_Open;
#endif
	ops_begin_log(sk, f);
	ops_begin(f, sk, NULL);
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	ccatune_need_pacing(sk);
	ccatune_apply(sk, &f->decision);
}

#endif /* CCATUNE_CONTROL_OPS_H */
