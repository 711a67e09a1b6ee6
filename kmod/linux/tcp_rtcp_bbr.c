// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_rtcp_bbr.ko: BBR version 1 whose pacing R-TCP caps behind a rate limiter
 * (kmod/core/rtcp.h), as a congestion control of Linux, in control mode: every ACK sets pacing
 * rate and cwnd. What is known of the limiter is the client's (tcp_rtcp.h), whose lock is held
 * while the core runs. The flow's state is allocated when the connection begins. A socket for
 * which there is no memory is Reno's, under the name rtcp_bbr-plain.
 *
 * As the kernel's own BBR it asks with each ACK whether there is a recovery: one that ends and
 * begins anew within an ACK has gone on, and what begins is told ahead of the ACK that shows it.
 */
#include <linux/module.h>
#include <linux/seq_file.h>

#include "sock.h"
#include "tcp_rtcp.h"

/* Below 1.2 Mbit/s a burst is one packet, so that pacing stays even. */
#define RTCP_BBR_SINGLE_BELOW 150000u	/* bytes/s */
#define RTCP_BBR_SNDBUF_WINDOWS 3u	/* BBR may double its window in recovery, too */

struct rtcp_bbr_kflow {
	struct rtcp_kflow shared;
	struct rtcp_bbr1_flow bbr;
	struct cca_decision decision;
	u8 seen_state;			/* of the kernel's, at the last ACK or timeout */
};

static struct ccatune_algorithm rtcp_bbr_algorithm;

/* NULL for a socket that has none. */
static struct rtcp_bbr_kflow *rtcp_bbr_of(const struct sock *sk)
{
	struct rtcp_kflow *shared = rtcp_kflow_of(sk);

	return shared ? container_of(shared, struct rtcp_bbr_kflow, shared) : NULL;
}

static struct rtcp_client *rtcp_bbr_lock(struct rtcp_bbr_kflow *f,
					 struct ccatune_recording *recording)
	__acquires(&f->shared.member)
{
	return rtcp_member_lock(&f->shared.member, recording, false);
}

static void rtcp_bbr_unlock(struct rtcp_bbr_kflow *f)
	__releases(&f->shared.member)
{
	rtcp_member_unlock(&f->shared.member);
}

/* --- recording: with the client's lock, so that records are in the order of events --- */

static void rtcp_bbr_record(struct rtcp_bbr_kflow *f, const struct rtcp_client *c,
			    struct ccatune_recording *recording, struct rec_record *r)
{
	rtcp_kflow_record(&f->shared, &f->bbr.state.flow, c, recording, r);
}

static void rtcp_bbr_record_start(struct rtcp_bbr_kflow *f, const struct rtcp_client *c,
				  struct ccatune_recording *recording,
				  const struct cca_start *start, u32 waiting_bytes,
				  const struct ccatune_params *params)
{
	struct rec_record r;

	if (!recording)
		return;
	ccatune_record_params(recording, params, CCA_ID_rtcp_bbr);
	rec_init(&r, REC_START, f->shared.head.recorded_as, start->now_us);
	rec_put_start(&r, start, f->bbr.ens.flow.clock.delay_class, f->shared.head.hash,
		      params->version);
	r.word[RTCP_REC_START_WAITING] = waiting_bytes;
	rtcp_bbr1_put_outcome(&r, &f->bbr, c, &f->decision);
	rtcp_bbr_record(f, c, recording, &r);
}

static void rtcp_bbr_record_ack(struct rtcp_bbr_kflow *f, const struct rtcp_client *c,
				struct ccatune_recording *recording, const struct cca_ack *ack,
				u32 waiting_bytes, const struct ccatune_table *table,
				const struct ccatune_params *params)
{
	const struct ens_flow *ens = &f->bbr.ens.flow;
	struct rec_record r;

	if (!recording)
		return;
	rec_init(&r, REC_ACK, f->shared.head.recorded_as, ack->now_us);
	ens_flow_put_ack(&r, ens, ack, table ? table->ens.generation : 0, params->version);
	r.word[RTCP_REC_WAITING] = waiting_bytes;
	rtcp_bbr1_put_outcome(&r, &f->bbr, c, &f->decision);
	if (ens->turn != ENS_WAITED) {
		ccatune_record_table(recording, table);
		ccatune_record_params(recording, params, CCA_ID_rtcp_bbr);
	}
	rtcp_bbr_record(f, c, recording, &r);
}

