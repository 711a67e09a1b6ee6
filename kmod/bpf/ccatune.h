/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The BPF host: what kmod/linux/ccatune.h is for the modules, under the same names, so that the
 * operations of an algorithm (kmod/linux/gr_ops.h ...) serve both.
 *
 * An object defines CCATUNE_ID, the CCA_ID_ of its algorithm, and includes this, then the
 * operations, and has CCATUNE_FLOWS(struct of a flow). One configuration serves all network
 * namespaces.
 */
#ifndef CCATUNE_BPF_H
#define CCATUNE_BPF_H

#include "kernel.h"

#define CCA_FN static inline
#define ENS_PARAMS CCATUNE_PARAMS
/* A map holds no pointers: the values lie behind the table (layout.h). */
#define ENS_VALUE(table, index) ccatune_value((const struct ccatune_config *)(table), index)

#define CCA_INDEX(i, count) ccatune_index(i, count)

/* The comparison is hidden from the compiler, or it may prove it needless and leave it out. */
static inline u64 ccatune_index(u64 i, const u64 count)
{
	asm volatile("if %0 < %1 goto +1; %0 = 0" : "+r"(i) : "i"(count));
	return i;
}

struct ccatune_config;
static inline u32 ccatune_value(const struct ccatune_config *config, u32 index);

#include "params.h"

/* How many parameters the algorithm has: the verifier needs the bound. */
enum {
	CCATUNE_PARAMS = 0
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) \
	+ (CCA_ID_##algorithm == CCATUNE_ID)
#include "params.def"
};

#include "ensemble_recording.h"
#include "histogram.h"
#include "layout.h"

char LICENSE[] SEC("license") = "GPL";

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
/* Two places: those of a table are at its generation modulo 2. */
CCATUNE_MAPS(sums, 2, BPF_F_INNER_MAP, struct ccatune_sums);
CCATUNE_MAPS(delays, 2, BPF_F_INNER_MAP, struct ccatune_delays);
CCATUNE_MAPS(records, 1, BPF_F_INNER_MAP | BPF_F_MMAPABLE, struct rec_record);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ccatune_counters);
} counters SEC(".maps");

/* Of ccatune-bpf alone. */
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

/* NULL before ccatune-bpf has put the first one there, and no flow can begin. */
static inline struct ccatune_config *ccatune_config(void)
{
	return ccatune_in(&configs, 0, 0);
}

static inline struct ccatune_counters *ccatune_counters(void)
{
	u32 place = 0;

	return bpf_map_lookup_elem(&counters, &place);
}

static inline void ccatune_count(u64 *count, u64 by)
{
	__sync_fetch_and_add(count, by);
}

/*
 * The text bounds the table, but the verifier does not know. The compiler must not see the mask,
 * or it may prove it needless and leave it out.
 */
static inline u32 ccatune_value(const struct ccatune_config *config, u32 index)
{
	u64 at = index;

	asm volatile("%0 &= %1" : "+r"(at) : "i"(CCATUNE_MAX_VALUES - 1));
	return config->values[at];
}

/* --- what applies to a flow --------------------------------------------------- */

static inline struct ccatune_table *ccatune_flow_table(const struct ccatune_flow *flow)
{
	struct ccatune_config *config = ccatune_config();

	return config && config->has_table ? &config->table : NULL;
}

/* What stands in before the first configuration, for the verifier: no flow begins by then. */
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

/* Adds a sample of queueing delay to the current epoch, as ens_clock_on_ack() does. */
static inline void ccatune_flow_sample(struct ccatune_flow *flow, const struct cca_ack *ack,
				       u32 queueing_delay_us)
{
	u32 bucket;

	if (!ack->rtt_us || ack->app_limited || flow->samples == CCA_MAX_PKTS)
		return;
	flow->samples++;
	flow->delay_us += queueing_delay_us;
	flow->within += queueing_delay_us <= flow->target_us;
	bucket = cca_histogram_bucket(queueing_delay_us);
	if (bucket < CCA_HISTOGRAM_BUCKETS)
		flow->bucket[bucket]++;
}

