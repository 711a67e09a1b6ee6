/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An algorithm as a module, tcp_NAME.ko or tcp_ccatune_NAME.ko (params.def). The state of a flow is
 * allocated when the connection begins. A socket without a flow runs CUBIC (fallback.c). Each
 * module defines CCATUNE_ALGORITHM, includes ccatune.h, show.h and its adapter, and then this file
 * once. A module that shows values in `ss` defines:
 *
 *   struct alg_sock    the socket's private area: a pointer to the flow, and copies of the values
 *   alg_copy_info()    sets the copies
 *   alg_get_info()     fills in the answer from the copies
 *
 * `ss` shows a socket without a flow under the name of the algorithm with the suffix -plain, unless
 * the module has defined CCATUNE_PLAIN_NAME.
 *
 * Only processes with CAP_NET_ADMIN in the user namespace that owns their network namespace may
 * choose a restricted algorithm. `ccatune-agent enable`, or a write to
 * net.ipv4.tcp_allowed_congestion_control, permits it to all others at any time.
 */
#ifndef CCATUNE_MODULE_H
#define CCATUNE_MODULE_H

#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <net/tcp.h>

#ifdef ALG_HAS_CLIENT
#define alg_sock rtcp_sock
#define alg_get_info rtcp_get_info
#define alg_copy_info(sk, f) \
	rtcp_copy_info(sk, &(f)->member, &(f)->core.state.flow, alg_set(f))
#define alg_net_init rtcp_register_net
#else
#define alg_net_init ccatune_net_init
#ifndef alg_get_info
#define alg_get_info NULL
#define alg_copy_info(sk, f) do { } while (0)
struct alg_sock {
	void *flow;
};
#endif
#endif

static bool unrestricted;
module_param(unrestricted, bool, 0444);
MODULE_PARM_DESC(unrestricted,
		 "whether programs without CAP_NET_ADMIN may choose the algorithm (default: N)");

#ifndef CCATUNE_PLAIN_NAME
#define CCATUNE_PLAIN_NAME CCATUNE_NAME "-plain"
#endif

static struct ccatune_algorithm algorithm;
/* A copy of ccatune_fallback_ops. Its owner is this module, whose reference the socket releases. */
static struct tcp_congestion_ops plain_ops __read_mostly;

/* NULL if the socket has no flow. */
static struct alg_flow *alg_flow_of(const struct sock *sk)
{
	return ((struct alg_sock *)inet_csk_ca(sk))->flow;
}

#include "mode_ops.h"

static void module_open(struct sock *sk)
{
	struct ccatune_flow *head = ccatune_flow_start(&algorithm, sk);
	struct alg_sock *own = inet_csk_ca(sk);
	struct alg_flow *f;

	if (!head) {
		ccatune_fallback_begin(sk);
		WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &plain_ops);
		return;
	}
	memset(own, 0, sizeof(*own));
	f = container_of(head, struct alg_flow, head);
	own->flow = f;
	ops_open(sk, f);
	alg_copy_info(sk, f);
}

static void module_release(struct sock *sk)
{
	struct alg_sock *own = inet_csk_ca(sk);
	struct alg_flow *f = alg_flow_of(sk);

	if (!f)
		return;
	alg_leave(f, sk);
	own->flow = NULL;
	ccatune_flow_end(&f->head);
}

static void module_view(const struct ccatune_flow *flow, struct ccatune_view *view)
{
	struct alg_flow *f = container_of(flow, struct alg_flow, head);

	view->clock = &alg_ens(f)->clock;
	view->params = alg_set(f);
	view->queueing_delay_us = READ_ONCE(f->queueing_delay_us);
	alg_view(f, view);
}

static void module_show(struct seq_file *m, const struct ccatune_flow *flow)
{
	alg_show(m, container_of(flow, struct alg_flow, head));
}

static struct tcp_congestion_ops module_ops __read_mostly = {
#define CCA_ONLY CCATUNE_ID
#define CCA_ALGORITHM(algorithm, mode, host, meaning) .name = CCATUNE_NAMED_##host(algorithm),
#include "params.def"
	.owner = THIS_MODULE,
	.init = module_open,
	.release = module_release,
#if ALG_WINDOW
	.pkts_acked = ops_pkts_acked,
	.cong_avoid = ops_cong_avoid,
#else
	.cong_control = ops_cong_control,
#endif
	.ssthresh = ops_ssthresh,
	.undo_cwnd = ops_undo_cwnd,
	.set_state = ops_set_state,
	.CCATUNE_TX_START_OP = ops_tx_start,
#ifdef ALG_LOOKS_WITH_ACKS
	.min_tso_segs = ops_min_tso_segs,
	.sndbuf_expand = ops_sndbuf_expand,
#endif
	.get_info = alg_get_info,
};

/*
 * The kernel calls this when a socket that fell back connects again, or when a child inherits the
 * fallback of its listener. The socket gets a flow if there is memory now.
 */
static void module_reopen(struct sock *sk)
{
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &module_ops);
	module_open(sk);
}

static int __net_init module_net_init(struct net *net)
{
	return alg_net_init(net, &algorithm);
}

static void __net_exit module_net_pre_exit(struct net *net)
{
	ccatune_net_pre_exit(net, &algorithm);
}

static void __net_exit module_net_exit(struct net *net)
{
	ccatune_net_exit(net, &algorithm);
}

static struct ccatune_algorithm algorithm = {
	.id = CCATUNE_ID,
	.cache_name = "ccatune_" CCATUNE_NAME "_flow",
	.flow_bytes = sizeof(struct alg_flow),
	.view = module_view,
	.show = module_show,
	.net_ops = {
		.init = module_net_init,
		.pre_exit = module_net_pre_exit,
		.exit = module_net_exit,
		.id = &algorithm.net_id,
		.size = sizeof(struct ccatune_cca *),
	},
};

static int __init module_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct alg_sock) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(offsetof(struct alg_flow, head));
	err = ccatune_register(&algorithm);
	if (err)
		return err;
	plain_ops = ccatune_fallback_ops;
	plain_ops.owner = THIS_MODULE;
	plain_ops.init = module_reopen;
	strscpy(plain_ops.name, CCATUNE_PLAIN_NAME, sizeof(plain_ops.name));
	if (unrestricted)
		module_ops.flags |= TCP_CONG_NON_RESTRICTED;
	err = tcp_register_congestion_control(&module_ops);
	if (err)
		ccatune_unregister(&algorithm);
	return err;
}

static void __exit module_unregister(void)
{
	tcp_unregister_congestion_control(&module_ops);
	ccatune_unregister(&algorithm);
}

module_init(module_register);
module_exit(module_unregister);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);

#endif /* CCATUNE_MODULE_H */