/* --- events ------------------------------------------------------------------------ */

static void rtcp_bbr_tell(struct sock *sk, enum cca_event_kind kind)
{
	struct rtcp_bbr_kflow *f = rtcp_bbr_of(sk);
	struct ccatune_recording *recording;
	struct rtcp_client *c;
	struct cca_event ev;
	struct rec_record r;

	if (!f)
		return;
	ccatune_read_event(sk, kind, &ev);
	rcu_read_lock();
	recording = ccatune_recording(&f->shared.head);
	c = rtcp_bbr_lock(f, recording);
	rtcp_bbr1_flow_on_event(&f->bbr, c, &ev, &f->decision);
	if (recording) {
		rec_init(&r, REC_EVENT, f->shared.head.recorded_as, ev.now_us);
		rec_put_event(&r, &ev);
		rtcp_bbr1_put_outcome(&r, &f->bbr, c, &f->decision);
		rtcp_bbr_record(f, c, recording, &r);
	}
	rtcp_bbr_unlock(f);
	rcu_read_unlock();
	ccatune_apply(sk, &f->decision);
}

/* A recovery that began or ended since the last ACK. */
static void rtcp_bbr_look(struct sock *sk, struct rtcp_bbr_kflow *f)
{
	u8 state = inet_csk(sk)->icsk_ca_state, seen = f->seen_state;

	f->seen_state = state;
	if (state == TCP_CA_Recovery && seen != TCP_CA_Recovery)
		rtcp_bbr_tell(sk, CCA_RECOVERY_ENTERED);
	else if (state < TCP_CA_Recovery && seen >= TCP_CA_Recovery)
		rtcp_bbr_tell(sk, CCA_RECOVERY_LEFT);
}

static void rtcp_bbr_take_ack(struct rtcp_bbr_kflow *f, const struct cca_ack *ack,
			      const struct ccatune_table *table,
			      const struct ccatune_params *params)
{
	struct ccatune_recording *recording = ccatune_recording(&f->shared.head);
	u32 waiting_bytes = rtcp_waiting_bytes(f->shared.head.sk);
	struct rtcp_client *c = rtcp_bbr_lock(f, recording);
	bool moves;

	rtcp_flow_weigh(&f->bbr.state.flow, c, waiting_bytes);
	rtcp_bbr1_flow_on_ack(&f->bbr, c, (const struct rtcp_params *)params->value,
			      table ? &table->ens : NULL, ack, &f->decision);
	if (ack->rtt_us)
		f->shared.queueing_delay_us = rtcp_queueing_delay_us(c, ack->rtt_us);
	rtcp_bbr_record_ack(f, c, recording, ack, waiting_bytes, table, params);
	moves = rtcp_kflow_moves(&f->shared, &f->bbr.state.flow, c, ack->now_us);
	rtcp_bbr_unlock(f);
	if (unlikely(moves))
		rtcp_member_part(&f->shared.member);
}

CCATUNE_CONG_CONTROL(rtcp_bbr_main)
{
	struct rtcp_bbr_kflow *f = rtcp_bbr_of(sk);
	const struct ccatune_params *params;
	struct ccatune_flow *head;
	struct ccatune_table *table;
	struct ens_flow *ens;
	struct cca_ack ack;

	if (!f)
		return;
	rtcp_bbr_look(sk, f);
	head = &f->shared.head;
	ens = &f->bbr.ens.flow;
	if (!ccatune_read_ack(head, rs, &ack))
		return;
	rcu_read_lock();
	table = ccatune_table(head->cca);
	params = ccatune_params(head->cca);
	ens_flow_set_class(ens, ccatune_delay_class(head->cca, sk, table));
	rtcp_bbr_take_ack(f, &ack, table, params);
	ccatune_flow_sample(head, &ack, f->shared.queueing_delay_us);
	if (ens->turn != ENS_WAITED)
		ccatune_flow_turned(head, &ens->clock, table, ack.now_us, ens->turn,
				    ens->held_back);
	rcu_read_unlock();
	rtcp_copy_info(sk, &f->shared, &f->bbr.state.flow, &f->bbr.params.rtcp);
	ccatune_apply(sk, &f->decision);
}

