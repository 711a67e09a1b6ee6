// SPDX-License-Identifier: GPL-2.0
/*
 * TCP Vegas (kmod/core/vegas.h) as a congestion control of Linux in BPF. The kernel's own module
 * may have the name `vegas`, and is another algorithm. It follows no table: it has no axes. A flow
 * keeps the parameters that it began with.
 */
#define CCATUNE_ID CCA_ID_vegas

#include "ccatune.h"

#include "fallback.h"
#include "vegas.h"
#include "window.h"

struct vegas_kflow {
	struct ccatune_flow head;
	struct vegas_state vegas;
	struct vegas_params params;
};

CCATUNE_FLOWS(struct vegas_kflow)

SEC("struct_ops")
void BPF_PROG(vegas_bpf_init, struct sock *sk)
{
	struct vegas_kflow *f = ccatune_flow_new(sk, &flows, &blank) ? ccatune_flow_of(sk) : NULL;

	if (!f) {
		ccatune_fall_back(sk);
		return;
	}
	ccatune_flow_begin(&f->head, sk);
	f->params = *(const struct vegas_params *)ccatune_flow_params(&f->head)->value;
	vegas_init(&f->vegas);
}

SEC("struct_ops")
void BPF_PROG(vegas_bpf_release, struct sock *sk)
{
	ccatune_flow_end(sk, &flows);
}

SEC("struct_ops")
void BPF_PROG(vegas_bpf_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct vegas_kflow *f = ccatune_flow_of(sk);
	struct cca_ack ack = {};

	if (!f)
		return;
	ack.now_us = tcp_sk(sk)->tcp_mstamp;
	ack.rtt_us = ccatune_rtt_us(sample->rtt_us);
	ack.inflight_pkts = tcp_packets_in_flight(tcp_sk(sk));
	ack.delivered_pkts = tcp_sk(sk)->delivered;
	vegas_on_ack(&f->vegas, &ack);
	ccatune_flow_note(&f->head, sk);
}

SEC("struct_ops")
void BPF_PROG(vegas_bpf_cong_avoid, struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	struct vegas_kflow *f = ccatune_flow_of(sk);
	struct cca_window w;

	if (!f) {
		ccatune_plain_grow(sk, acked_pkts);
		return;
	}
	if (!tcp_is_cwnd_limited(sk))
		return;
	ccatune_read_window(sk, &w);
	vegas_grow(&f->vegas, &f->params, &w, acked_pkts);
	ccatune_write_window(sk, &w);
}

SEC("struct_ops")
u32 BPF_PROG(vegas_bpf_ssthresh, struct sock *sk)
{
	struct vegas_kflow *f = ccatune_flow_of(sk);
	struct cca_window w;

	if (!f)
		return tcp_reno_ssthresh(sk);
	ccatune_read_window(sk, &w);
	return vegas_ssthresh(&f->vegas, &w);
}

SEC("struct_ops")
u32 BPF_PROG(vegas_bpf_undo_cwnd, struct sock *sk)
{
	struct vegas_kflow *f = ccatune_flow_of(sk);
	struct cca_window w;

	if (!f)
		return tcp_reno_undo_cwnd(sk);
	ccatune_read_window(sk, &w);
	return vegas_undo(&f->vegas, &w);
}

static inline void vegas_notify(struct sock *sk, enum cca_event_kind kind)
{
	struct vegas_kflow *f = ccatune_flow_of(sk);
	struct cca_event ev;

	if (!f)
		return;
	ccatune_read_event(sk, kind, &ev);
	vegas_on_event(&f->vegas, &ev);
}

SEC("struct_ops")
void BPF_PROG(vegas_bpf_set_state, struct sock *sk, u8 new_state)
{
	enum cca_event_kind kind;

	if (ccatune_read_state(sk, new_state, &kind))
		vegas_notify(sk, kind);
}

CCATUNE_TX_START(vegas_tx_start)
{
	enum cca_event_kind kind;

	if (ccatune_read_tx_start(sk, &kind))
		vegas_notify(sk, kind);
}

CCATUNE_PROG_TX_START(vegas_bpf_tx_start, vegas_tx_start)

SEC(".struct_ops")
struct tcp_congestion_ops ops = {
	.init = (void *)vegas_bpf_init,
	.release = (void *)vegas_bpf_release,
	.pkts_acked = (void *)vegas_bpf_pkts_acked,
	.cong_avoid = (void *)vegas_bpf_cong_avoid,
	.ssthresh = (void *)vegas_bpf_ssthresh,
	.undo_cwnd = (void *)vegas_bpf_undo_cwnd,
	.set_state = (void *)vegas_bpf_set_state,
	.CCATUNE_TX_START_OP = (void *)vegas_bpf_tx_start,
	.name = "ccatune_vegas",
};
