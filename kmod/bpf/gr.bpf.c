// SPDX-License-Identifier: GPL-2.0
/*
 * GR (kmod/core/gr.h) as a congestion control of Linux in BPF. The flow's state is in the storage
 * of its socket.
 */
#define CCATUNE_ID CCA_ID_gr

#include "ccatune.h"

#include "gr_recording.h"

/* The core's two large functions, each checked by the verifier once (ccatune.h). */
noinline int gr_bpf_on_ack(struct gr_flow *f, struct gr_params *defaults,
			   struct ccatune_config *config, struct cca_ack *ack,
			   struct cca_decision *d)
{
	if (f && defaults && ack && d)
		gr_flow_on_ack(f, defaults, config ? &config->table.ens : NULL, ack, d);
	return 0;
}

noinline int gr_bpf_recall(struct gr_flow *f, struct gr_params *defaults,
			   struct ccatune_config *config, u64 now_us)
{
	if (f && defaults)
		gr_flow_recall(f, defaults, config ? &config->table.ens : NULL, now_us);
	return 0;
}

#define gr_flow_on_ack(f, defaults, table, ack, d) \
	gr_bpf_on_ack(f, (struct gr_params *)(defaults), (struct ccatune_config *)(table), ack, d)
#define gr_flow_recall(f, defaults, table, now_us) \
	gr_bpf_recall(f, (struct gr_params *)(defaults), (struct ccatune_config *)(table), now_us)

#include "gr_ops.h"
#include "fallback.h"

CCATUNE_FLOWS(struct gr_kflow)

static inline struct gr_kflow *gr_kflow_of(const struct sock *sk)
{
	return ccatune_flow_of(sk);
}

/* `ss` shows nothing: BPF has no get_info. */
static inline void gr_copy_info(struct sock *sk, const struct gr_kflow *f)
{
}

SEC("struct_ops")
void BPF_PROG(gr_bpf_init, struct sock *sk)
{
	struct gr_kflow *f = ccatune_flow_new(sk, &flows, &blank) ? gr_kflow_of(sk) : NULL;

	if (!f) {
		ccatune_fall_back(sk);
		return;
	}
	ccatune_flow_begin(&f->head, sk);
	gr_begin(f, sk);
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	ccatune_apply(sk, &f->decision);
}

SEC("struct_ops")
void BPF_PROG(gr_bpf_release, struct sock *sk)
{
	ccatune_flow_end(sk, &flows);
}

static inline void gr_bpf_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct gr_kflow *f = gr_kflow_of(sk);

	if (!f) {
		ccatune_plain_grow(sk, rs->acked_sacked);
		return;
	}
	gr_main(sk, rs);
	ccatune_flow_note(&f->head, sk);
}

CCATUNE_PROG_CONG_CONTROL(gr_bpf_cong_control, gr_bpf_ack)
CCATUNE_PROG_TX_START(gr_bpf_tx_start, gr_tx_start)

SEC("struct_ops")
void BPF_PROG(gr_bpf_set_state, struct sock *sk, u8 new_state)
{
	if (gr_kflow_of(sk))
		gr_set_state(sk, new_state);
	else
		ccatune_plain_set_state(sk, new_state);
}

SEC("struct_ops")
u32 BPF_PROG(gr_bpf_undo_cwnd, struct sock *sk)
{
	return gr_undo_cwnd(sk);
}

SEC("struct_ops")
u32 BPF_PROG(gr_bpf_ssthresh, struct sock *sk)
{
	return gr_kflow_of(sk) ? gr_ssthresh(sk) : tcp_reno_ssthresh(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops ops = {
	.init = (void *)gr_bpf_init,
	.release = (void *)gr_bpf_release,
	.cong_control = (void *)gr_bpf_cong_control,
	.CCATUNE_TX_START_OP = (void *)gr_bpf_tx_start,
	.set_state = (void *)gr_bpf_set_state,
	.undo_cwnd = (void *)gr_bpf_undo_cwnd,
	.ssthresh = (void *)gr_bpf_ssthresh,
	.name = "gr",
};
