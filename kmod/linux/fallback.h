/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The congestion control of a socket that has no flow, because there was no memory or `max_flows`
 * was reached. It is CUBIC (kmod/core/cubic.h) with its defaults. Its state fits into the socket,
 * so no allocation can fail. There is no table, no epoch and no recording, and `flows` does not
 * show the socket.
 *
 * CUBIC is also the base of ROCCET and of R-TCP over CUBIC. The states of BBR (224 bytes, 280 in
 * version 3) and GR (640 bytes) do not fit into a socket, so sockets of those modules fall back
 * to CUBIC, too.
 *
 * `ss` shows the name of the algorithm with the suffix -plain, unless the module has defined
 * CCATUNE_PLAIN_NAME. The owner of these operations is the same module, so the socket releases the
 * module reference that it took.
 */
#ifndef CCATUNE_FALLBACK_H
#define CCATUNE_FALLBACK_H

#include "cubic.h"
#include "window.h"

#ifndef CCATUNE_PLAIN_NAME
#define CCATUNE_PLAIN_NAME CCATUNE_NAME "-plain"
#endif

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

	/* The window grows only if it limited the sender. */
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

/*
 * For losses that recovery repairs, the kernel calls ssthresh. Only a timeout is passed on as an
 * event.
 */
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
 * The kernel calls this when a socket that fell back connects again, or when a child inherits the
 * fallback of its listener. The socket gets a flow if there is memory now.
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

/* Call this before the module offers its algorithm. */
static inline void ccatune_plain_init(struct tcp_congestion_ops *ops)
{
	plain_of = ops;
	BUILD_BUG_ON(sizeof(struct cubic_state) > ICSK_CA_PRIV_SIZE);
	cca_params_init(&plain_params, CCA_ID_cubic);
}

/*
 * The module's init operation calls this if there is no flow. The private area of the socket then
 * has CUBIC's state.
 */
static inline void ccatune_plain_begin(struct sock *sk)
{
	struct cca_start start;

	ccatune_read_start(sk, &start);
	cubic_init(inet_csk_ca(sk), &plain_params, &start);
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &plain_ops);
}

#endif /* CCATUNE_FALLBACK_H */
