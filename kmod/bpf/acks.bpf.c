// SPDX-License-Identifier: GPL-2.0
/*
 * Samples a share of the connections at each ACK, for `ccatune observe --acks`.
 *
 * The kernel calls the tracepoint tcp_probe when a segment arrives, before it processes it. The
 * socket then has the state after the previous segment, and after all that was sent since. The
 * sample therefore has the time of the last delivery (`delivered_mstamp`), which is when the
 * previous segment was processed. After an end has closed, the kernel does not call tcp_probe any
 * more. Then a sample is taken at each change of the socket's state (inet_sock_set_state).
 *
 * Why tracepoints: they need neither fentry nor fexit, which some kernels forbid, nor a function
 * that the compiler may inline. Linux 7.3, for example, has no tcp_rate_gen() in its BTF. Both
 * tracepoints have had the socket as their first argument since Linux 4.16.
 *
 * A socket is sampled if it has delivered, lost or retransmitted packets since its last sample. A
 * socket that only receives is not sampled.
 */
#include "kernel.h"

#include "acks.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct acks_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct acks_counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ACKS_MOST_PORTS);
	__type(key, u16);
	__type(value, u8);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ACKS_MOST_REFUSED);
	__type(key, u64);
	__type(value, u8);
} refused SEC(".maps");

/* The socket's figures at its last sample. */
struct seen {
	u64 delivered_us;
	u32 lost, total_retrans;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct seen);
} seen SEC(".maps");

static inline bool is_chosen(struct sock *sk, const struct acks_settings *s, u64 cookie)
{
	u16 port = sk->__sk_common.skc_num;

	return sk->__sk_common.skc_net.net->ns.inum == s->netns &&
	       (!s->has_ports || bpf_map_lookup_elem(&ports, &port)) &&
	       !bpf_map_lookup_elem(&refused, &cookie);
}

static inline bool has_news(struct sock *sk, const struct tcp_sock *tp)
{
	struct seen *last = bpf_sk_storage_get(&seen, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!last || !tp->delivered_mstamp ||
	    (last->delivered_us == tp->delivered_mstamp && last->lost == tp->lost &&
	     last->total_retrans == tp->total_retrans))
		return false;
	last->delivered_us = tp->delivered_mstamp;
	last->lost = tp->lost;
	last->total_retrans = tp->total_retrans;
	return true;
}

/* Two processors may both find that they are within the limit. Both samples count towards it. */
static inline bool is_over_limit(struct acks_counts *c, const struct acks_settings *s, u64 now_ns)
{
	u64 next_ns = READ_ONCE(c->next_ns);

	if (next_ns > now_ns + ACKS_BURST_NS)
		return true;
	if (next_ns < now_ns)
		WRITE_ONCE(c->next_ns, now_ns);
	__sync_fetch_and_add(&c->next_ns, s->apart_ns);
	return false;
}

static inline void put_counters(struct acks_record *r, const struct tcp_sock *tp)
{
	u32 rate = tp->rate_delivered, interval_us = tp->rate_interval_us;
	s32 notsent_bytes = (s32)(tp->write_seq - tp->snd_nxt);

	r->bytes_acked = tp->bytes_acked;
	r->bytes_sent = tp->bytes_sent;
	r->bytes_retrans = tp->bytes_retrans;
	r->delivered = tp->delivered;
	r->unacked = tp->packets_out;
	r->sacked = tp->sacked_out;
	r->lost = tp->lost_out;
	r->retrans = tp->retrans_out;
	r->total_retrans = tp->total_retrans;
	r->dsack_dups = tp->dsack_dups;
	r->reordering = tp->reordering;
	r->notsent_bytes = notsent_bytes > 0 ? (u32)notsent_bytes : 0;
	r->cwnd = tp->snd_cwnd;
	r->mss_bytes = tp->mss_cache;
	r->rtt_us = tp->srtt_us >> 3;
	r->min_rtt_us = tcp_min_rtt(tp);
	/* A rate sample has less than 2^24 packets, so the product is below 2^24 x 2^16 x 2^20. */
	r->delivery_rate_bytes_per_s =
		interval_us ? (u64)rate * tp->mss_cache * 1000000 / interval_us : 0;
	r->is_app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
	r->ca_state = ccatune_ca_state((const struct sock *)tp);
	r->last_rtt_us = tp->rack.rtt_us;
}

