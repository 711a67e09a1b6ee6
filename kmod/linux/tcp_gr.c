// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_gr.ko: GR (kmod/core/gr.h) as a congestion control of Linux, in control mode: every ACK
 * sets pacing rate and cwnd. The flow's state is allocated when the connection begins. The
 * socket's private area has a pointer to it and the values that `ss` shows. A socket without a
 * flow runs CUBIC, under the name gr-plain (plain.h).
 */
#include <linux/inet_diag.h>
#include <linux/module.h>

#define CCATUNE_PLAIN_NAME "gr-plain"

#include "gr_recording.h"
#include "offer.h"
#include "plain.h"
#include "sock.h"

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

struct gr_kflow {
	struct ccatune_flow head;
	struct gr_flow gr;
	struct cca_decision decision;
	u32 queueing_delay_us;
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

/* --- recording ---------------------------------------------------------------- */

static void gr_record(struct gr_kflow *f, struct ccatune_recording *recording,
		      struct rec_record *r)
{
	gr_put_outcome(r, &f->gr, &f->decision);
	ccatune_record(recording, r);
}

static void gr_record_start(struct gr_kflow *f, const struct cca_start *start,
			    const struct ccatune_params *params)
{
	struct ccatune_recording *recording = ccatune_recording(&f->head);
	struct rec_record r;

	if (!recording)
		return;
	ccatune_record_params(recording, params, CCA_ID_gr);
	rec_init(&r, REC_START, f->head.recorded_as, start->now_us);
	rec_put_start(&r, start, f->gr.ens.clock.delay_class, f->head.hash, params->version);
	gr_record(f, recording, &r);
}

static void gr_record_ack(struct gr_kflow *f, const struct cca_ack *ack,
			  const struct ccatune_table *table, const struct ccatune_params *params)
{
	struct ccatune_recording *recording = ccatune_recording(&f->head);
	struct rec_record r;

	if (!recording)
		return;
	rec_init(&r, REC_ACK, f->head.recorded_as, ack->now_us);
	ens_flow_put_ack(&r, &f->gr.ens, ack, table ? table->ens.generation : 0, params->version);
	if (f->gr.ens.turn != ENS_WAITED) {
		ccatune_record_table(recording, table);
		ccatune_record_params(recording, params, CCA_ID_gr);
	}
	gr_record(f, recording, &r);
}

static void gr_record_event(struct gr_kflow *f, const struct cca_event *ev)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	if (recording) {
		rec_init(&r, REC_EVENT, f->head.recorded_as, ev->now_us);
		rec_put_event(&r, ev);
		gr_record(f, recording, &r);
	}
	rcu_read_unlock();
}

/* --- events ------------------------------------------------------------------- */

static void gr_turned(struct gr_kflow *f, struct ccatune_table *table, u64 now_us)
{
	const struct ens_flow *ens = &f->gr.ens;

	ccatune_flow_epoch_ended(&f->head, &ens->clock, table, now_us, ens->turn, ens->held_back);
}

/*
 * Makes the flow follow a recall of rows, if there was one. Call this under rcu_read_lock(),
 * before an ACK or a transmission.
 */
static void gr_follow_recall(struct gr_kflow *f, u64 now_us)
{
	const struct ccatune_params *params;
	struct ccatune_table *table;

	if (likely(!ccatune_is_recalled(&f->head)))
		return;
	table = ccatune_table(f->head.cca);
	params = ccatune_params(f->head.cca);
	ens_flow_set_class(&f->gr.ens, ccatune_delay_class(f->head.cca, f->head.sk, table));
	gr_flow_recall(&f->gr, (const struct gr_params *)params->value,
		       table ? &table->ens : NULL, now_us);
	ccatune_flow_recalled(&f->head, &f->gr.ens, &f->gr.params, table, params, now_us);
}