/*
 * What follows is not static: the verifier checks such a function once, by its types, and not anew
 * for each path that leads to it. A pointer may then be NULL as far as it knows.
 */
noinline int ccatune_clear_samples(struct ccatune_flow *flow)
{
	u32 i;

	if (!flow)
		return 0;
	flow->samples = 0;
	flow->within = 0;
	flow->delay_us = 0;
	for (i = 0; i < CCA_HISTOGRAM_BUCKETS; i++)
		flow->bucket[i] = 0;
	return 0;
}

static inline void ccatune_flow_begin_epoch(struct ccatune_flow *flow, const struct sock *sk,
					    u64 now_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	flow->epoch_start_us = now_us;
	flow->epoch_bytes = tp->bytes_acked;
	flow->epoch_segments = tp->data_segs_out;
	flow->epoch_retransmitted = tp->total_retrans;
	ccatune_clear_samples(flow);
}

/* The class of a flow's row (ens_row_index()). */
static inline u32 ccatune_class_of(const struct ccatune_table *table, u8 delay_class)
{
	u32 class = cca_min_u32(delay_class, ens_state_rows(&table->ens) - 1);

	return class < ENS_MAX_CLASSES ? class : 0;
}

/* The sums of the flow's row and group. */
static inline struct ccatune_sums *ccatune_flow_sums(const struct ccatune_flow *flow)
{
	return ccatune_in(&sums, flow->table & 1, flow->row * CCATUNE_GROUPS + flow->group);
}

/* Adds the epoch that ends: epoch_bytes, _segments and _retransmitted are those of the epoch. */
noinline int ccatune_add_epoch(struct ccatune_flow *flow, u32 class, u64 time_us)
{
	struct ccatune_delays *of_class;
	struct ccatune_sums *of_row;
	u32 i;

	if (!flow)
		return 0;
	of_row = ccatune_flow_sums(flow);
	if (!of_row)
		return 0;
	ccatune_count(&of_row->epochs, 1);
	ccatune_count(&of_row->time_us, time_us);
	ccatune_count(&of_row->bytes, flow->epoch_bytes);
	ccatune_count(&of_row->segments, flow->epoch_segments);
	ccatune_count(&of_row->retransmitted, flow->epoch_retransmitted);
	ccatune_count(&of_row->samples, flow->samples);
	ccatune_count(&of_row->delay_us, flow->delay_us);
	ccatune_count(&of_row->within, flow->within);
	of_class = ccatune_in(&delays, flow->table & 1, class * CCATUNE_GROUPS + flow->group);
	if (!of_class || !flow->samples)
		return 0;
	for (i = 0; i < CCA_HISTOGRAM_BUCKETS; i++)
		if (flow->bucket[i])
			ccatune_count(&of_class->bucket[i], flow->bucket[i]);
	return 0;
}

noinline int ccatune_take_row(struct ccatune_flow *flow, struct ccatune_table *table,
			      struct ens_clock *clock, u32 epoch_end)
{
	struct ccatune_sums *of_row;
	u32 class;

	if (!flow || !table || !clock)
		return 0;
	flow->row = ens_row_index(&table->ens, clock->state, clock->delay_class);
	class = ccatune_class_of(table, clock->delay_class);
	flow->target_us = U32_MAX;	/* without classes every delay is within the target */
	if (table->ens.n_classes)
		flow->target_us = table->ens.classes[class].queueing_delay_us;
	of_row = ccatune_flow_sums(flow);
	if (!of_row)
		return 0;
	ccatune_count(&of_row->visits, 1);
	if (epoch_end == ENS_LOOKED_UP)
		ccatune_count(&of_row->lookups, 1);
	return 0;
}