/* A timeout is told at once, what else begins and ends with the next ACK. */
static void rtcp_bbr_set_state(struct sock *sk, u8 new_state)
{
	struct rtcp_bbr_kflow *f = rtcp_bbr_of(sk);
	enum cca_event_kind kind;

	if (!f || new_state != TCP_CA_Loss || !ccatune_read_state(sk, new_state, &kind))
		return;
	f->seen_state = TCP_CA_Loss;
	rtcp_bbr_tell(sk, kind);
}

static void rtcp_bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct rtcp_bbr_kflow *f = rtcp_bbr_of(sk);
	enum cca_event_kind kind;

	if (f && event == CA_EVENT_TX_START && rtcp_read_tx_start(sk, &f->bbr.state.flow, &kind))
		rtcp_bbr_tell(sk, kind);
}

/* The episode is over with it: its end is not told once more. */
static u32 rtcp_bbr_undo_cwnd(struct sock *sk)
{
	struct rtcp_bbr_kflow *f = rtcp_bbr_of(sk);

	if (f)
		f->seen_state = TCP_CA_Open;
	rtcp_bbr_tell(sk, CCA_UNDO);
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* BBR has no threshold: what the kernel keeps stays. */
static u32 rtcp_bbr_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 rtcp_bbr_min_tso_segs(struct sock *sk)
{
	return READ_ONCE(sk->sk_pacing_rate) < RTCP_BBR_SINGLE_BELOW ? 1 : 2;
}

static u32 rtcp_bbr_sndbuf_expand(struct sock *sk)
{
	return RTCP_BBR_SNDBUF_WINDOWS;
}

/* --- a connection's beginning and end ---------------------------------------------- */

static struct tcp_congestion_ops rtcp_bbr_plain_ops = {
	.name = "rtcp_bbr-plain",
	.owner = THIS_MODULE,
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
};

/* Without data the flow rests. */
static void rtcp_bbr_begin(struct rtcp_bbr_kflow *f, struct sock *sk)
{
	struct ccatune_flow *head = &f->shared.head;
	u32 waiting_bytes = rtcp_waiting_bytes(sk);
	struct ccatune_recording *recording;
	const struct ccatune_params *params;
	struct cca_start start;
	struct rtcp_client *c;

	ccatune_read_start(sk, &start);
	f->seen_state = TCP_CA_Open;
	rtcp_member_join(&f->shared.member, sk, start.now_us);
	rcu_read_lock();
	recording = ccatune_recording(head);
	params = ccatune_params(head->cca);
	c = rtcp_member_lock(&f->shared.member, recording, true);
	rtcp_bbr1_flow_init(&f->bbr, c, (const struct rtcp_params *)params->value, &start,
			    ccatune_delay_class(head->cca, sk, ccatune_table(head->cca)),
			    head->hash, &f->decision);
	rtcp_flow_weigh(&f->bbr.state.flow, c, waiting_bytes);
	rtcp_bbr_record_start(f, c, recording, &start, waiting_bytes, params);
	rtcp_bbr_unlock(f);
	rcu_read_unlock();
}

static void rtcp_bbr_open(struct sock *sk)
{
	struct rtcp_sock *own = inet_csk_ca(sk);
	struct ccatune_flow *head = ccatune_flow_start(&rtcp_bbr_algorithm, sk);
	struct rtcp_bbr_kflow *f;

	memset(own, 0, sizeof(*own));
	if (!head) {
		/* Of the same owner: the module's reference is given back as it was taken. */
		WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &rtcp_bbr_plain_ops);
		return;
	}
	f = container_of(head, struct rtcp_bbr_kflow, shared.head);
	own->flow = &f->shared;
	rtcp_bbr_begin(f, sk);
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	rtcp_copy_info(sk, &f->shared, &f->bbr.state.flow, &f->bbr.params.rtcp);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	ccatune_apply(sk, &f->decision);
}

