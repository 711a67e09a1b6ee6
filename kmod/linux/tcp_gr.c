// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_gr.ko: GR (kmod/core/gr.h) as a congestion control of Linux, in control mode: every ACK
 * sets pacing rate and cwnd. The flow's state is allocated when the connection begins. The
 * socket's private area has a pointer to it and the values that `ss` shows. A socket without a
 * flow runs CUBIC, under the name gr-plain (fallback.h).
 */
#include <linux/inet_diag.h>
#include <linux/module.h>

#define CCATUNE_PLAIN_NAME "gr-plain"

#include "ccatune.h"

#include "gr_ops.h"
#include "register.h"
#include "fallback.h"
#include "show.h"

struct gr_sock {
	struct gr_kflow *flow;
	/* Copies for gr_get_info(), which must not follow the pointer. */
	u64 rate_bytes_per_s;
	u32 window_pkts;		/* packets acknowledged ... */
	u32 window_us;			/* ... in this time; their ratio is the bandwidth */
	u32 mss_bytes;
	u32 min_rtt_us;
	u32 cwnd_gain_pct;
};

static struct ccatune_algorithm gr_algorithm;

static struct gr_kflow *gr_kflow_of(const struct sock *sk)
{
	return ((struct gr_sock *)inet_csk_ca(sk))->flow;
}

static void gr_copy_info(struct sock *sk, const struct gr_kflow *f)
{
	struct gr_sock *own = inet_csk_ca(sk);
	const struct cca_rate_window *w = &f->gr.gr.bandwidth;

	u32 window_us = cca_rate_span_us(w);

	WRITE_ONCE(own->rate_bytes_per_s, f->decision.pacing_bytes_per_s);
	WRITE_ONCE(own->window_us, window_us);
	WRITE_ONCE(own->window_pkts, window_us ? cca_rate_pkts(w) : 0);
	WRITE_ONCE(own->mss_bytes, f->gr.gr.mss_bytes);
	WRITE_ONCE(own->min_rtt_us, f->gr.gr.min_rtt_us);
	WRITE_ONCE(own->cwnd_gain_pct, f->gr.params.cwnd_gain_pct);
}

static void gr_open(struct sock *sk)
{
	struct gr_sock *own = inet_csk_ca(sk);
	struct ccatune_flow *head = ccatune_flow_start(&gr_algorithm, sk);

	if (!head) {
		ccatune_plain_begin(sk);
		return;
	}
	own->flow = container_of(head, struct gr_kflow, head);
	gr_begin(own->flow, sk);
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	gr_copy_info(sk, own->flow);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	ccatune_apply(sk, &own->flow->decision);
}

static void gr_release(struct sock *sk)
{
	struct gr_sock *own = inet_csk_ca(sk);

	if (own->flow)
		ccatune_flow_end(&own->flow->head);
	own->flow = NULL;
}

/* --- files and diagnostics ------------------------------------------------------ */

static void gr_view(const struct ccatune_flow *flow, struct ccatune_view *view)
{
	const struct gr_kflow *f = container_of(flow, struct gr_kflow, head);

	view->clock = &f->gr.ens.clock;
	view->params = &f->gr.params;
	view->mode = gr_mode(&f->gr.gr);
	view->pacing_bytes_per_s = READ_ONCE(f->decision.pacing_bytes_per_s);
	view->min_rtt_us = READ_ONCE(f->gr.gr.min_rtt_us);
	view->queueing_delay_us = READ_ONCE(f->queueing_delay_us);
}

/*
 * Uses the structure of bbr, because this has a rate. `ss -i` prints the bandwidth, the minimum
 * RTT, the rate divided by the bandwidth, and the gain of cwnd.
 *
 * The kernel calls this without the socket's lock. Meanwhile the socket may change to another
 * algorithm, which then uses the private area. Its content is therefore only read as numbers:
 * pointers are not followed, and divisors are checked.
 */
static size_t gr_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct gr_sock *own = inet_csk_ca(sk);
	u64 bandwidth, gain_q8, rate;

	if (!(ext & (1 << (INET_DIAG_BBRINFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(info, 0, sizeof(*info));
	rate = min_t(u64, READ_ONCE(own->rate_bytes_per_s), CCA_MAX_RATE_BYTES_PER_S);
	bandwidth = cca_rate_bytes_per_s(READ_ONCE(own->window_pkts), READ_ONCE(own->mss_bytes),
					 READ_ONCE(own->window_us));
	/* Overflow: 2^37 x 2^8. Without a bandwidth the gain is 0. */
	gain_q8 = bandwidth ? cca_div(rate << 8, bandwidth) : 0;
	info->bbr.bbr_bw_lo = (u32)bandwidth;
	info->bbr.bbr_bw_hi = (u32)(bandwidth >> 32);
	info->bbr.bbr_min_rtt = READ_ONCE(own->min_rtt_us);
	info->bbr.bbr_pacing_gain = (u32)min_t(u64, gain_q8, U32_MAX);
	info->bbr.bbr_cwnd_gain = (u32)cca_div((u64)READ_ONCE(own->cwnd_gain_pct) << 8, 100);
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}

static struct tcp_congestion_ops gr_ops __read_mostly = {
	.name = "gr",
	.owner = THIS_MODULE,
	.init = gr_open,
	.release = gr_release,
	.cong_control = gr_main,
	.set_state = gr_set_state,
	.CCATUNE_TX_START_OP = gr_tx_start,
	.undo_cwnd = gr_undo_cwnd,
	.ssthresh = gr_ssthresh,
	.get_info = gr_get_info,
};

/* --- the module ------------------------------------------------------------------ */

static int __net_init gr_net_init(struct net *net)
{
	return ccatune_net_init(net, &gr_algorithm);
}

static void __net_exit gr_net_pre_exit(struct net *net)
{
	ccatune_net_pre_exit(net, &gr_algorithm);
}

static void __net_exit gr_net_exit(struct net *net)
{
	ccatune_net_exit(net, &gr_algorithm);
}

static struct ccatune_algorithm gr_algorithm = {
	.id = CCA_ID_gr,
	.cache_name = "ccatune_gr_flow",
	.flow_bytes = sizeof(struct gr_kflow),
	.view = gr_view,
	.net_ops = {
		.init = gr_net_init,
		.pre_exit = gr_net_pre_exit,
		.exit = gr_net_exit,
		.id = &gr_algorithm.net_id,
		.size = sizeof(struct ccatune_cca *),
	},
};

static int __init gr_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct gr_sock) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(offsetof(struct gr_kflow, head));
	err = ccatune_register(&gr_algorithm);
	if (err)
		return err;
	ccatune_plain_init(&gr_ops);
	err = ccatune_offer(&gr_ops);
	if (err)
		ccatune_unregister(&gr_algorithm);
	return err;
}

static void __exit gr_unregister(void)
{
	tcp_unregister_congestion_control(&gr_ops);
	ccatune_unregister(&gr_algorithm);
}

module_init(gr_register);
module_exit(gr_unregister);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);
MODULE_DESCRIPTION("TCP GR: delay-based rate control whose parameters follow the network state");
