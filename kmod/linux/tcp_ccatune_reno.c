// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_ccatune_reno.ko: Reno (kmod/core/reno.h) as a congestion control of Linux, in window mode:
 * the kernel requests growth, threshold and undo, and does loss recovery itself. Reno's state
 * fits into the socket. Only `flows` and `recording` need the memory that is allocated, so a
 * socket without it runs Reno, too. Reno has no parameters and no axes, so it cannot use a table.
 */
#include <linux/module.h>

#include "ccatune.h"

#include "register.h"
#include "reno.h"
#include "window.h"

struct reno_sock {
	struct ccatune_flow *flow;
	struct reno_state reno;
	struct ccatune_last_ack last_ack;
};

static struct ccatune_algorithm reno_algorithm;

/* --- recording ----------------------------------------------------------------- */

/* Reno's core does not receive these events. They make the recording easier to read. */
static void reno_note(const struct sock *sk, enum cca_event_kind kind)
{
	const struct reno_sock *own = inet_csk_ca(sk);
	struct ccatune_recording *recording;
	struct cca_event ev;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_begin_record(own->flow, sk, &r, REC_EVENT);
	if (recording) {
		ccatune_read_event(sk, kind, &ev);
		rec_put_event(&r, &ev);
		ccatune_record(recording, &r);
	}
	rcu_read_unlock();
}

static void reno_note_start(const struct sock *sk)
{
	const struct reno_sock *own = inet_csk_ca(sk);
	struct ccatune_recording *recording;
	struct cca_start start;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_begin_record(own->flow, sk, &r, REC_START);
	if (recording) {
		ccatune_read_start(sk, &start);
		rec_put_start(&r, &start, 0, 0, 0);
		ccatune_record(recording, &r);
	}
	rcu_read_unlock();
}

/* --- calls from the kernel ----------------------------------------------------- */

static void reno_told(struct sock *sk, const struct ack_sample *sample)
{
	struct reno_sock *own = inet_csk_ca(sk);
	struct ccatune_recording *recording;
	struct cca_ack ack;
	struct rec_record r;

	if (!ccatune_read_window_ack(sk, &own->last_ack, sample, &ack))
		return;
	reno_on_ack(&own->reno, &ack);
	rcu_read_lock();
	recording = ccatune_begin_record(own->flow, sk, &r, REC_WINDOW_ACK);
	if (recording) {
		rec_put_ack(&r, &ack);
		ccatune_record(recording, &r);
	}
	rcu_read_unlock();
}

static void reno_cong_avoid(struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	struct reno_sock *own = inet_csk_ca(sk);
	struct cca_window before, w;

	/* The window grows only if it limited the sender. */
	if (!tcp_is_cwnd_limited(sk))
		return;
	ccatune_read_window(sk, &before);
	w = before;
	reno_grow(&own->reno, &w, acked_pkts);
	ccatune_write_window(sk, &w);
	ccatune_record_call(own->flow, sk, REC_GROW, &before, &w, acked_pkts, 0);
}

static u32 reno_threshold(struct sock *sk)
{
	struct reno_sock *own = inet_csk_ca(sk);
	struct cca_window before, w;
	u32 result;

	ccatune_read_window(sk, &before);
	w = before;
	result = reno_ssthresh(&own->reno, &w);
	tcp_sk(sk)->snd_cwnd_cnt = w.credit_pkts;
	ccatune_record_call(own->flow, sk, REC_SSTHRESH, &before, &w, 0, result);
	return result;
}

static u32 reno_undo_cwnd(struct sock *sk)
{
	struct reno_sock *own = inet_csk_ca(sk);
	struct cca_window w;
	u32 result;

	ccatune_read_window(sk, &w);
	result = reno_undo(&own->reno, &w);
	ccatune_record_call(own->flow, sk, REC_UNDO, &w, &w, 0, result);
	return result;
}

static void reno_set_state(struct sock *sk, u8 new_state)
{
	struct reno_sock *own = inet_csk_ca(sk);
	enum cca_event_kind kind;

	if (ccatune_read_window_state(sk, &own->last_ack, new_state, &kind))
		reno_note(sk, kind);
}

CCATUNE_TX_START(reno_tx_start)
{
	enum cca_event_kind kind;

	if (ccatune_read_tx_start(sk, &kind))
		reno_note(sk, kind);
}

static void reno_open(struct sock *sk)
{
	struct reno_sock *own = inet_csk_ca(sk);

	own->flow = ccatune_flow_start(&reno_algorithm, sk);
	reno_init(&own->reno);
	ccatune_last_ack_init(sk, &own->last_ack);
	reno_note_start(sk);
}

static void reno_release(struct sock *sk)
{
	struct reno_sock *own = inet_csk_ca(sk);

	if (own->flow)
		ccatune_flow_end(own->flow);
	own->flow = NULL;
}

static void reno_view(const struct ccatune_flow *flow, struct ccatune_view *view)
{
	view->mode = tcp_in_slow_start(tcp_sk(flow->sk)) ? "slow_start" : "avoidance";
}

static struct tcp_congestion_ops reno_ops __read_mostly = {
	.name = "ccatune_reno",
	.owner = THIS_MODULE,
	.init = reno_open,
	.release = reno_release,
	.pkts_acked = reno_told,
	.cong_avoid = reno_cong_avoid,
	.ssthresh = reno_threshold,
	.undo_cwnd = reno_undo_cwnd,
	.set_state = reno_set_state,
	.CCATUNE_TX_START_OP = reno_tx_start,
};

/* --- the module ------------------------------------------------------------------ */

static int __net_init reno_net_init(struct net *net)
{
	return ccatune_net_init(net, &reno_algorithm);
}

static void __net_exit reno_net_pre_exit(struct net *net)
{
	ccatune_net_pre_exit(net, &reno_algorithm);
}

static void __net_exit reno_net_exit(struct net *net)
{
	ccatune_net_exit(net, &reno_algorithm);
}

static struct ccatune_algorithm reno_algorithm = {
	.id = CCA_ID_reno,
	.cache_name = "ccatune_reno_flow",
	.flow_bytes = sizeof(struct ccatune_flow),
	.view = reno_view,
	.net_ops = {
		.init = reno_net_init,
		.pre_exit = reno_net_pre_exit,
		.exit = reno_net_exit,
		.id = &reno_algorithm.net_id,
		.size = sizeof(struct ccatune_cca *),
	},
};

static int __init reno_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct reno_sock) > ICSK_CA_PRIV_SIZE);
	err = ccatune_register(&reno_algorithm);
	if (err)
		return err;
	err = ccatune_offer(&reno_ops);
	if (err)
		ccatune_unregister(&reno_algorithm);
	return err;
}

static void __exit reno_unregister(void)
{
	tcp_unregister_congestion_control(&reno_ops);
	ccatune_unregister(&reno_algorithm);
}

module_init(reno_register);
module_exit(reno_unregister);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);
MODULE_DESCRIPTION("TCP Reno as ccatune's core has it: slow start and congestion avoidance");
