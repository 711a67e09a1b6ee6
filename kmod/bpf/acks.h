/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Layouts that acks.bpf.c, `ccatune-bpf acks` (tool/acks.c) and serving/agent/observe/acks.py
 * share.
 *
 * The including file has the kernel's integer types.
 */
#ifndef CCATUNE_BPF_ACKS_H
#define CCATUNE_BPF_ACKS_H

#define ACKS_MOST_PORTS 64u
#define ACKS_MOST_REFUSED 65536u
#define ACKS_BURST_NS 100000000ull	/* a burst may have the samples of this time at the limit */
#define ACKS_HASH 0x9E3779B97F4A7C15ull	/* as `_GOLDEN` in serving/agent/observe/diag.py */

struct acks_settings {
	u64 most_hash;		/* connections whose hash is at most this are sampled */
	u64 apart_ns;		/* between two samples at the limit */
	u64 netns;		/* inode of the network namespace */
	u32 us_per_jiffy;
	u32 has_ports;		/* only local ports in the map `ports` */
};

struct acks_counts {
	u64 next_ns;		/* the samples so far, at the limit, fill the time up to this */
	u64 over_limit;		/* ACKs that were not sampled, by cause */
	u64 ring_full;
};

/* A connection after an ACK. Its values are those of kmod/observations.py, in their order. */
struct acks_record {
	u64 time_us;		/* of the last delivery, CLOCK_MONOTONIC */
	u64 cookie;
	u64 bytes_acked, bytes_sent, bytes_retrans;
	u32 delivered, unacked, sacked, lost, retrans, total_retrans, dsack_dups, reordering;
	u32 notsent_bytes, cwnd, mss_bytes, rtt_us, min_rtt_us;
	u32 pad;
	u64 delivery_rate_bytes_per_s;
	u32 is_app_limited, pad2;
	u64 busy_us, rwnd_limited_us, sndbuf_limited_us;
	u32 ca_state;
	u32 last_rtt_us;
	/* As in struct inet_diag_sockid, without its cookie. */
	u16 ports[2];		/* in network order: local, peer's */
	u32 local[4], peer[4];
	u32 interface;
	u8 family;
	u8 pad3[7];
	char algorithm[16];
};

/* Commands to `ccatune-bpf acks`. It answers ACKS_DRAIN by a head and the records. */
enum { ACKS_DRAIN, ACKS_REFUSE };

struct acks_command {
	u64 kind;
	u64 cookie;		/* of ACKS_REFUSE */
};

/* It precedes the records. The first head is sent when the programs run, without records. */
struct acks_head {
	u64 records;
	u64 record_bytes;
	u64 over_limit, ring_full;	/* ACKs that were not sampled since the start, by cause */
};

#endif /* CCATUNE_BPF_ACKS_H */
