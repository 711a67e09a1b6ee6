// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_roccet.ko: ROCCET (kmod/core/roccet.h) as a congestion control of Linux, in window mode:
 * the kernel requests growth, threshold and undo, and does loss recovery itself. An ACK may lower
 * the window. The flow's state is allocated when the connection begins. A socket without a flow
 * runs CUBIC, under the name roccet-plain (plain.h).
 *
 * An ECN mark and a full local queue count as a loss.
 */
#include <linux/module.h>
#include <linux/seq_file.h>

#define CCATUNE_PLAIN_NAME "roccet-plain"

#include "offer.h"
#include "plain.h"
#include "roccet_recording.h"
#include "window.h"

struct roccet_sock {
	struct roccet_kflow *flow;
};

struct roccet_kflow {
	struct ccatune_flow head;
	struct roccet_flow roccet;
	struct ccatune_told told;
	u32 queueing_delay_us;
};

static struct ccatune_algorithm roccet_algorithm;

static struct roccet_kflow *roccet_kflow_of(const struct sock *sk)
{
	return ((struct roccet_sock *)inet_csk_ca(sk))->flow;
}

/* --- recording ----------------------------------------------------------------- */

static void roccet_record_start(struct roccet_kflow *f, const struct cca_start *start,
				const struct ccatune_params *params)
{
	struct ccatune_recording *recording = ccatune_recording(&f->head);
	struct rec_record r;

	if (!recording)
		return;
	ccatune_record_params(recording, params, CCA_ID_roccet);
	rec_init(&r, REC_START, f->head.recorded_as, start->now_us);
	rec_put_start(&r, start, f->roccet.ens.clock.delay_class, f->head.hash, params->version);
	roccet_put_outcome(&r, &f->roccet);
	ccatune_record(recording, &r);
}

/* before, after: the window before and after the ACK. */
static void roccet_record_ack(struct roccet_kflow *f, const struct cca_ack *ack,
			      const struct cca_window *before, const struct cca_window *after,
			      const struct ccatune_table *table,
			      const struct ccatune_params *params)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	recording = ccatune_begin_record(&f->head, &r, REC_TOLD);
	if (!recording)
		return;
	ens_flow_put_ack(&r, &f->roccet.ens, ack, table ? table->ens.generation : 0,
			 params->version);
	roccet_put_windows(&r, before, after);
	roccet_put_outcome(&r, &f->roccet);
	if (f->roccet.ens.turn != ENS_WAITED) {
		ccatune_record_table(recording, table);
		ccatune_record_params(recording, params, CCA_ID_roccet);
	}
	ccatune_record(recording, &r);
}

static void roccet_record_event(struct roccet_kflow *f, const struct cca_event *ev)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_begin_record(&f->head, &r, REC_EVENT);
	if (recording) {
		rec_put_event(&r, ev);
		roccet_put_outcome(&r, &f->roccet);
		ccatune_record(recording, &r);
	}
	rcu_read_unlock();
}

/* --- calls from the kernel ------------------------------------------------------- */

static void roccet_turned(struct roccet_kflow *f, struct ccatune_table *table, u64 now_us)
{
	const struct ens_flow *ens = &f->roccet.ens;

	ccatune_flow_epoch_ended(&f->head, &ens->clock, table, now_us, ens->turn, ens->held_back);
}

/*
 * Makes the flow follow a recall of rows, if there was one. Call this under rcu_read_lock(),
 * before an ACK or a transmission.
 */
static void roccet_follow_recall(struct roccet_kflow *f, u64 now_us)
{
	const struct ccatune_params *params;
	struct ccatune_table *table;

	if (likely(!ccatune_is_recalled(&f->head)))
		return;
	table = ccatune_table(f->head.cca);
	params = ccatune_params(f->head.cca);
	ens_flow_set_class(&f->roccet.ens, ccatune_delay_class(f->head.cca, f->head.sk, table));
	roccet_flow_recall(&f->roccet, (const struct roccet_params *)params->value,
			   table ? &table->ens : NULL, now_us);
	ccatune_flow_recalled(&f->head, &f->roccet.ens, &f->roccet.params, table, params, now_us);
}

static void roccet_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	const struct ccatune_params *params;
	struct ccatune_table *table;
	struct cca_window before, w;
	struct cca_ack ack;

	if (!f || !ccatune_read_told(sk, &f->told, sample, &ack))
		return;
	ccatune_read_window(sk, &before);
	w = before;
	rcu_read_lock();
	roccet_follow_recall(f, ack.now_us);
	table = ccatune_table(f->head.cca);
	params = ccatune_params(f->head.cca);
	ens_flow_set_class(&f->roccet.ens, ccatune_delay_class(f->head.cca, sk, table));
	roccet_flow_on_ack(&f->roccet, (const struct roccet_params *)params->value,
			   table ? &table->ens : NULL, &ack, &w);
	if (ack.rtt_us)
		f->queueing_delay_us = roccet_queueing_delay_us(&f->roccet.roccet, ack.rtt_us);
	ccatune_flow_sample(&f->head, &ack, f->queueing_delay_us);
	if (f->roccet.ens.turn != ENS_WAITED)
		roccet_turned(f, table, ack.now_us);
	roccet_record_ack(f, &ack, &before, &w, table, params);
	rcu_read_unlock();
	ccatune_write_window(sk, &w);
}

