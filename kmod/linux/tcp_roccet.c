// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_roccet.ko: ROCCET (kmod/core/roccet.h) as a congestion control of Linux, in window mode:
 * the kernel requests growth, threshold and undo, and does loss recovery itself. An ACK may lower
 * the window. The flow's state is allocated when the connection begins. A socket without a flow
 * runs CUBIC, under the name roccet-plain (fallback.h).
 *
 * An ECN mark and a full local queue count as a loss.
 */
#include <linux/module.h>
#include <linux/seq_file.h>

#define CCATUNE_PLAIN_NAME "roccet-plain"

#include "ccatune.h"

#include "register.h"
#include "fallback.h"
#include "roccet_ops.h"
#include "show.h"

struct roccet_sock {
	struct roccet_kflow *flow;
};

static struct ccatune_algorithm roccet_algorithm;

static struct roccet_kflow *roccet_kflow_of(const struct sock *sk)
{
	return ((struct roccet_sock *)inet_csk_ca(sk))->flow;
}

static void roccet_open(struct sock *sk)
{
	struct roccet_sock *own = inet_csk_ca(sk);
	struct ccatune_flow *head = ccatune_flow_start(&roccet_algorithm, sk);

	if (!head) {
		ccatune_plain_begin(sk);
		return;
	}
	own->flow = container_of(head, struct roccet_kflow, head);
	roccet_begin(own->flow, sk);
}

static void roccet_release(struct sock *sk)
{
	struct roccet_sock *own = inet_csk_ca(sk);

	if (own->flow)
		ccatune_flow_end(&own->flow->head);
	own->flow = NULL;
}

/* --- files and diagnostics -------------------------------------------------------- */

static void roccet_view(const struct ccatune_flow *flow, struct ccatune_view *view)
{
	const struct roccet_kflow *f = container_of(flow, struct roccet_kflow, head);

	view->clock = &f->roccet.ens.clock;
	view->params = &f->roccet.params;
	view->mode = roccet_mode(&f->roccet.roccet);
	view->min_rtt_us = READ_ONCE(f->roccet.roccet.min_rtt_us);
	view->queueing_delay_us = READ_ONCE(f->queueing_delay_us);
}

static void roccet_show(struct seq_file *m, const struct ccatune_flow *flow)
{
	roccet_show_state(m, &container_of(flow, struct roccet_kflow, head)->roccet.roccet);
}

static struct tcp_congestion_ops roccet_ops __read_mostly = {
	.name = "roccet",
	.owner = THIS_MODULE,
	.init = roccet_open,
	.release = roccet_release,
	.pkts_acked = roccet_pkts_acked,
	.cong_avoid = roccet_cong_avoid,
	.ssthresh = roccet_threshold,
	.undo_cwnd = roccet_undo_cwnd,
	.set_state = roccet_set_state,
	.CCATUNE_TX_START_OP = roccet_tx_start,
};

/* --- the module ------------------------------------------------------------------ */

static int __net_init roccet_net_init(struct net *net)
{
	return ccatune_net_init(net, &roccet_algorithm);
}

static void __net_exit roccet_net_pre_exit(struct net *net)
{
	ccatune_net_pre_exit(net, &roccet_algorithm);
}

static void __net_exit roccet_net_exit(struct net *net)
{
	ccatune_net_exit(net, &roccet_algorithm);
}

static struct ccatune_algorithm roccet_algorithm = {
	.id = CCA_ID_roccet,
	.cache_name = "ccatune_roccet_flow",
	.flow_bytes = sizeof(struct roccet_kflow),
	.view = roccet_view,
	.show = roccet_show,
	.net_ops = {
		.init = roccet_net_init,
		.pre_exit = roccet_net_pre_exit,
		.exit = roccet_net_exit,
		.id = &roccet_algorithm.net_id,
		.size = sizeof(struct ccatune_cca *),
	},
};

static int __init roccet_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct roccet_sock) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(offsetof(struct roccet_kflow, head));
	err = ccatune_register(&roccet_algorithm);
	if (err)
		return err;
	ccatune_plain_init(&roccet_ops);
	err = ccatune_offer(&roccet_ops);
	if (err)
		ccatune_unregister(&roccet_algorithm);
	return err;
}

static void __exit roccet_unregister(void)
{
	tcp_unregister_congestion_control(&roccet_ops);
	ccatune_unregister(&roccet_algorithm);
}

module_init(roccet_register);
module_exit(roccet_unregister);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);
MODULE_DESCRIPTION("TCP ROCCET: CUBIC that takes round trips that grow for congestion too");
