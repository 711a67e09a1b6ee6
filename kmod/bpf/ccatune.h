/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The BPF host: what kmod/linux/ccatune.h is for the modules, under the same names, so that the
 * operations of an algorithm (kmod/linux/table_ops.h) serve both.
 *
 * An object defines CCATUNE_ALGORITHM, includes this and its algorithm's adapter, and has
 * CCATUNE_FLOWS(struct of a flow). One configuration serves all network namespaces.
 */
#ifndef CCATUNE_BPF_H
#define CCATUNE_BPF_H

#include "kernel.h"

#define CCA_FN static inline
#define ENS_PARAMS CCATUNE_PARAMS
/* A map holds no pointers: the values follow the table (layout.h). */
#define ENS_VALUE(table, index) ccatune_value((const struct ccatune_table *)(table), index)

#define CCA_INDEX(i, count) ccatune_index(i, count)

/* The compiler must not see the comparison, or it may prove it needless and leave it out. */
static inline u64 ccatune_index(u64 i, const u64 count)
{
	asm volatile("if %0 < %1 goto +1; %0 = 0" : "+r"(i) : "i"(count));
	return i;
}

struct ccatune_table;
static inline u32 ccatune_value(const struct ccatune_table *table, u32 index);

#include "params.h"
#include "../linux/host.h"

/* The number of the algorithm's parameters. The verifier needs it as a bound. */
enum {
	CCATUNE_PARAMS = 0
#define CCA_ONLY CCATUNE_ID
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) + 1
#include "params.def"
};

#include "layout.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * A function that is not static: the verifier checks it once, by its types, and not anew for each
 * path that leads to it. A pointer may then be NULL as far as it knows.
 */
#define CCATUNE_PART noinline
#define CCATUNE_LACKS(condition) (condition)

#define CCATUNE_CONG_CONTROL(name) \
	static noinline void name(struct sock *sk, const struct rate_sample *rs)
#define CCATUNE_TX_START(name) static noinline void name(struct sock *sk)

/*
 * The program of an operation. Before Linux 7.1 the start of a transmission is one of the events
 * of cwnd_event.
 */
#if CCATUNE_KERNEL >= 610
#define CCATUNE_PROG_CONG_CONTROL(name, function) \
	SEC("struct_ops") \
	void BPF_PROG(name, struct sock *sk, u32 ack_seq, int flags, const struct rate_sample *rs) \
	{ \
		function(sk, rs); \
	}
#else
#define CCATUNE_PROG_CONG_CONTROL(name, function) \
	SEC("struct_ops") \
	void BPF_PROG(name, struct sock *sk, const struct rate_sample *rs) \
	{ \
		function(sk, rs); \
	}
#endif

#if CCATUNE_KERNEL >= 701
#define CCATUNE_TX_START_OP cwnd_event_tx_start
#define CCATUNE_PROG_TX_START(name, function) \
	SEC("struct_ops") \
	void BPF_PROG(name, struct sock *sk) \
	{ \
		function(sk); \
	}
#else
#define CCATUNE_TX_START_OP cwnd_event
#define CCATUNE_PROG_TX_START(name, function) \
	SEC("struct_ops") \
	void BPF_PROG(name, struct sock *sk, enum tcp_ca_event event) \
	{ \
		if (event == CA_EVENT_TX_START) \
			function(sk); \
	}
#endif

/* --- maps --------------------------------------------------------------------- */

/*
 * An array of maps whose elements have this type. An inner map's size is that of the map that is
 * put there, where the flags have BPF_F_INNER_MAP.
 */
#define CCATUNE_MAPS(name, places, flags, type_of_value) \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); \
		__uint(max_entries, places); \
		__type(key, u32); \
		__array(values, struct { \
			__uint(type, BPF_MAP_TYPE_ARRAY); \
			__uint(map_flags, flags); \
			__uint(max_entries, 1); \
			__uint(key_size, sizeof(u32)); \
			__uint(value_size, sizeof(type_of_value)); \
		}); \
	} name SEC(".maps")

