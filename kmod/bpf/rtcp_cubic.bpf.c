// SPDX-License-Identifier: GPL-2.0
/*
 * R-TCP over CUBIC (kmod/core/rtcp.h) as a congestion control of Linux in BPF. Each connection has a
 * client of its own.
 */
#define CCATUNE_ID CCA_ID_rtcp_cubic

#include "ccatune.h"

#include "rtcp_parts.h"

noinline int rtcp_cubic_bpf_on_ack(struct rtcp_cubic_kflow *f, struct rtcp_params *defaults,
				   struct ccatune_config *config, struct cca_ack *ack,
				   struct cca_window *w)
{
	if (f && defaults && ack && w)
		rtcp_cubic_flow_on_ack(&f->cubic, &f->shared.member.own, defaults,
				       config ? &config->table.ens : NULL, ack, w);
	return 0;
}

#define rtcp_cubic_flow_on_ack(flow, c, defaults, table, ack, w) \
	rtcp_cubic_bpf_on_ack(container_of(flow, struct rtcp_cubic_kflow, cubic), \
			      (struct rtcp_params *)(defaults), \
			      (struct ccatune_config *)(table), ack, w)

/* Of the flow's members that rtcp_ens_recall() takes one by one: five arguments are the most. */
noinline int rtcp_cubic_bpf_recall(struct rtcp_cubic_flow *f, struct rtcp_client *c,
				   struct rtcp_params *defaults, struct ccatune_config *config,
				   u64 now_us)
{
	if (f && c && defaults)
		rtcp_ens_recall(&f->ens, c, defaults, config ? &config->table.ens : NULL, now_us,
				&f->params.rtcp);
	return 0;
}

#define rtcp_ens_recall(e, c, defaults, table, now_us, set) \
	rtcp_cubic_bpf_recall(container_of(e, struct rtcp_cubic_flow, ens), \
			      (struct rtcp_client *)(c), (struct rtcp_params *)(defaults), \
			      (struct ccatune_config *)(table), now_us)

#include "fallback.h"
#include "rtcp_cubic_ops.h"

CCATUNE_FLOWS(struct rtcp_cubic_kflow)

static inline struct rtcp_cubic_kflow *rtcp_cubic_of(const struct sock *sk)
{
	return ccatune_flow_of(sk);
}

/* `ss` shows nothing: BPF has no get_info. */
static inline void rtcp_cubic_copy_info(struct sock *sk, const struct rtcp_cubic_kflow *f)
{
}

SEC("struct_ops")
void BPF_PROG(rtcp_cubic_bpf_init, struct sock *sk)
{
	struct rtcp_cubic_kflow *f = ccatune_flow_new(sk, &flows, &blank) ? rtcp_cubic_of(sk) : NULL;

	if (!f) {
		ccatune_fall_back(sk);
		return;
	}
	ccatune_flow_begin(&f->shared.head, sk);
	rtcp_cubic_begin(f, sk);
}

SEC("struct_ops")
void BPF_PROG(rtcp_cubic_bpf_release, struct sock *sk)
{
	struct rtcp_cubic_kflow *f = rtcp_cubic_of(sk);

	if (f)
		rtcp_kflow_leave(&f->shared, sk, &f->cubic.state.flow);
	ccatune_flow_end(sk, &flows);
}

SEC("struct_ops")
void BPF_PROG(rtcp_cubic_bpf_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct rtcp_cubic_kflow *f = rtcp_cubic_of(sk);

	rtcp_cubic_pkts_acked(sk, sample);
	if (f)
		ccatune_flow_note(&f->shared.head, sk);
}

SEC("struct_ops")
void BPF_PROG(rtcp_cubic_bpf_cong_avoid, struct sock *sk, u32 ack_seq, u32 acked_pkts)
{
	if (rtcp_cubic_of(sk))
		rtcp_cubic_cong_avoid(sk, ack_seq, acked_pkts);
	else
		ccatune_plain_grow(sk, acked_pkts);
}

SEC("struct_ops")
u32 BPF_PROG(rtcp_cubic_bpf_ssthresh, struct sock *sk)
{
	return rtcp_cubic_threshold(sk);
}

SEC("struct_ops")
u32 BPF_PROG(rtcp_cubic_bpf_undo_cwnd, struct sock *sk)
{
	return rtcp_cubic_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(rtcp_cubic_bpf_set_state, struct sock *sk, u8 new_state)
{
	rtcp_cubic_set_state(sk, new_state);
}

CCATUNE_PROG_TX_START(rtcp_cubic_bpf_tx_start, rtcp_cubic_tx_start)

SEC(".struct_ops")
struct tcp_congestion_ops ops = {
	.init = (void *)rtcp_cubic_bpf_init,
	.release = (void *)rtcp_cubic_bpf_release,
	.pkts_acked = (void *)rtcp_cubic_bpf_pkts_acked,
	.cong_avoid = (void *)rtcp_cubic_bpf_cong_avoid,
	.ssthresh = (void *)rtcp_cubic_bpf_ssthresh,
	.undo_cwnd = (void *)rtcp_cubic_bpf_undo_cwnd,
	.set_state = (void *)rtcp_cubic_bpf_set_state,
	.CCATUNE_TX_START_OP = (void *)rtcp_cubic_bpf_tx_start,
	.name = "rtcp_cubic",
};
