/* SPDX-License-Identifier: GPL-2.0 */
/*
 * R-TCP over an algorithm in control mode (kmod/core/rtcp.h), as a congestion control of Linux:
 * every ACK sets pacing rate and cwnd. The knowledge of the limiter belongs to the client
 * (tcp_rtcp.h), whose lock is held while the core runs. The flow's state is allocated when the
 * connection begins. A socket without a flow runs CUBIC. Its name is then that of the algorithm
 * with the suffix -plain (fallback.h).
 *
 * Each module defines what rtcp_paced_ops.h requires, and the following. It then includes this file
 * once:
 *
 *   PACED_NAME     name of the algorithm
 *   paced_modes    names of the modes of the base algorithm (rtcp_text.h)
 */
#ifndef CCATUNE_TCP_RTCP_PACED_H
#define CCATUNE_TCP_RTCP_PACED_H

#include <linux/module.h>
#include <linux/seq_file.h>

#define CCATUNE_PLAIN_NAME PACED_NAME "-plain"

#include "ccatune.h"

#include "register.h"
#include "fallback.h"
#include "sock.h"
#include "tcp_rtcp.h"
#include "rtcp_text.h"

static struct ccatune_algorithm paced_algorithm;

/* NULL if the socket has no flow. */
static struct paced_kflow *paced_of(const struct sock *sk)
{
	struct rtcp_kflow *shared = rtcp_kflow_of(sk);

	return shared ? container_of(shared, struct paced_kflow, shared) : NULL;
}

static void paced_copy_info(struct sock *sk, const struct paced_kflow *f)
{
	rtcp_copy_info(sk, &f->shared, &f->bbr.state.flow, &f->bbr.params.rtcp);
}

#include "rtcp_paced_ops.h"

static void paced_open(struct sock *sk)
{
	struct rtcp_sock *own = inet_csk_ca(sk);
	struct ccatune_flow *head = ccatune_flow_start(&paced_algorithm, sk);
	struct paced_kflow *f;

	if (!head) {
		ccatune_plain_begin(sk);
		return;
	}
	memset(own, 0, sizeof(*own));
	f = container_of(head, struct paced_kflow, shared.head);
	own->flow = &f->shared;
	paced_begin(f, sk);
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	paced_copy_info(sk, f);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	ccatune_apply(sk, &f->decision);
}

static void paced_release(struct sock *sk)
{
	struct paced_kflow *f = paced_of(sk);

	if (f)
		rtcp_kflow_end(sk, &f->shared, &f->bbr.state.flow);
}

/* --- files and diagnostics --------------------------------------------------------- */

static void paced_view(const struct ccatune_flow *flow, struct ccatune_view *view)
{
	const struct paced_kflow *f = container_of(flow, struct paced_kflow, shared.head);

	rtcp_view(&f->shared, &f->bbr.state.flow, &f->bbr.ens, &f->bbr.params.rtcp, view);
	view->pacing_bytes_per_s = READ_ONCE(f->decision.pacing_bytes_per_s);
}

static void paced_show(struct seq_file *m, const struct ccatune_flow *flow)
{
	const struct paced_kflow *f = container_of(flow, struct paced_kflow, shared.head);
	u8 mode = READ_ONCE(f->bbr.state.base.mode);

	rtcp_show(m, &f->shared, &f->bbr.state.flow, &f->bbr.params.rtcp);
	seq_printf(m, " bbr=%s", mode < ARRAY_SIZE(paced_modes) ? paced_modes[mode] : "-");
}

static struct tcp_congestion_ops paced_ops __read_mostly = {
	.name = PACED_NAME,
	.owner = THIS_MODULE,
	.init = paced_open,
	.release = paced_release,
	.cong_control = paced_main,
	.set_state = paced_set_state,
	.CCATUNE_TX_START_OP = paced_tx_start,
	.undo_cwnd = paced_undo_cwnd,
	.ssthresh = paced_ssthresh,
	.min_tso_segs = paced_min_tso_segs,
	.sndbuf_expand = paced_sndbuf_expand,
	.get_info = rtcp_get_info,
};

/* --- the module -------------------------------------------------------------------- */

static int __net_init paced_net_init(struct net *net)
{
	return rtcp_register_net(net, &paced_algorithm);
}

static void __net_exit paced_net_pre_exit(struct net *net)
{
	ccatune_net_pre_exit(net, &paced_algorithm);
}

static void __net_exit paced_net_exit(struct net *net)
{
	ccatune_net_exit(net, &paced_algorithm);
}

static struct ccatune_algorithm paced_algorithm = {
	.id = PACED_ID,
	.cache_name = "ccatune_" PACED_NAME "_flow",
	.flow_bytes = sizeof(struct paced_kflow),
	.view = paced_view,
	.show = paced_show,
	.net_ops = {
		.init = paced_net_init,
		.pre_exit = paced_net_pre_exit,
		.exit = paced_net_exit,
		.id = &paced_algorithm.net_id,
		.size = sizeof(struct ccatune_cca *),
	},
};

static int __init paced_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct rtcp_sock) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(offsetof(struct paced_kflow, shared.head));
	err = ccatune_register(&paced_algorithm);
	if (err)
		return err;
	ccatune_plain_init(&paced_ops);
	err = ccatune_offer(&paced_ops);
	if (err)
		ccatune_unregister(&paced_algorithm);
	return err;
}

static void __exit paced_unregister(void)
{
	tcp_unregister_congestion_control(&paced_ops);
	ccatune_unregister(&paced_algorithm);
}

#endif /* CCATUNE_TCP_RTCP_PACED_H */
