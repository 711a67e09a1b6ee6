/* SPDX-License-Identifier: GPL-2.0 */
/*
 * R-TCP over an algorithm in control mode as a congestion control of Linux in BPF. The includer
 * defines what rtcp_paced_ops.h requires, and PACED_NAME.
 */
#define RTCP_PARTS_PACED
#include "ccatune.h"

#include "rtcp_parts.h"

noinline int paced_bpf_on_ack(struct paced_kflow *f, struct rtcp_params *defaults,
			      struct ccatune_config *config, struct cca_ack *ack)
{
	if (f && defaults && ack)
		paced_flow_on_ack(&f->bbr, &f->shared.member.own, defaults,
				  config ? &config->table.ens : NULL, ack, &f->decision);
	return 0;
}

#undef paced_flow_on_ack
#define paced_flow_on_ack(flow, c, defaults, table, ack, d) \
	paced_bpf_on_ack(container_of(flow, struct paced_kflow, bbr), \
			 (struct rtcp_params *)(defaults), (struct ccatune_config *)(table), \
			 (struct cca_ack *)(ack))

noinline int paced_bpf_on_event(struct paced_kflow *f, struct cca_event *ev)
{
	if (f && ev)
		paced_flow_on_event(&f->bbr, &f->shared.member.own, ev, &f->decision);
	return 0;
}

#undef paced_flow_on_event
#define paced_flow_on_event(flow, c, ev, d) \
	paced_bpf_on_event(container_of(flow, struct paced_kflow, bbr), ev)

noinline int paced_bpf_recall(struct paced_kflow *f, struct rtcp_params *defaults,
			      struct ccatune_config *config, u64 now_us)
{
	if (f && defaults)
		rtcp_ens_recall(&f->bbr.ens, &f->shared.member.own, defaults,
				config ? &config->table.ens : NULL, now_us, &f->bbr.params.rtcp);
	return 0;
}

#define rtcp_ens_recall(e, c, defaults, table, now_us, set) \
	paced_bpf_recall(container_of(e, struct paced_kflow, bbr.ens), \
			 (struct rtcp_params *)(defaults), (struct ccatune_config *)(table), now_us)

#include "fallback.h"
#include "rtcp_paced_ops.h"

CCATUNE_FLOWS(struct paced_kflow)

static inline struct paced_kflow *paced_of(const struct sock *sk)
{
	return ccatune_flow_of(sk);
}

/* `ss` shows nothing: BPF has no get_info. */
static inline void paced_copy_info(struct sock *sk, const struct paced_kflow *f)
{
}

SEC("struct_ops")
void BPF_PROG(paced_bpf_init, struct sock *sk)
{
	struct paced_kflow *f = ccatune_flow_new(sk, &flows, &blank) ? paced_of(sk) : NULL;

	if (!f) {
		ccatune_fall_back(sk);
		return;
	}
	ccatune_flow_begin(&f->shared.head, sk);
	paced_begin(f, sk);
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	ccatune_apply(sk, &f->decision);
}

SEC("struct_ops")
void BPF_PROG(paced_bpf_release, struct sock *sk)
{
	struct paced_kflow *f = paced_of(sk);

	if (f)
		rtcp_kflow_leave(&f->shared, sk, &f->bbr.state.flow);
	ccatune_flow_end(sk, &flows);
}

static inline void paced_bpf_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct paced_kflow *f = paced_of(sk);

	if (!f) {
		ccatune_plain_grow(sk, rs->acked_sacked);
		return;
	}
	paced_main(sk, rs);
	ccatune_flow_note(&f->shared.head, sk);
}

CCATUNE_PROG_CONG_CONTROL(paced_bpf_cong_control, paced_bpf_ack)
CCATUNE_PROG_TX_START(paced_bpf_tx_start, paced_tx_start)

SEC("struct_ops")
void BPF_PROG(paced_bpf_set_state, struct sock *sk, u8 new_state)
{
	if (paced_of(sk))
		paced_set_state(sk, new_state);
	else
		ccatune_plain_set_state(sk, new_state);
}

SEC("struct_ops")
u32 BPF_PROG(paced_bpf_undo_cwnd, struct sock *sk)
{
	return paced_undo_cwnd(sk);
}

SEC("struct_ops")
u32 BPF_PROG(paced_bpf_ssthresh, struct sock *sk)
{
	return paced_of(sk) ? paced_ssthresh(sk) : tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
u32 BPF_PROG(paced_bpf_min_tso_segs, struct sock *sk)
{
	return paced_min_tso_segs(sk);
}

SEC("struct_ops")
u32 BPF_PROG(paced_bpf_sndbuf_expand, struct sock *sk)
{
	return paced_sndbuf_expand(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops ops = {
	.init = (void *)paced_bpf_init,
	.release = (void *)paced_bpf_release,
	.cong_control = (void *)paced_bpf_cong_control,
	.CCATUNE_TX_START_OP = (void *)paced_bpf_tx_start,
	.set_state = (void *)paced_bpf_set_state,
	.undo_cwnd = (void *)paced_bpf_undo_cwnd,
	.ssthresh = (void *)paced_bpf_ssthresh,
	.min_tso_segs = (void *)paced_bpf_min_tso_segs,
	.sndbuf_expand = (void *)paced_bpf_sndbuf_expand,
	.name = PACED_NAME,
};