CCATUNE_MAPS(configs, 1, 0, struct ccatune_config);
/* Two places. The sums and delays of a table are at its generation modulo 2. */
CCATUNE_MAPS(sums, 2, BPF_F_INNER_MAP, struct ccatune_sums);
CCATUNE_MAPS(delays, 2, BPF_F_INNER_MAP, struct ccatune_delays);
CCATUNE_MAPS(records, 1, BPF_F_INNER_MAP | BPF_F_MMAPABLE, struct rec_record);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ccatune_totals);
} counters SEC(".maps");

/* Only ccatune-bpf reads and writes this map. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct ccatune_host));
} host SEC(".maps");

static inline void *ccatune_in(void *outer, u32 place, u32 index)
{
	void *inner = bpf_map_lookup_elem(outer, &place);

	return inner ? bpf_map_lookup_elem(inner, &index) : NULL;
}

/* The configuration in force. NULL until ccatune-bpf has stored one: no flow begins before that. */
static inline struct ccatune_config *ccatune_config(void)
{
	return ccatune_in(&configs, 0, 0);
}

static inline struct ccatune_totals *ccatune_totals(void)
{
	u32 place = 0;

	return bpf_map_lookup_elem(&counters, &place);
}

#define ccatune_add(count, by) __sync_fetch_and_add(count, by)

/*
 * The text bounds the table, but the verifier does not know. The compiler must not see the mask,
 * or it may prove it needless and leave it out.
 */
static inline u32 ccatune_value(const struct ccatune_table *table, u32 index)
{
	u64 at = index;

	asm volatile("%0 &= %1" : "+r"(at) : "i"(CCATUNE_MAX_VALUES - 1));
	return table->values[at];
}

/* A set of parameters. Its type gives the verifier its size. */
struct ccatune_set {
	u32 value[CCATUNE_PARAMS];
};

CCATUNE_PART int ens_flow_end_epoch_part(struct ens_flow *f, const struct ccatune_table *table,
					 u64 now_us, const struct ens_values *values,
					 struct ccatune_set *params)
{
	if (f && values && params)
		ens_flow_end_epoch(f, table ? &table->ens : NULL, now_us, values, params);
	return 0;
}

#define ens_flow_end_epoch(f, table, now_us, values, params) \
	ens_flow_end_epoch_part(f, (const struct ccatune_table *)(table), now_us, values, \
				(struct ccatune_set *)(params))

