// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_rtcp_cubic.ko: CUBIC with a window that R-TCP caps behind a rate limiter
 * (kmod/core/rtcp.h), as a congestion control of Linux, in window mode: the kernel requests
 * growth, threshold and undo, and does loss recovery itself. An ACK may lower the window. The
 * knowledge of the limiter belongs to the client (tcp_rtcp.h), whose lock is held while the core
 * runs. The flow's state is allocated when the connection begins. A socket without a flow runs
 * CUBIC, under the name rtcp-plain (fallback.h).
 *
 * An ECN mark and a full local queue count as a loss.
 */
#include <linux/module.h>

#define CCATUNE_PLAIN_NAME "rtcp-plain"

#include "ccatune.h"

#include "register.h"
#include "fallback.h"
#include "tcp_rtcp.h"
#include "rtcp_cubic_ops.h"

static struct ccatune_algorithm rtcp_cubic_algorithm;

static struct rtcp_cubic_kflow *rtcp_cubic_of(const struct sock *sk)
{
	struct rtcp_kflow *shared = rtcp_kflow_of(sk);

	return shared ? container_of(shared, struct rtcp_cubic_kflow, shared) : NULL;
}

static void rtcp_cubic_copy_info(struct sock *sk, const struct rtcp_cubic_kflow *f)
{
	rtcp_copy_info(sk, &f->shared, &f->cubic.state.flow, &f->cubic.params.rtcp);
}

static void rtcp_cubic_open(struct sock *sk)
{
	struct rtcp_sock *own = inet_csk_ca(sk);
	struct ccatune_flow *head = ccatune_flow_start(&rtcp_cubic_algorithm, sk);
	struct rtcp_cubic_kflow *f;

	if (!head) {
		ccatune_plain_begin(sk);
		return;
	}
	memset(own, 0, sizeof(*own));
	f = container_of(head, struct rtcp_cubic_kflow, shared.head);
	own->flow = &f->shared;
	rtcp_cubic_begin(f, sk);
	rtcp_cubic_copy_info(sk, f);
}

static void rtcp_cubic_release(struct sock *sk)
{
	struct rtcp_cubic_kflow *f = rtcp_cubic_of(sk);

	if (f)
		rtcp_kflow_end(sk, &f->shared, &f->cubic.state.flow);
}

/* --- files and diagnostics --------------------------------------------------------- */

static void rtcp_cubic_view(const struct ccatune_flow *flow, struct ccatune_view *view)
{
	const struct rtcp_cubic_kflow *f = container_of(flow, struct rtcp_cubic_kflow, shared.head);

	rtcp_view(&f->shared, &f->cubic.state.flow, &f->cubic.ens, &f->cubic.params.rtcp, view);
}

static void rtcp_cubic_show(struct seq_file *m, const struct ccatune_flow *flow)
{
	const struct rtcp_cubic_kflow *f = container_of(flow, struct rtcp_cubic_kflow, shared.head);

	rtcp_show(m, &f->shared, &f->cubic.state.flow, &f->cubic.params.rtcp);
}

static struct tcp_congestion_ops rtcp_cubic_ops __read_mostly = {
	.name = "rtcp_cubic",
	.owner = THIS_MODULE,
	.init = rtcp_cubic_open,
	.release = rtcp_cubic_release,
	.pkts_acked = rtcp_cubic_pkts_acked,
	.cong_avoid = rtcp_cubic_cong_avoid,
	.ssthresh = rtcp_cubic_threshold,
	.undo_cwnd = rtcp_cubic_undo_cwnd,
	.set_state = rtcp_cubic_set_state,
	.CCATUNE_TX_START_OP = rtcp_cubic_tx_start,
	.get_info = rtcp_get_info,
};

/* --- the module -------------------------------------------------------------------- */

static int __net_init rtcp_cubic_net_init(struct net *net)
{
	return rtcp_register_net(net, &rtcp_cubic_algorithm);
}

static void __net_exit rtcp_cubic_net_pre_exit(struct net *net)
{
	ccatune_net_pre_exit(net, &rtcp_cubic_algorithm);
}

static void __net_exit rtcp_cubic_net_exit(struct net *net)
{
	ccatune_net_exit(net, &rtcp_cubic_algorithm);
}

static struct ccatune_algorithm rtcp_cubic_algorithm = {
	.id = CCA_ID_rtcp_cubic,
	.cache_name = "ccatune_rtcp_cubic_flow",
	.flow_bytes = sizeof(struct rtcp_cubic_kflow),
	.view = rtcp_cubic_view,
	.show = rtcp_cubic_show,
	.net_ops = {
		.init = rtcp_cubic_net_init,
		.pre_exit = rtcp_cubic_net_pre_exit,
		.exit = rtcp_cubic_net_exit,
		.id = &rtcp_cubic_algorithm.net_id,
		.size = sizeof(struct ccatune_cca *),
	},
};

static int __init rtcp_cubic_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct rtcp_sock) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(offsetof(struct rtcp_cubic_kflow, shared.head));
	err = ccatune_register(&rtcp_cubic_algorithm);
	if (err)
		return err;
	ccatune_plain_init(&rtcp_cubic_ops);
	err = ccatune_offer(&rtcp_cubic_ops);
	if (err)
		ccatune_unregister(&rtcp_cubic_algorithm);
	return err;
}

static void __exit rtcp_cubic_unregister(void)
{
	tcp_unregister_congestion_control(&rtcp_cubic_ops);
	ccatune_unregister(&rtcp_cubic_algorithm);
}

module_init(rtcp_cubic_register);
module_exit(rtcp_cubic_unregister);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);
MODULE_DESCRIPTION("TCP R-TCP over CUBIC: a window that stays within a client's rate limit");
