// SPDX-License-Identifier: GPL-2.0
/*
 * An algorithm as a congestion control of Linux in BPF. The Makefile compiles this for each
 * algorithm, with CCATUNE_ALGORITHM and CCATUNE_ADAPTER, the file of its adapter.
 */
#include "ccatune.h"

#include CCATUNE_ADAPTER
#include "fallback.h"

CCATUNE_FLOWS(struct alg_flow)

/* `ss` shows no values, because BPF has no operation get_info. */
#define alg_copy_info(sk, f) do { } while (0)

#include "mode_ops.h"

SEC("struct_ops")
void BPF_PROG(alg_prog_init, struct sock *sk)
{
	struct alg_flow *f = ccatune_flow_new(sk, &flows, &blank) ? alg_flow_of(sk) : NULL;

	if (!f) {
		ccatune_fall_back(sk);
		return;
	}
	ccatune_flow_begin(&f->head, sk);
	ops_open(sk, f);
}

SEC("struct_ops")
void BPF_PROG(alg_prog_release, struct sock *sk)
{
#ifdef ALG_HAS_CLIENT
	struct alg_flow *f = alg_flow_of(sk);

	if (f)
		alg_leave(f, sk);
#endif
	ccatune_flow_end(sk, &flows);
}

SEC("struct_ops")
u32 BPF_PROG(alg_prog_ssthresh, struct sock *sk)
{
	return ops_ssthresh(sk);
}

SEC("struct_ops")
u32 BPF_PROG(alg_prog_undo_cwnd, struct sock *sk)
{
	return ops_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(alg_prog_set_state, struct sock *sk, u8 new_state)
{
	ops_set_state(sk, new_state);
}

CCATUNE_PROG_TX_START(alg_prog_tx_start, ops_tx_start)

#if ALG_WINDOW

SEC("struct_ops")
void BPF_PROG(alg_prog_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	ops_pkts_acked(sk, sample);
}

SEC("struct_ops")
void BPF_PROG(alg_prog_cong_avoid, struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	ops_cong_avoid(sk, ack_seq, acked_pkts);
}

#else

CCATUNE_PROG_CONG_CONTROL(alg_prog_cong_control, ops_cong_control)

#endif

#ifdef ALG_LOOKS_WITH_ACKS

SEC("struct_ops")
u32 BPF_PROG(alg_prog_min_tso_segs, struct sock *sk)
{
	return ops_min_tso_segs(sk);
}

SEC("struct_ops")
u32 BPF_PROG(alg_prog_sndbuf_expand, struct sock *sk)
{
	return ops_sndbuf_expand(sk);
}

#endif

SEC(".struct_ops")
struct tcp_congestion_ops ops = {
	.init = (void *)alg_prog_init,
	.release = (void *)alg_prog_release,
#if ALG_WINDOW
	.pkts_acked = (void *)alg_prog_pkts_acked,
	.cong_avoid = (void *)alg_prog_cong_avoid,
#else
	.cong_control = (void *)alg_prog_cong_control,
#endif
	.ssthresh = (void *)alg_prog_ssthresh,
	.undo_cwnd = (void *)alg_prog_undo_cwnd,
	.set_state = (void *)alg_prog_set_state,
	.CCATUNE_TX_START_OP = (void *)alg_prog_tx_start,
#ifdef ALG_LOOKS_WITH_ACKS
	.min_tso_segs = (void *)alg_prog_min_tso_segs,
	.sndbuf_expand = (void *)alg_prog_sndbuf_expand,
#endif
#define CCA_ONLY CCATUNE_ID
#define CCA_ALGORITHM(algorithm, mode, host, meaning) \
	.name = CCATUNE_NAMED_##host(algorithm),
#include "params.def"
};