static inline void ccatune_need_pacing(struct sock *sk)
{
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* --- table, parameters and class of a flow ------------------------------------ */

static inline struct ccatune_table *ccatune_flow_table(const struct ccatune_flow *flow)
{
	struct ccatune_config *config = ccatune_config();

	return config && config->has_table ? &config->table : NULL;
}

/*
 * Parameters before the first configuration. No flow begins before it, but the verifier cannot know
 * this.
 */
struct ccatune_params no_params;

static inline const struct ccatune_params *ccatune_flow_params(const struct ccatune_flow *flow)
{
	struct ccatune_config *config = ccatune_config();

	return config ? &config->params : &no_params;
}

static inline bool ccatune_was_recalled(const struct ccatune_flow *flow)
{
	struct ccatune_config *config = ccatune_config();

	return config && config->recalls != flow->recalls;
}

static inline bool ccatune_is_recalled(struct ccatune_flow *flow)
{
	struct ccatune_config *config = ccatune_config();

	if (likely(!config || config->recalls == flow->recalls))
		return false;
	flow->recalls = config->recalls;
	return true;
}

static inline u8 ccatune_flow_class(const struct ccatune_flow *flow, const struct sock *sk,
				    const struct ccatune_table *table)
{
	struct ccatune_config *config = ccatune_config();
	u32 number = 0;

	if (!config)
		return 0;
	if (config->setting[CCATUNE_CLASS_SOURCE] == CCATUNE_CLASS_OF_PRIORITY)
		number = sk->sk_priority;
	else if (config->setting[CCATUNE_CLASS_SOURCE] == CCATUNE_CLASS_OF_MARK)
		number = sk->sk_mark;
	number = (number & config->setting[CCATUNE_CLASS_MASK]) >> (config->class_shift & 31);
	if (number && number <= (table ? table->ens.n_classes : ENS_MAX_CLASSES))
		return (u8)(number - 1);
	return (u8)config->setting[CCATUNE_DEFAULT_CLASS];
}

/* --- sums ---------------------------------------------------------------------- */

static inline struct ccatune_sums *ccatune_sums_of(const struct ccatune_flow *flow,
						   const struct ccatune_table *table)
{
	return ccatune_in(&sums, flow->table & 1, flow->row * CCATUNE_GROUPS + flow->group);
}

static inline struct ccatune_delays *ccatune_delays_of(const struct ccatune_flow *flow,
						       const struct ccatune_table *table,
						       u32 class)
{
	return ccatune_in(&delays, flow->table & 1, class * CCATUNE_GROUPS + flow->group);
}

static inline struct ccatune_counters *ccatune_counts(const struct ccatune_flow *flow)
{
	struct ccatune_totals *totals = ccatune_totals();

	return totals ? &totals->counters : NULL;
}

#define ccatune_group_of(flow, table, held_back) ((held_back) ? CCATUNE_HELD_BACK : CCATUNE_ENSEMBLE)

#include "../linux/sums.h"

#define ccatune_flow_epoch_ended ccatune_end_epoch

/* --- recording ---------------------------------------------------------------- */

/* The recording that includes this flow, NULL if there is none. */
static inline struct ccatune_recording *ccatune_recording(const struct ccatune_flow *flow)
{
	struct ccatune_recording *head = ccatune_in(&records, 0, 0);

	/* By difference: numbers wrap. */
	return head && (s32)(flow->recorded_as - head->first) >= 0 ? head : NULL;
}

/*
 * The same once more within an event that has looked already, and found this one. It looks again,
 * because the verifier's paths double with every pointer that lives long and may be NULL.
 */
static inline struct ccatune_recording *ccatune_recording_still(struct ccatune_recording *found,
								const struct ccatune_flow *flow)
{
	return ccatune_recording(flow);
}

/*
 * Finishes the record and copies it into the recording, if there is room. Tables and parameters are
 * recorded by ccatune-bpf, which knows them.
 */
CCATUNE_PART int ccatune_keep_record(struct ccatune_recording *recording, struct rec_record *record)
{
	u32 place_of_map = 0, at = 0;
	void *map = bpf_map_lookup_elem(&records, &place_of_map);
	struct ccatune_recording *head;
	struct rec_record *place;
	u64 number;

	/* Head and place of one map: the recording may have ended meanwhile. */
	head = map ? bpf_map_lookup_elem(map, &at) : NULL;
	if (!head || !recording || !record)
		return 0;
	number = __sync_fetch_and_add(&head->next, 1);
	if (number >= head->size)
		return 0;
	at = (u32)number + 1;
	place = bpf_map_lookup_elem(map, &at);
	if (!place)
		return 0;
	rec_finish(record);
	*place = *record;
	return 0;
}

static inline void ccatune_record(struct ccatune_recording *recording, struct rec_record *record)
{
	ccatune_keep_record(recording, record);
}

#define ccatune_record_table(recording, table) do { } while (0)
#define ccatune_record_params(recording, params, id) do { } while (0)

/* --- a flow's beginning and end ----------------------------------------------- */

/*
 * The flows of an object, and one that is all zeros, which each begins as. A hash, so that
 * ccatune-bpf can walk through it; a socket has its key in its private area.
 */
#define CCATUNE_FLOWS(type_of_flow) \
	struct { \
		__uint(type, BPF_MAP_TYPE_HASH); \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__uint(max_entries, CCATUNE_MOST_FLOWS); \
		__type(key, u64); \
		__type(value, type_of_flow); \
	} flows SEC(".maps"); \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(max_entries, 1); \
		__type(key, u32); \
		__type(value, type_of_flow); \
	} blank SEC(".maps"); \
	static inline type_of_flow *alg_flow_of(const struct sock *sk) \
	{ \
		u64 key = inet_csk(sk)->icsk_ca_priv[0]; \
	\
		return key ? bpf_map_lookup_elem(&flows, &key) : NULL; \
	}

