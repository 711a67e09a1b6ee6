// SPDX-License-Identifier: GPL-2.0
/*
 * CUBIC (kmod/core/cubic.h) as a congestion control of Linux in BPF, beside the kernel's own. It
 * follows no table: it has no axes. A flow keeps the parameters that it began with.
 */
#define CCATUNE_ID CCA_ID_cubic

#include "ccatune.h"

#include "cubic.h"
#include "fallback.h"
#include "window.h"

struct cubic_kflow {
	struct ccatune_flow head;
	struct cubic_state cubic;
	struct cubic_params params;
};

CCATUNE_FLOWS(struct cubic_kflow)

SEC("struct_ops")
void BPF_PROG(cubic_bpf_init, struct sock *sk)
{
	struct cubic_kflow *f = ccatune_flow_new(sk, &flows, &blank) ? ccatune_flow_of(sk) : NULL;
	struct cca_start start;

	if (!f) {
		ccatune_fall_back(sk);
		return;
	}
	ccatune_flow_begin(&f->head, sk);
	ccatune_read_start(sk, &start);
	f->params = *(const struct cubic_params *)ccatune_flow_params(&f->head)->value;
	cubic_init(&f->cubic, &f->params, &start);
}

SEC("struct_ops")
void BPF_PROG(cubic_bpf_release, struct sock *sk)
{
	ccatune_flow_end(sk, &flows);
}

SEC("struct_ops")
void BPF_PROG(cubic_bpf_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct cubic_kflow *f = ccatune_flow_of(sk);
	struct cca_ack ack = {};
	struct cca_window w;

	if (!f)
		return;
	ack.now_us = tcp_sk(sk)->tcp_mstamp;
	ack.rtt_us = ccatune_rtt_us(sample->rtt_us);
	ack.inflight_pkts = tcp_packets_in_flight(tcp_sk(sk));
	ack.delivered_pkts = tcp_sk(sk)->delivered;
	ccatune_read_window(sk, &w);
	cubic_on_ack(&f->cubic, &f->params, &ack, &w);
	ccatune_write_window(sk, &w);
	ccatune_flow_note(&f->head, sk);
}

SEC("struct_ops")
void BPF_PROG(cubic_bpf_cong_avoid, struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	struct cubic_kflow *f = ccatune_flow_of(sk);
	struct cca_window w;

	if (!f) {
		ccatune_plain_grow(sk, acked_pkts);
		return;
	}
	if (!tcp_is_cwnd_limited(sk))
		return;
	ccatune_read_window(sk, &w);
	cubic_grow(&f->cubic, &f->params, &w, acked_pkts);
	ccatune_write_window(sk, &w);
}

SEC("struct_ops")
u32 BPF_PROG(cubic_bpf_ssthresh, struct sock *sk)
{
	struct cubic_kflow *f = ccatune_flow_of(sk);
	struct cca_window w;
	u32 ssthresh_pkts;

	if (!f)
		return tcp_reno_ssthresh(sk);
	ccatune_read_window(sk, &w);
	ssthresh_pkts = cubic_ssthresh(&f->cubic, &f->params, &w);
	tcp_sk(sk)->snd_cwnd_cnt = w.credit_pkts;
	return ssthresh_pkts;
}

SEC("struct_ops")
u32 BPF_PROG(cubic_bpf_undo_cwnd, struct sock *sk)
{
	struct cubic_kflow *f = ccatune_flow_of(sk);
	struct cca_window w;

	if (!f)
		return tcp_reno_undo_cwnd(sk);
	ccatune_read_window(sk, &w);
	return cubic_undo(&f->cubic, &w);
}

static inline void cubic_notify(struct sock *sk, enum cca_event_kind kind)
{
	struct cubic_kflow *f = ccatune_flow_of(sk);
	struct cca_event ev;

	if (!f)
		return;
	ccatune_read_event(sk, kind, &ev);
	cubic_on_event(&f->cubic, &ev);
}

/* The loss of a recovery reaches CUBIC through ssthresh. */
SEC("struct_ops")
void BPF_PROG(cubic_bpf_set_state, struct sock *sk, u8 new_state)
{
	enum cca_event_kind kind;

	if (new_state == TCP_CA_Loss && ccatune_read_state(sk, new_state, &kind))
		cubic_notify(sk, kind);
}

CCATUNE_TX_START(cubic_tx_start)
{
	enum cca_event_kind kind;

	if (ccatune_read_tx_start(sk, &kind))
		cubic_notify(sk, kind);
}

CCATUNE_PROG_TX_START(cubic_bpf_tx_start, cubic_tx_start)

SEC(".struct_ops")
struct tcp_congestion_ops ops = {
	.init = (void *)cubic_bpf_init,
	.release = (void *)cubic_bpf_release,
	.pkts_acked = (void *)cubic_bpf_pkts_acked,
	.cong_avoid = (void *)cubic_bpf_cong_avoid,
	.ssthresh = (void *)cubic_bpf_ssthresh,
	.undo_cwnd = (void *)cubic_bpf_undo_cwnd,
	.set_state = (void *)cubic_bpf_set_state,
	.CCATUNE_TX_START_OP = (void *)cubic_bpf_tx_start,
	.name = "ccatune_cubic",
};