/*
 * The kernel has clocks for the times in which the sender was busy (1), limited by the receiver (2)
 * and by the send buffer (3). One of them runs. They are read lag_us after the sample's time, so
 * lag_us is subtracted from the one that runs.
 */
static inline void put_clocks(struct acks_record *r, const struct tcp_sock *tp, u64 us_per_jiffy,
			      u64 lag_us)
{
	u32 type = BPF_CORE_READ_BITFIELD(tp, chrono_type);
	u32 ran = tcp_jiffies32 - tp->chrono_start;
	u64 lag = us_per_jiffy ? lag_us / us_per_jiffy : 0;
	u64 since = ran > lag ? ran - lag : 0;
	u64 receiver = tp->chrono_stat[1] + (type == 2 ? since : 0);
	u64 buffer = tp->chrono_stat[2] + (type == 3 ? since : 0);
	u64 busy = tp->chrono_stat[0] + (type == 1 ? since : 0) + receiver + buffer;

	r->busy_us = busy * us_per_jiffy;
	r->rwnd_limited_us = receiver * us_per_jiffy;
	r->sndbuf_limited_us = buffer * us_per_jiffy;
}

static inline void put_ends(struct acks_record *r, struct sock *sk, const struct tcp_sock *tp)
{
	const struct sock_common *c = &sk->__sk_common;
	int i;

	r->ports[0] = (u16)__builtin_bswap16(c->skc_num);
	r->ports[1] = c->skc_dport;
	r->interface = (u32)c->skc_bound_dev_if;
	r->family = (u8)c->skc_family;
	for (i = 0; i < 4; i++) {
		r->local[i] = 0;
		r->peer[i] = 0;
	}
	if (c->skc_family == AF_INET6) {
		for (i = 0; i < 4; i++) {
			r->local[i] = c->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			r->peer[i] = c->skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		r->local[0] = c->skc_rcv_saddr;
		r->peer[0] = c->skc_daddr;
	}
	if (bpf_core_read_str(r->algorithm, sizeof(r->algorithm),
			      &tp->inet_conn.icsk_ca_ops->name) < 0)
		r->algorithm[0] = '\0';
}

static inline void put(struct acks_counts *c, const struct acks_settings *s, struct sock *sk,
		       const struct tcp_sock *tp, u64 cookie, u64 now_us)
{
	struct acks_record *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);

	if (!r) {
		__sync_fetch_and_add(&c->ring_full, 1);
		return;
	}
	r->time_us = tp->delivered_mstamp;
	r->cookie = cookie;
	put_counters(r, tp);
	put_clocks(r, tp, s->us_per_jiffy,
		   now_us > tp->delivered_mstamp ? now_us - tp->delivered_mstamp : 0);
	put_ends(r, sk, tp);
	/* The reader polls. */
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static inline int sample(struct sock *sk)
{
	u64 cookie = (u64)sk->__sk_common.skc_cookie.counter, now_ns;
	struct acks_settings *s;
	struct acks_counts *c;
	struct tcp_sock *tp;
	u32 place = 0;

	s = bpf_map_lookup_elem(&settings, &place);
	if (!cookie)
		cookie = bpf_get_socket_cookie(sk);
	if (!s || cookie * ACKS_HASH > s->most_hash || !is_chosen(sk, s, cookie))
		return 0;
	c = bpf_map_lookup_elem(&counts, &place);
	tp = (struct tcp_sock *)bpf_skc_to_tcp_sock(sk);
	if (!c || !tp || !has_news(sk, tp))
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (is_over_limit(c, s, now_ns))
		__sync_fetch_and_add(&c->over_limit, 1);
	else
		put(c, s, sk, tp, cookie, now_ns / 1000);
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(acks_segment, struct sock *sk)
{
	return sample(sk);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(acks_state, struct sock *sk)
{
	return sample(sk);
}