static void rtcp_bbr_release(struct sock *sk)
{
	struct rtcp_bbr_kflow *f = rtcp_bbr_of(sk);

	if (f)
		rtcp_kflow_end(sk, &f->shared, &f->bbr.state.flow);
}

/* --- what it says of itself -------------------------------------------------------- */

static const char *const rtcp_bbr_modes[] = {
	[BBR1_STARTUP] = "startup",
	[BBR1_DRAIN] = "drain",
	[BBR1_PROBE_BW] = "probe_bw",
	[BBR1_PROBE_RTT] = "probe_rtt",
};

static void rtcp_bbr_view(const struct ccatune_flow *flow, struct ccatune_view *view)
{
	const struct rtcp_bbr_kflow *f = container_of(flow, struct rtcp_bbr_kflow, shared.head);

	rtcp_view(&f->shared, &f->bbr.state.flow, &f->bbr.ens, &f->bbr.params.rtcp, view);
	view->pacing_bytes_per_s = READ_ONCE(f->decision.pacing_bytes_per_s);
}

static void rtcp_bbr_show(struct seq_file *m, const struct ccatune_flow *flow)
{
	const struct rtcp_bbr_kflow *f = container_of(flow, struct rtcp_bbr_kflow, shared.head);
	u8 mode = READ_ONCE(f->bbr.state.base.mode);

	rtcp_show(m, &f->shared, &f->bbr.state.flow, &f->bbr.params.rtcp);
	seq_printf(m, " bbr=%s", mode < ARRAY_SIZE(rtcp_bbr_modes) ? rtcp_bbr_modes[mode] : "-");
}

static struct tcp_congestion_ops rtcp_bbr_ops __read_mostly = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "rtcp_bbr",
	.owner = THIS_MODULE,
	.init = rtcp_bbr_open,
	.release = rtcp_bbr_release,
	.cong_control = rtcp_bbr_main,
	.set_state = rtcp_bbr_set_state,
	.cwnd_event = rtcp_bbr_cwnd_event,
	.undo_cwnd = rtcp_bbr_undo_cwnd,
	.ssthresh = rtcp_bbr_ssthresh,
	.min_tso_segs = rtcp_bbr_min_tso_segs,
	.sndbuf_expand = rtcp_bbr_sndbuf_expand,
	.get_info = rtcp_get_info,
};

/* --- the module -------------------------------------------------------------------- */

static int __net_init rtcp_bbr_net_init(struct net *net)
{
	return rtcp_register_net(net, &rtcp_bbr_algorithm);
}

static void __net_exit rtcp_bbr_net_pre_exit(struct net *net)
{
	ccatune_net_pre_exit(net, &rtcp_bbr_algorithm);
}

static void __net_exit rtcp_bbr_net_exit(struct net *net)
{
	ccatune_net_exit(net, &rtcp_bbr_algorithm);
}

static struct ccatune_algorithm rtcp_bbr_algorithm = {
	.id = CCA_ID_rtcp_bbr,
	.cache_name = "ccatune_rtcp_bbr_flow",
	.flow_bytes = sizeof(struct rtcp_bbr_kflow),
	.view = rtcp_bbr_view,
	.show = rtcp_bbr_show,
	.net_ops = {
		.init = rtcp_bbr_net_init,
		.pre_exit = rtcp_bbr_net_pre_exit,
		.exit = rtcp_bbr_net_exit,
		.id = &rtcp_bbr_algorithm.net_id,
		.size = sizeof(struct ccatune_cca *),
	},
};

static int __init rtcp_bbr_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct rtcp_sock) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(offsetof(struct rtcp_bbr_kflow, shared.head));
	err = ccatune_register(&rtcp_bbr_algorithm);
	if (err)
		return err;
	err = tcp_register_congestion_control(&rtcp_bbr_ops);
	if (err)
		ccatune_unregister(&rtcp_bbr_algorithm);
	return err;
}

static void __exit rtcp_bbr_unregister(void)
{
	tcp_unregister_congestion_control(&rtcp_bbr_ops);
	ccatune_unregister(&rtcp_bbr_algorithm);
}

module_init(rtcp_bbr_register);
module_exit(rtcp_bbr_unregister);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);
MODULE_DESCRIPTION("TCP R-TCP over BBR: pacing that stays within a client's rate limit");
