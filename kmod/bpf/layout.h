/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The maps that the BPF objects and ccatune-bpf share.
 *
 *   ccatune_config     what is in force: parameters, settings, the table. ccatune-bpf fills a new
 *                      map and puts it into `configs` by one update: a reader sees the old one
 *                      or the new one, never a part of each.
 *   ccatune_sums       sums over the epochs on a row, and histograms of its classes; a new map with
 *                      each table
 *   ccatune_counters   counts since the object was loaded
 *   ccatune_host       numbers that ccatune-bpf gives, and its own counts
 *   ccatune_flow       at the head of a flow in the map `flows`, whose keys are in the sockets
 *
 * The including file has the integers of the kernel and the core.
 */
#ifndef CCATUNE_BPF_LAYOUT_H
#define CCATUNE_BPF_LAYOUT_H

#include "../linux/host.h"

typedef u64 ccatune_count;

#include "../linux/counts.h"

#define CCATUNE_MOST_FLOWS 65536u	/* of an object */
#define CCATUNE_MAX_VALUES (1u << 17)	/* of a table: each takes at least 2 of 256 KiB of text */

enum ccatune_setting {
	CCATUNE_CLASS_SOURCE,
	CCATUNE_CLASS_MASK,
	CCATUNE_DEFAULT_CLASS,
	CCATUNE_MAX_FLOWS,
	CCATUNE_SETTINGS,
};

struct ccatune_table {
	struct ens_table ens;		/* first: ENS_VALUE() in ccatune.h relies on it */
	u32 values[CCATUNE_MAX_VALUES];
};

struct ccatune_params {
	u32 version;			/* never reused */
	u32 value[CCA_MAX_PARAMS];
};

struct ccatune_config {
	struct ccatune_table table;
	struct ccatune_params params;
	u32 setting[CCATUNE_SETTINGS];
	u32 class_shift;		/* of class_mask */
	u32 recalls;			/* how often rows were recalled (ensemble_flow.h) */
	u32 has_table;
	u32 has_params;			/* written, and not cleared since */
	u64 changes;			/* of table, parameters and settings */
};

/* Only ccatune-bpf writes this. */
struct ccatune_host {
	u64 instance;			/* a random number, drawn at each load */
	u64 rejected_writes;
	u64 generations;		/* the last number that a table has received */
	u64 pins;			/* the last number of a pin of a configuration */
	u32 versions;			/* the last version that parameters have received */
};

/* Since the object was loaded. */
struct ccatune_totals {
	struct ccatune_counters counters;
	u64 flows;
	u64 keys;			/* the last key that a flow has received */
};

/* At the head of a flow, before its algorithm. */
struct ccatune_flow {
	u64 table;			/* generation of the table of the current epoch; 0: none */
	u64 epoch_start_us;
	u64 epoch_bytes;		/* counters of the socket at its start */
	u64 delay_us;
	u64 bytes_acked;		/* of the socket at the last ACK, as what follows up to cwnd_pkts */
	u64 seen_us;
	u32 segments;
	u32 retransmitted;
	u32 rtt_us;
	u32 cwnd_pkts;
	u32 epoch_segments;
	u32 epoch_retransmitted;
	u32 row;
	u32 target_us;
	u32 samples;
	u32 within;
	u32 recalls;			/* of the configuration that the flow followed last */
	u32 hash;			/* random, fixed */
	u32 start_delivered;		/* tp->delivered when the flow began */
	u32 recorded_as;
	u32 local[4], remote[4];	/* addresses in network order; of IPv4 the first word */
	u16 local_port, remote_port;
	u8 is_ipv6;
	u8 delay_class;
	u8 group;			/* enum ccatune_group */
	u8 epoch_end;			/* that began the epoch */
	u32 bucket[CCA_HISTOGRAM_BUCKETS];
};

/* A recording is an array of records. Its first element is this header. */
struct ccatune_recording {
	u64 next;			/* number of records so far; those beyond size are lost */
	u32 size;
	u32 first;			/* flows from this number on are part of it */
};

#endif /* CCATUNE_BPF_LAYOUT_H */
