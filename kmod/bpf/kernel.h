/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The types and functions of the kernel that the shared operations (kmod/linux/sock.h, window.h,
 * *_ops.h) use, for BPF.
 *
 * A structure lists only the fields that are read. libbpf finds their offsets in the running
 * kernel when it loads the object (CO-RE), so one object serves many kernels.
 */
#ifndef CCATUNE_BPF_KERNEL_H
#define CCATUNE_BPF_KERNEL_H

/* bpf_helpers.h and the core expect the kernel's own names of integers. */
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
typedef unsigned long size_t;

enum { false, true };

#define NULL ((void *)0)
#define U32_MAX 0xffffffffu

/* Numbers of the ABI between kernel and BPF. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_F_NO_PREALLOC = 1u << 0,
	BPF_F_MMAPABLE = 1u << 10,
	BPF_F_INNER_MAP = 1u << 12,
	BPF_NOEXIST = 1,
	BPF_RB_NO_WAKEUP = 1u << 0,
	BPF_SK_STORAGE_GET_F_CREATE = 1u << 0,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* --- structures --------------------------------------------------------------- */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	s64 counter;
} atomic64_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	atomic64_t skc_cookie;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_priority;
	u32 sk_mark;
};

struct inet_sock {
	struct sock sk;
};

struct tcp_congestion_ops;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u32 icsk_rto;
	__u8 icsk_ca_state:5;
	u64 icsk_ca_priv[13];
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_rack {
	u32 rtt_us;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 tcp_mstamp;
	u64 delivered_mstamp;
	u64 bytes_acked;
	u64 bytes_sent;
	u64 bytes_retrans;
	u32 snd_una;
	u32 snd_nxt;
	u32 write_seq;
	u32 lsndtime;
	u32 mss_cache;
	u32 srtt_us;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 max_packets_out;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 prior_cwnd;
	u32 prior_ssthresh;
	u32 undo_marker;
	u32 delivered;
	u32 lost;
	u32 app_limited;
	u32 data_segs_out;
	u32 total_retrans;
	u32 dsack_dups;
	u32 reordering;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 chrono_start;
	u32 chrono_stat[3];
	u8 chrono_type:2;
	u8 rate_app_limited:1;
	u8 is_cwnd_limited:1;
	struct minmax rtt_min;
	struct tcp_rack rack;
};

struct rate_sample {
	u64 prior_mstamp;
	u32 prior_delivered;
	u32 prior_in_flight;
	s32 delivered;
	long interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked;
	bool is_app_limited;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

#pragma clang attribute pop

enum tcp_ca_event {
	CA_EVENT_TX_START,
};

enum {
	TCP_CA_Open,
	TCP_CA_Disorder,
	TCP_CA_CWR,
	TCP_CA_Recovery,
	TCP_CA_Loss,
};

enum {
	SK_PACING_NONE,
	SK_PACING_NEEDED,
};

enum {
	AF_INET6 = 10,
	SOL_TCP = 6,
	TCP_CONGESTION = 13,
	TCP_INFINITE_SSTHRESH = 0x7fffffff,
};

/*
 * Linux 6.10 passes the ACK's number and flags to cong_control too. Linux 7.1 has an operation of
 * its own for the start of a transmission.
 */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack_seq, u32 acked_pkts);
	void (*set_state)(struct sock *sk, u8 new_state);
#if CCATUNE_KERNEL >= 701
	void (*cwnd_event_tx_start)(struct sock *sk);
#else
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
#endif
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
#if CCATUNE_KERNEL >= 610
	void (*cong_control)(struct sock *sk, u32 ack_seq, int flags, const struct rate_sample *rs);
#else
	void (*cong_control)(struct sock *sk, const struct rate_sample *rs);
#endif
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*min_tso_segs)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[16];
};

/* --- functions ---------------------------------------------------------------- */

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define max_t(type, a, b) ((type)(a) > (type)(b) ? (type)(a) : (type)(b))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define clamp_t(type, value, low, high) min_t(type, max_t(type, value, low), high)
#define memset __builtin_memset
#define memcpy __builtin_memcpy
#define noinline __attribute__((noinline))

/* BPF passes at most five arguments in a call, so the compiler must inline all inline functions. */
#define inline inline __attribute__((always_inline))

/* A BPF program runs under rcu_read_lock(). */
#define rcu_read_lock() do { } while (0)
#define rcu_read_unlock() do { } while (0)

static inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static inline u32 tcp_min_rtt(const struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}

static inline u32 tcp_snd_cwnd(const struct tcp_sock *tp)
{
	return tp->snd_cwnd;
}

static inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 pkts)
{
	tp->snd_cwnd = pkts;
}

static inline u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* In slow start a window counts as used when half of it was. */
static inline bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static inline u64 tcp_clock_us(void)
{
	return bpf_ktime_get_ns() / 1000;
}

#define tcp_jiffies32 ((u32)bpf_jiffies64())

static inline bool after(u32 a, u32 b)
{
	return (s32)(b - a) < 0;
}

static inline u8 ccatune_ca_state(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	return (u8)BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
}

static inline bool ccatune_cwnd_limited(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

/* The rules of Reno, which the kernel also exports to its other algorithms. */
static inline u32 tcp_reno_ssthresh(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd >> 1, 2u);
}

static inline u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}

#endif /* CCATUNE_BPF_KERNEL_H */
