// SPDX-License-Identifier: GPL-2.0
/* ROCCET (kmod/core/roccet.h) as a congestion control of Linux in BPF. */
#define CCATUNE_ID CCA_ID_roccet

#include "ccatune.h"

#include "roccet_recording.h"

/* The core's large functions, each checked by the verifier once (ccatune.h). */
noinline int roccet_bpf_on_ack(struct roccet_flow *f, struct roccet_params *defaults,
			       struct ccatune_config *config, struct cca_ack *ack,
			       struct cca_window *w)
{
	if (f && defaults && ack && w)
		roccet_flow_on_ack(f, defaults, config ? &config->table.ens : NULL, ack, w);
	return 0;
}

noinline int roccet_bpf_recall(struct roccet_flow *f, struct roccet_params *defaults,
			       struct ccatune_config *config, u64 now_us)
{
	if (f && defaults)
		roccet_flow_recall(f, defaults, config ? &config->table.ens : NULL, now_us);
	return 0;
}

#define roccet_flow_on_ack(f, defaults, table, ack, w) \
	roccet_bpf_on_ack(f, (struct roccet_params *)(defaults), \
			  (struct ccatune_config *)(table), ack, w)
#define roccet_flow_recall(f, defaults, table, now_us) \
	roccet_bpf_recall(f, (struct roccet_params *)(defaults), \
			  (struct ccatune_config *)(table), now_us)

#include "fallback.h"
#include "roccet_ops.h"

CCATUNE_FLOWS(struct roccet_kflow)

static inline struct roccet_kflow *roccet_kflow_of(const struct sock *sk)
{
	return ccatune_flow_of(sk);
}

SEC("struct_ops")
void BPF_PROG(roccet_bpf_init, struct sock *sk)
{
	struct roccet_kflow *f = ccatune_flow_new(sk, &flows, &blank) ? roccet_kflow_of(sk) : NULL;

	if (!f) {
		ccatune_fall_back(sk);
		return;
	}
	ccatune_flow_begin(&f->head, sk);
	roccet_begin(f, sk);
}

SEC("struct_ops")
void BPF_PROG(roccet_bpf_release, struct sock *sk)
{
	ccatune_flow_end(sk, &flows);
}

SEC("struct_ops")
void BPF_PROG(roccet_bpf_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct roccet_kflow *f = roccet_kflow_of(sk);

	roccet_pkts_acked(sk, sample);
	if (f)
		ccatune_flow_note(&f->head, sk);
}

SEC("struct_ops")
void BPF_PROG(roccet_bpf_cong_avoid, struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	if (roccet_kflow_of(sk))
		roccet_cong_avoid(sk, ack_seq, acked_pkts);
	else
		ccatune_plain_grow(sk, acked_pkts);
}

SEC("struct_ops")
u32 BPF_PROG(roccet_bpf_ssthresh, struct sock *sk)
{
	return roccet_threshold(sk);
}

SEC("struct_ops")
u32 BPF_PROG(roccet_bpf_undo_cwnd, struct sock *sk)
{
	return roccet_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(roccet_bpf_set_state, struct sock *sk, u8 new_state)
{
	roccet_set_state(sk, new_state);
}

CCATUNE_PROG_TX_START(roccet_bpf_tx_start, roccet_tx_start)

SEC(".struct_ops")
struct tcp_congestion_ops ops = {
	.init = (void *)roccet_bpf_init,
	.release = (void *)roccet_bpf_release,
	.pkts_acked = (void *)roccet_bpf_pkts_acked,
	.cong_avoid = (void *)roccet_bpf_cong_avoid,
	.ssthresh = (void *)roccet_bpf_ssthresh,
	.undo_cwnd = (void *)roccet_bpf_undo_cwnd,
	.set_state = (void *)roccet_bpf_set_state,
	.CCATUNE_TX_START_OP = (void *)roccet_bpf_tx_start,
	.name = "roccet",
};