static void roccet_cong_avoid(struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	struct cca_window before, w;

	/* The window grows only if it limited the sender. */
	if (!f || !tcp_is_cwnd_limited(sk))
		return;
	ccatune_read_window(sk, &before);
	w = before;
	roccet_flow_grow(&f->roccet, &w, acked_pkts);
	ccatune_write_window(sk, &w);
	ccatune_record_asked(&f->head, REC_GROW, &before, &w, acked_pkts, 0);
}

static u32 roccet_threshold(struct sock *sk)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	struct cca_window before, w;
	u32 result;

	if (!f)
		return tcp_reno_ssthresh(sk);
	ccatune_read_window(sk, &before);
	w = before;
	result = roccet_flow_ssthresh(&f->roccet, &w);
	tcp_sk(sk)->snd_cwnd_cnt = w.credit_pkts;
	ccatune_record_asked(&f->head, REC_SSTHRESH, &before, &w, 0, result);
	return result;
}

static void roccet_notify(struct sock *sk, enum cca_event_kind kind)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	struct cca_event ev;

	if (!f)
		return;
	ccatune_read_event(sk, kind, &ev);
	roccet_flow_on_event(&f->roccet, &ev);
	roccet_record_event(f, &ev);
}

static u32 roccet_undo_cwnd(struct sock *sk)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	struct cca_window w;
	u32 result;

	if (!f)
		return tcp_reno_undo_cwnd(sk);
	ccatune_read_window(sk, &w);
	result = roccet_flow_undo(&f->roccet, &w);
	ccatune_record_asked(&f->head, REC_UNDO, &w, &w, 0, result);
	roccet_notify(sk, CCA_UNDO);
	return result;
}

static void roccet_set_state(struct sock *sk, u8 new_state)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	enum cca_event_kind kind;

	if (f && ccatune_read_window_state(sk, &f->told, new_state, &kind))
		roccet_notify(sk, kind);
}

CCATUNE_TX_START(roccet_tx_start)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);
	enum cca_event_kind kind;

	if (!f)
		return;
	rcu_read_lock();
	roccet_follow_recall(f, tcp_sk(sk)->tcp_mstamp);
	rcu_read_unlock();
	if (ccatune_read_tx_start(sk, &kind))
		roccet_notify(sk, kind);
}

/* --- beginning and end of a connection ------------------------------------------- */

static void roccet_begin(struct roccet_kflow *f, struct sock *sk)
{
	const struct ccatune_params *params;
	struct cca_start start;

	ccatune_read_start(sk, &start);
	ccatune_told_init(sk, &f->told);
	rcu_read_lock();
	params = ccatune_params(f->head.cca);
	roccet_flow_init(&f->roccet, (const struct roccet_params *)params->value, &start,
			 ccatune_delay_class(f->head.cca, sk, ccatune_table(f->head.cca)),
			 f->head.hash);
	roccet_record_start(f, &start, params);
	rcu_read_unlock();
	/*
	 * If the socket changes its algorithm during a recovery, the kernel controls the window
	 * until that ends.
	 */
	if (ccatune_is_reduced(inet_csk(sk)->icsk_ca_state))
		roccet_notify(sk, CCA_RECOVERY_ENTERED);
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

static const char *roccet_mode(const struct roccet_state *s)
{
	static const char *const phases[] = {
		[ROCCET_NO_PHASE] = "waiting",
		[ROCCET_LAUNCH] = "launch",
		[ROCCET_ORBITER] = "orbiter",
	};
	u8 phase = READ_ONCE(s->phase);

	if (READ_ONCE(s->in_recovery))
		return "recovery";
	if (READ_ONCE(s->drains))
		return "drain";
	return phase < ARRAY_SIZE(phases) ? phases[phase] : "-";
}

static void roccet_view(const struct ccatune_flow *flow, struct ccatune_view *view)
{
	const struct roccet_kflow *f = container_of(flow, struct roccet_kflow, head);

	view->clock = &f->roccet.ens.clock;
	view->params = &f->roccet.params;
	view->mode = roccet_mode(&f->roccet.roccet);
	view->min_rtt_us = READ_ONCE(f->roccet.roccet.min_rtt_us);
	view->queueing_delay_us = READ_ONCE(f->queueing_delay_us);
}

/*
 * srrtt_q16 is at most 2^28, so the product fits into 64 bits. The sums are those of the current
 * interval, up to the end of its last round trip.
 */
static void roccet_show(struct seq_file *m, const struct ccatune_flow *flow)
{
	const struct roccet_kflow *f = container_of(flow, struct roccet_kflow, head);
	const struct roccet_state *s = &f->roccet.roccet;

	seq_printf(m, " srrtt_permille=%llu jitter_us=%u",
		   ((u64)READ_ONCE(s->srrtt_q16) * 1000) >> 16, READ_ONCE(s->jitter_us_q4) >> 4);
	seq_printf(m, " interval_acked_pkts=%llu interval_windows_pkts=%llu launches=%u events=%u",
		   READ_ONCE(s->acked_q8) >> 8, READ_ONCE(s->windows_q8) >> 8,
		   READ_ONCE(s->launches), READ_ONCE(s->events));
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