static inline void ccatune_put_addresses(struct ccatune_flow *flow, const struct sock *sk)
{
	const struct sock_common *c = &sk->__sk_common;
	u32 i;

	flow->local_port = c->skc_num;
	flow->remote_port = __builtin_bswap16(c->skc_dport);
	flow->is_ipv6 = c->skc_family == AF_INET6;
	flow->local[0] = c->skc_rcv_saddr;
	flow->remote[0] = c->skc_daddr;
	/* An IPv4 address in one of IPv6: as IPv4. */
	if (flow->is_ipv6 && !c->skc_v6_daddr.in6_u.u6_addr32[0] &&
	    !c->skc_v6_daddr.in6_u.u6_addr32[1] &&
	    c->skc_v6_daddr.in6_u.u6_addr32[2] == __builtin_bswap32(0xffff))
		flow->is_ipv6 = 0;
	for (i = 0; flow->is_ipv6 && i < 4; i++) {
		flow->local[i] = c->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
		flow->remote[i] = c->skc_v6_daddr.in6_u.u6_addr32[i];
	}
}

/* Copies the numbers of the socket that the file `flows` shows. */
static inline void ccatune_flow_note(struct ccatune_flow *flow, const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	flow->seen_us = tp->tcp_mstamp;
	flow->bytes_acked = tp->bytes_acked;
	flow->segments = tp->data_segs_out;
	flow->retransmitted = tp->total_retrans;
	flow->rtt_us = tp->srtt_us >> 3;
	flow->cwnd_pkts = tp->snd_cwnd;
}

/* Makes a flow and stores its key in the socket. Returns false if there can be no flow. */
static inline bool ccatune_flow_new(struct sock *sk, void *flows_of_object, void *blank_of_object)
{
	struct ccatune_config *config = ccatune_config();
	struct ccatune_totals *totals = ccatune_totals();
	u32 place = 0;
	void *zeros = bpf_map_lookup_elem(blank_of_object, &place);
	u64 key;

	inet_csk(sk)->icsk_ca_priv[0] = 0;
	if (!config || !totals || !zeros || totals->flows >= config->setting[CCATUNE_MAX_FLOWS])
		return false;
	key = __sync_fetch_and_add(&totals->keys, 1) + 1;
	if (bpf_map_update_elem(flows_of_object, &key, zeros, BPF_NOEXIST))
		return false;
	inet_csk(sk)->icsk_ca_priv[0] = key;
	return true;
}

static inline void ccatune_flow_begin(struct ccatune_flow *flow, const struct sock *sk)
{
	struct ccatune_config *config = ccatune_config();
	struct ccatune_totals *totals = ccatune_totals();

	flow->hash = bpf_get_prandom_u32();
	flow->start_delivered = tcp_sk(sk)->delivered;
	flow->recalls = config ? config->recalls : 0;
	flow->recorded_as = (u32)inet_csk(sk)->icsk_ca_priv[0];
	ccatune_put_addresses(flow, sk);
	ccatune_flow_begin_epoch(flow, sk, tcp_clock_us());
	ccatune_flow_note(flow, sk);
	if (!totals)
		return;
	ccatune_add(&totals->counters.flows_started, 1);
	ccatune_add(&totals->flows, 1);
}

static inline void ccatune_flow_end(struct sock *sk, void *flows_of_object)
{
	u64 key = inet_csk(sk)->icsk_ca_priv[0];
	struct ccatune_totals *totals = ccatune_totals();

	if (!key)
		return;
	inet_csk(sk)->icsk_ca_priv[0] = 0;
	bpf_map_delete_elem(flows_of_object, &key);
	if (totals)
		ccatune_add(&totals->flows, (u64)-1);
}

/*
 * A socket without a flow runs the kernel's CUBIC, or Reno where there is none. The kernel refuses
 * that where the route fixes the algorithm; the socket then runs our Reno (ccatune_plain_grow()).
 */
static inline void ccatune_fall_back(struct sock *sk)
{
	struct ccatune_totals *totals = ccatune_totals();
	char cubic[] = "cubic", reno[] = "reno";

	if (totals)
		ccatune_add(&totals->counters.allocation_fallbacks, 1);
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, cubic, sizeof(cubic)))
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

#endif /* CCATUNE_BPF_H */
