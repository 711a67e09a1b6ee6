// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's own CUBIC behind operations in BPF, which only call it. The kernel counts the time of
 * these operations as it counts that of an algorithm in BPF. So the two can be compared
 * (`ccatune bench --only bpf`).
 *
 * The kernel must have CUBIC built in, because functions of a module are found otherwise. The
 * operation for the start of a transfer is left out: its name depends on the kernel, and a bulk
 * flow has one transfer.
 */
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Only passed on. libbpf compares functions by the kinds of their types: so these are no forward declarations. */
struct sock {
	char unused;
};

struct ack_sample {
	char unused;
};

/* libbpf finds the members of the kernel's structure by their names. */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack_seq, __u32 acked_pkts);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	char name[16];
};

extern void cubictcp_init(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack_seq, __u32 acked_pkts) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

char LICENSE[] SEC("license") = "GPL";

SEC("struct_ops")
void BPF_PROG(kernels_cubic_init, struct sock *sk)
{
	cubictcp_init(sk);
}

SEC("struct_ops")
void BPF_PROG(kernels_cubic_cong_avoid, struct sock *sk, __u32 ack_seq, __u32 acked_pkts)
{
	cubictcp_cong_avoid(sk, ack_seq, acked_pkts);
}

SEC("struct_ops")
__u32 BPF_PROG(kernels_cubic_ssthresh, struct sock *sk)
{
	return cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops")
void BPF_PROG(kernels_cubic_set_state, struct sock *sk, __u8 new_state)
{
	cubictcp_state(sk, new_state);
}

SEC("struct_ops")
void BPF_PROG(kernels_cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubictcp_acked(sk, sample);
}

SEC("struct_ops")
__u32 BPF_PROG(kernels_cubic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops kernels_cubic = {
	.init = (void *)kernels_cubic_init,
	.cong_avoid = (void *)kernels_cubic_cong_avoid,
	.ssthresh = (void *)kernels_cubic_ssthresh,
	.set_state = (void *)kernels_cubic_set_state,
	.pkts_acked = (void *)kernels_cubic_pkts_acked,
	.undo_cwnd = (void *)kernels_cubic_undo_cwnd,
	.name = "kernels_cubic",
};