/* As in kmod/linux/flow.c. An epoch that began under another table is not counted. */
static inline void
ccatune_flow_epoch_ended(struct ccatune_flow *flow, const struct sock *sk,
			 const struct ens_flow *ens, struct ccatune_table *table, u64 now_us)
{
	const struct ens_clock *clock = &ens->clock;
	struct ccatune_counters *counts = ccatune_counters();
	bool same = table && flow->table == table->ens.generation;
	const struct tcp_sock *tp = tcp_sk(sk);
	u8 epoch_end = ens->epoch_end;

	if (counts && epoch_end <= ENS_KEPT)
		ccatune_count(&counts->epoch_ends[epoch_end], 1);
	if (same) {
		flow->epoch_bytes = tp->bytes_acked - flow->epoch_bytes;
		flow->epoch_segments = tp->data_segs_out - flow->epoch_segments;
		flow->epoch_retransmitted = tp->total_retrans - flow->epoch_retransmitted;
		ccatune_add_epoch(flow, ccatune_class_of(table, flow->delay_class),
				  cca_elapsed_us(now_us, flow->epoch_start_us));
	}
	if (counts && same && epoch_end != ENS_KEPT)
		ccatune_count(&counts->reoptimisations, 1);
	ccatune_flow_begin_epoch(flow, sk, now_us);
	flow->epoch_end = epoch_end;
	flow->delay_class = clock->delay_class;
	flow->group = ens->held_back ? CCATUNE_HELD_BACK : CCATUNE_ENSEMBLE;
	flow->table = 0;
	if (table && clock->state != ENS_NO_STATE) {
		flow->table = table->ens.generation;
		ccatune_take_row(flow, table, (struct ens_clock *)clock, epoch_end);
	}
}

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
noinline int ccatune_keep_record(struct ccatune_recording *recording, struct rec_record *record)
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
	static inline type_of_flow *ccatune_flow_of(const struct sock *sk) \
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

/* The socket's numbers for `flows`. */
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

/* Whether a flow has begun: its key is in the socket then. */
static inline bool ccatune_flow_new(struct sock *sk, void *flows_of_object, void *blank_of_object)
{
	struct ccatune_config *config = ccatune_config();
	struct ccatune_counters *counts = ccatune_counters();
	u32 place = 0;
	void *zeros = bpf_map_lookup_elem(blank_of_object, &place);
	u64 key;

	inet_csk(sk)->icsk_ca_priv[0] = 0;
	if (!config || !counts || !zeros || counts->flows >= config->setting[CCATUNE_MAX_FLOWS])
		return false;
	key = __sync_fetch_and_add(&counts->keys, 1) + 1;
	if (bpf_map_update_elem(flows_of_object, &key, zeros, BPF_NOEXIST))
		return false;
	inet_csk(sk)->icsk_ca_priv[0] = key;
	return true;
}

static inline void ccatune_flow_begin(struct ccatune_flow *flow, const struct sock *sk)
{
	struct ccatune_config *config = ccatune_config();
	struct ccatune_counters *counts = ccatune_counters();

	flow->hash = bpf_get_prandom_u32();
	flow->start_delivered = tcp_sk(sk)->delivered;
	flow->recalls = config ? config->recalls : 0;
	flow->recorded_as = (u32)inet_csk(sk)->icsk_ca_priv[0];
	ccatune_put_addresses(flow, sk);
	ccatune_flow_begin_epoch(flow, sk, tcp_clock_us());
	ccatune_flow_note(flow, sk);
	if (!counts)
		return;
	ccatune_count(&counts->flows_started, 1);
	ccatune_count(&counts->flows, 1);
}

static inline void ccatune_flow_end(struct sock *sk, void *flows_of_object)
{
	u64 key = inet_csk(sk)->icsk_ca_priv[0];
	struct ccatune_counters *counts = ccatune_counters();

	if (!key)
		return;
	inet_csk(sk)->icsk_ca_priv[0] = 0;
	bpf_map_delete_elem(flows_of_object, &key);
	if (counts)
		ccatune_count(&counts->flows, (u64)-1);
}

/*
 * A socket without a flow runs the kernel's CUBIC, or Reno where there is none. The kernel refuses
 * that where the route fixes the algorithm; the socket then runs our Reno (ccatune_plain_grow()).
 */
static inline void ccatune_fall_back(struct sock *sk)
{
	struct ccatune_counters *counts = ccatune_counters();
	char cubic[] = "cubic", reno[] = "reno";

	if (counts)
		ccatune_count(&counts->allocation_fallbacks, 1);
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, cubic, sizeof(cubic)))
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

#endif /* CCATUNE_BPF_H */