CCATUNE_CONG_CONTROL(gr_main)
{
	struct gr_kflow *f = gr_kflow_of(sk);
	const struct ccatune_params *params;
	struct ccatune_table *table;
	struct cca_ack ack;

	if (!f || !ccatune_read_ack(&f->head, rs, &ack))
		return;
	rcu_read_lock();
	gr_follow_recall(f, ack.now_us);
	table = ccatune_table(f->head.cca);
	params = ccatune_params(f->head.cca);
	ens_flow_set_class(&f->gr.ens, ccatune_delay_class(f->head.cca, sk, table));
	gr_flow_on_ack(&f->gr, (const struct gr_params *)params->value,
		       table ? &table->ens : NULL, &ack, &f->decision);
	if (ack.rtt_us)
		f->queueing_delay_us = gr_queueing_delay_us(&f->gr.gr, ack.rtt_us);
	ccatune_flow_sample(&f->head, &ack, f->queueing_delay_us);
	if (f->gr.ens.turn != ENS_WAITED)
		gr_turned(f, table, ack.now_us);
	gr_record_ack(f, &ack, table, params);
	rcu_read_unlock();
	gr_copy_info(sk, f);
	ccatune_apply(sk, &f->decision);
}

static void gr_notify(struct sock *sk, enum cca_event_kind kind)
{
	struct gr_kflow *f = gr_kflow_of(sk);
	struct cca_event ev;

	if (!f)
		return;
	ccatune_read_event(sk, kind, &ev);
	gr_flow_on_event(&f->gr, &ev, &f->decision);
	gr_record_event(f, &ev);
	ccatune_apply(sk, &f->decision);
}

/*
 * The kernel enters CWR after an ECE, and after a local queue was full. It does so only from Open
 * and Disorder. In Recovery it does not react to the ECE until the recovery has ended.
 */
static void gr_set_state(struct sock *sk, u8 new_state)
{
	enum cca_event_kind kind;

	if (new_state == TCP_CA_CWR)
		gr_notify(sk, CCA_ECN);
	else if (ccatune_read_state(sk, new_state, &kind))
		gr_notify(sk, kind);
}

CCATUNE_TX_START(gr_tx_start)
{
	struct gr_kflow *f = gr_kflow_of(sk);
	enum cca_event_kind kind;

	if (!f)
		return;
	rcu_read_lock();
	gr_follow_recall(f, tcp_sk(sk)->tcp_mstamp);
	rcu_read_unlock();
	if (ccatune_read_tx_start(sk, &kind))
		gr_notify(sk, kind);
}

static u32 gr_undo_cwnd(struct sock *sk)
{
	gr_notify(sk, CCA_UNDO);
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* GR does not use ssthresh, because its core ends slow start itself. Returns it unchanged. */
static u32 gr_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

/* --- beginning and end of a connection ----------------------------------------- */

static void gr_begin(struct gr_kflow *f, struct sock *sk)
{
	const struct ccatune_params *params;
	struct cca_start start;

	ccatune_read_start(sk, &start);
	rcu_read_lock();
	params = ccatune_params(f->head.cca);
	gr_flow_init(&f->gr, (const struct gr_params *)params->value, &start,
		     ccatune_delay_class(f->head.cca, sk, ccatune_table(f->head.cca)),
		     f->head.hash, &f->decision);
	gr_record_start(f, &start, params);
	rcu_read_unlock();
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

static const char *const gr_modes[] = {
	[GR_SLOW_START] = "slow_start",
	[GR_CRUISE] = "cruise",
	[GR_DRAIN] = "drain",
};

static void gr_view(const struct ccatune_flow *flow, struct ccatune_view *view)
{
	const struct gr_kflow *f = container_of(flow, struct gr_kflow, head);
	u8 mode = READ_ONCE(f->gr.gr.mode);

	view->clock = &f->gr.ens.clock;
	view->params = &f->gr.params;
	view->mode = mode < ARRAY_SIZE(gr_modes) ? gr_modes[mode] : "-";
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
