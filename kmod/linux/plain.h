/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The congestion control of a socket for whose flow there is no memory, or which is beyond
 * `max_flows`: CUBIC (kmod/core/cubic.h) with its defaults. Its state fits into the socket, so
 * that it cannot fail. It has no table, no epochs and no recording, and `flows` does not show it.
 *
 * CUBIC is the base of ROCCET and of R-TCP over CUBIC. The state of BBR (224 bytes, 280 in
 * version 3) and that of GR (640 bytes) do not fit into a socket: theirs is CUBIC, too.
 *
 * Included once a module, which says ahead of it CCATUNE_PLAIN_NAME, the name that `ss` shows.
 * The operations are of the same module, so that its reference is given back as it was taken.
 */
#ifndef CCATUNE_PLAIN_H
#define CCATUNE_PLAIN_H

#include "cubic.h"
#include "window.h"

static struct cubic_params plain_params;
static struct tcp_congestion_ops *plain_of;	/* the module's own operations */

static void plain_told(struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cca_ack ack = {
		.now_us = tp->tcp_mstamp,
		.rtt_us = ccatune_rtt_us(sample->rtt_us),
		.inflight_pkts = tcp_packets_in_flight(tp),
		.delivered_pkts = tp->delivered,
	};
	struct cca_window w;

	ccatune_read_window(sk, &w);
	cubic_on_ack(inet_csk_ca(sk), &plain_params, &ack, &w);
	ccatune_write_window(sk, &w);
}

static void plain_cong_avoid(struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	struct cca_window w;

	/* Growth is earned by ACKs of a window that was used. */
	if (!tcp_is_cwnd_limited(sk))
		return;
	ccatune_read_window(sk, &w);
	cubic_grow(inet_csk_ca(sk), &plain_params, &w, acked_pkts);
	ccatune_write_window(sk, &w);
}

static u32 plain_threshold(struct sock *sk)
{
	struct cca_window w;
	u32 ssthresh_pkts;

	ccatune_read_window(sk, &w);
	ssthresh_pkts = cubic_ssthresh(inet_csk_ca(sk), &plain_params, &w);
	tcp_sk(sk)->snd_cwnd_cnt = w.credit_pkts;
	return ssthresh_pkts;
}

static u32 plain_undo_cwnd(struct sock *sk)
{
	struct cca_window w;

	ccatune_read_window(sk, &w);
	return cubic_undo(inet_csk_ca(sk), &w);
}

static void plain_tell(struct sock *sk, enum cca_event_kind kind)
{
	struct cca_event ev;

	ccatune_read_event(sk, kind, &ev);
	cubic_on_event(inet_csk_ca(sk), &ev);
}

/* Losses that recovery repairs reach CUBIC as a threshold that the kernel asks for. */
static void plain_set_state(struct sock *sk, u8 new_state)
{
	enum cca_event_kind kind;

	if (new_state == TCP_CA_Loss && ccatune_read_state(sk, new_state, &kind))
		plain_tell(sk, kind);
}

CCATUNE_TX_START(plain_tx_start)
{
	enum cca_event_kind kind;

	if (ccatune_read_tx_start(sk, &kind))
		plain_tell(sk, kind);
}

/*
 * A socket that fell back connects again, or a child inherits the fallback of its listener. It
 * gets a flow if there is memory now.
 */
static void plain_open(struct sock *sk)
{
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, plain_of);
	plain_of->init(sk);
}

static struct tcp_congestion_ops plain_ops __read_mostly = {
	.name = CCATUNE_PLAIN_NAME,
	.owner = THIS_MODULE,
	.init = plain_open,
	.pkts_acked = plain_told,
	.cong_avoid = plain_cong_avoid,
	.ssthresh = plain_threshold,
	.undo_cwnd = plain_undo_cwnd,
	.set_state = plain_set_state,
	.CCATUNE_TX_START_OP = plain_tx_start,
};

/* Before the module offers its algorithm. */
static inline void ccatune_plain_init(struct tcp_congestion_ops *ops)
{
	plain_of = ops;
	BUILD_BUG_ON(sizeof(struct cubic_state) > ICSK_CA_PRIV_SIZE);
	cca_params_init(&plain_params, CCA_ID_cubic);
}

/* In place of the module's own operations, where those begin: the socket's area is CUBIC's. */
static inline void ccatune_plain_begin(struct sock *sk)
{
	struct cca_start start;

	ccatune_read_start(sk, &start);
	cubic_init(inet_csk_ca(sk), &plain_params, &start);
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &plain_ops);
}

#endif /* CCATUNE_PLAIN_H */
