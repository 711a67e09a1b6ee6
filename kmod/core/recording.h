/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A recording of a core's inputs and decisions: a header, then records of one size. A
 * host writes it while it runs. A replay passes the same inputs to the same core
 * (tests/contract/replay), and must get the same records, bit by bit.
 *
 *   PARAMS, TABLE, VALUE    parameters and table in force, before their first use
 *   START                   a flow begins
 *   ACK, EVENT              control mode: the input, the decision, the end of an epoch
 *   WINDOW_ACK, GROW,       window mode: the window before and after
 *   SSTHRESH, UNDO
 *   RECALL                  the host recalls rows, so an epoch ends early (ensemble_flow.h)
 *   LOSS                    for an algorithm that learns from single losses; precedes the event
 *                           that revealed them
 *
 * A record contains the inputs and the core's results. Words that a kind does not use
 * are 0. The last word is a checksum of the others. A recording is complete if no event
 * was lost and every checksum is right. Numbers have the host's byte order, which `magic`
 * shows.
 */
#ifndef CCA_RECORDING_H
#define CCA_RECORDING_H

#include "ensemble.h"

#define REC_MAGIC 0x43434152u		/* "RACC" on a little-endian host */
#define REC_VERSION 3u
#define REC_WORDS 24u
#define REC_VALUES 20u			/* of a table in one TABLE or VALUE record */
#define REC_TABLE_RECORDS 3u		/* before its values: 7 + 2 x 3 + 8 x 2 + 16 + 2 words */

enum rec_kind {
	REC_NOTHING,		/* a record that was never finished */
	REC_PARAMS,
	REC_TABLE,
	REC_VALUE,
	REC_START,
	REC_ACK,
	REC_EVENT,
	REC_WINDOW_ACK,		/* an ACK in window mode */
	REC_GROW,
	REC_SSTHRESH,
	REC_UNDO,
	REC_RECALL,
	REC_LOSS = REC_RECALL + 3,	/* the two in between are R-TCP's (rtcp_recording.h) */
	REC_KINDS,
};

/* Words of a record. */
enum {
	REC_RTT, REC_ACKED, REC_LOST, REC_INFLIGHT, REC_DELIVERED, REC_RATE_PKTS,
	REC_RATE_INTERVAL, REC_CWND, REC_MSS, REC_SSTHRESH_IN, REC_CREDIT_IN, REC_HASH,
	/* results of the core */
	REC_PACING_LOW, REC_PACING_HIGH, REC_CWND_OUT, REC_SSTHRESH_OUT, REC_CREDIT_OUT,
	REC_RESULT, REC_STATE, REC_EPOCH, REC_SET_OUT,
	REC_SUM = REC_WORDS - 1,
	/* an ACK has no window: these words then describe the sampled packet */
	REC_TX_INFLIGHT = REC_SSTHRESH_IN,
	REC_LOST_SINCE = REC_CREDIT_IN,
};

struct rec_header {
	u32 magic;
	u32 version;
	u32 header_bytes;
	u32 record_bytes;
	u32 id;			/* CCA_ID_ */
	u32 records;
	u64 lost;		/* events for which the host had no space */
};

struct rec_record {
	u8 kind;		/* enum rec_kind */
	u8 event;		/* enum cca_event_kind */
	u8 epoch_end;		/* enum ens_epoch_end */
	u8 mode;		/* of the algorithm, after the event */
	u8 delay_class;
	u8 app_limited;
	u8 cwnd_limited;
	u8 held_back;
	u32 flow;
	u32 params;		/* version that the flow read, or that this record contains */
	u64 now_us;
	u64 table;		/* generation, likewise; 0: none */
	u32 word[REC_WORDS];
};

CCA_FN void rec_init(struct rec_record *r, enum rec_kind kind, u32 flow, u64 now_us)
{
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = (u8)kind;
	r->flow = flow;
	r->now_us = now_us;
}

/* FNV-1a over all words except the checksum itself. */
CCA_FN u32 rec_sum(const struct rec_record *r)
{
	const char *at = (const char *)r;
	u32 i, word, sum = 2166136261u;

	for (i = 0; i < sizeof(*r) / sizeof(u32) - 1; i++) {
		__builtin_memcpy(&word, at + i * sizeof(u32), sizeof(word));
		sum = (sum ^ word) * 16777619u;
	}
	return sum;
}

CCA_FN void rec_finish(struct rec_record *r)
{
	r->word[REC_SUM] = rec_sum(r);
}

CCA_FN void rec_put_start(struct rec_record *r, const struct cca_start *start, u8 delay_class,
			  u32 hash, u32 params)
{
	r->delay_class = delay_class;
	r->params = params;
	r->word[REC_RTT] = start->rtt_us;
	r->word[REC_CWND] = start->cwnd_pkts;
	r->word[REC_DELIVERED] = start->delivered_pkts;
	r->word[REC_MSS] = start->mss_bytes;
	r->word[REC_HASH] = hash;
}

CCA_FN void rec_get_start(const struct rec_record *r, struct cca_start *start)
{
	start->now_us = r->now_us;
	start->rtt_us = r->word[REC_RTT];
	start->cwnd_pkts = r->word[REC_CWND];
	start->delivered_pkts = r->word[REC_DELIVERED];
	start->mss_bytes = r->word[REC_MSS];
}

CCA_FN void rec_put_ack(struct rec_record *r, const struct cca_ack *ack)
{
	r->app_limited = ack->app_limited;
	r->cwnd_limited = ack->cwnd_limited;
	r->word[REC_RTT] = ack->rtt_us;
	r->word[REC_ACKED] = ack->acked_pkts;
	r->word[REC_LOST] = ack->lost_pkts;
	r->word[REC_INFLIGHT] = ack->inflight_pkts;
	r->word[REC_DELIVERED] = ack->delivered_pkts;
	r->word[REC_RATE_PKTS] = ack->rate_pkts;
	r->word[REC_RATE_INTERVAL] = ack->rate_interval_us;
	r->word[REC_CWND] = ack->cwnd_pkts;
	r->word[REC_MSS] = ack->mss_bytes;
	r->word[REC_TX_INFLIGHT] = ack->tx_inflight_pkts;
	r->word[REC_LOST_SINCE] = ack->lost_since_pkts;
}

CCA_FN void rec_get_ack(const struct rec_record *r, struct cca_ack *ack)
{
	ack->now_us = r->now_us;
	ack->app_limited = r->app_limited;
	ack->cwnd_limited = r->cwnd_limited;
	ack->rtt_us = r->word[REC_RTT];
	ack->acked_pkts = r->word[REC_ACKED];
	ack->lost_pkts = r->word[REC_LOST];
	ack->inflight_pkts = r->word[REC_INFLIGHT];
	ack->delivered_pkts = r->word[REC_DELIVERED];
	ack->rate_pkts = r->word[REC_RATE_PKTS];
	ack->rate_interval_us = r->word[REC_RATE_INTERVAL];
	ack->cwnd_pkts = r->word[REC_CWND];
	ack->mss_bytes = r->word[REC_MSS];
	ack->tx_inflight_pkts = r->word[REC_TX_INFLIGHT];
	ack->lost_since_pkts = r->word[REC_LOST_SINCE];
}

CCA_FN void rec_put_event(struct rec_record *r, const struct cca_event *ev)
{
	r->event = (u8)ev->kind;
	r->word[REC_INFLIGHT] = ev->inflight_pkts;
	r->word[REC_CWND] = ev->cwnd_pkts;
	r->word[REC_MSS] = ev->mss_bytes;
}

CCA_FN void rec_get_event(const struct rec_record *r, struct cca_event *ev)
{
	ev->kind = (enum cca_event_kind)r->event;
	ev->now_us = r->now_us;
	ev->inflight_pkts = r->word[REC_INFLIGHT];
	ev->cwnd_pkts = r->word[REC_CWND];
	ev->mss_bytes = r->word[REC_MSS];
}

CCA_FN void rec_put_loss(struct rec_record *r, const struct cca_loss *loss)
{
	r->app_limited = loss->app_limited;
	r->word[REC_DELIVERED] = loss->delivered_pkts;
	r->word[REC_TX_INFLIGHT] = loss->tx_inflight_pkts;
	r->word[REC_LOST_SINCE] = loss->lost_since_pkts;
}

CCA_FN void rec_get_loss(const struct rec_record *r, struct cca_loss *loss)
{
	loss->now_us = r->now_us;
	loss->app_limited = r->app_limited;
	loss->delivered_pkts = r->word[REC_DELIVERED];
	loss->tx_inflight_pkts = r->word[REC_TX_INFLIGHT];
	loss->lost_since_pkts = r->word[REC_LOST_SINCE];
}

CCA_FN void rec_put_decision(struct rec_record *r, const struct cca_decision *d)
{
	r->word[REC_PACING_LOW] = (u32)d->pacing_bytes_per_s;
	r->word[REC_PACING_HIGH] = (u32)(d->pacing_bytes_per_s >> 32);
	r->word[REC_CWND_OUT] = d->cwnd_pkts;
}

CCA_FN void rec_put_window(struct rec_record *r, const struct cca_window *w)
{
	r->word[REC_CWND] = w->cwnd_pkts;
	r->word[REC_SSTHRESH_IN] = w->ssthresh_pkts;
	r->word[REC_CREDIT_IN] = w->credit_pkts;
}

CCA_FN void rec_get_window(const struct rec_record *r, struct cca_window *w)
{
	w->cwnd_pkts = r->word[REC_CWND];
	w->ssthresh_pkts = r->word[REC_SSTHRESH_IN];
	w->credit_pkts = r->word[REC_CREDIT_IN];
}

CCA_FN void rec_put_window_after(struct rec_record *r, const struct cca_window *w)
{
	r->word[REC_CWND_OUT] = w->cwnd_pkts;
	r->word[REC_SSTHRESH_OUT] = w->ssthresh_pkts;
	r->word[REC_CREDIT_OUT] = w->credit_pkts;
}

/* A checksum of a parameter set, which represents the set in a record. */
CCA_FN u32 rec_set_sum(const void *params, u32 id)
{
	u32 i, sum = 2166136261u;

	for (i = 0; i < CCA_MAX_PARAMS && cca_param_at(id, i); i++)
		sum = (sum ^ cca_param_get(params, i)) * 16777619u;
	return sum;
}

/* --- parameters and table in force ----------------------------------------- */

CCA_FN void rec_put_params(struct rec_record *r, const void *params, u32 id, u32 version)
{
	u32 i;

	r->params = version;
	for (i = 0; i < CCA_MAX_PARAMS && cca_param_at(id, i); i++)
		r->word[i] = cca_param_get(params, i);
}

CCA_FN void rec_get_params(const struct rec_record *r, void *params, u32 id)
{
	u32 i;

	for (i = 0; i < CCA_MAX_PARAMS && cca_param_at(id, i); i++)
		cca_param_set(params, i, r->word[i]);
}

/* The table's i-th number; NULL after the last one. Unused entries have an index as well. */
CCA_FN u32 *rec_table_place(struct ens_table *t, u32 i)
{
	struct ens_axis *a;

	switch (i) {
	case 0:
		return &t->epoch_ms;
	case 1:
		return &t->estimate_ms;
	case 2:
		return &t->epsilon_pct;
	case 3:
		return &t->hold_back_permille;
	case 4:
		return &t->n_axes;
	case 5:
		return &t->n_classes;
	case 6:
		return &t->n_columns;
	default:
		break;
	}
	i -= 7;
	if (i < 3 * ENS_MAX_AXES) {
		a = &t->axis[i / 3];
		return i % 3 == 0 ? &a->step : i % 3 == 1 ? &a->count : &a->per_octave;
	}
	i -= 3 * ENS_MAX_AXES;
	if (i < ENS_MAX_CLASSES)
		return &t->classes[i].percentile;
	i -= ENS_MAX_CLASSES;
	if (i < ENS_MAX_CLASSES)
		return &t->classes[i].queueing_delay_us;
	i -= ENS_MAX_CLASSES;
	if (i < CCA_MAX_PARAMS)
		return &t->column[i];
	i -= CCA_MAX_PARAMS;
	return i < ENS_MAX_AXES ? &t->axis[i].number : (u32 *)0;
}

/* part: parts 0 to REC_TABLE_RECORDS - 1 contain the header, later parts the values. */
CCA_FN void rec_put_table(struct rec_record *r, const struct ens_table *t, u32 part)
{
	u32 values = ens_rows(t) * t->n_columns;
	u32 first = part * REC_VALUES;
	const u32 *place;
	u32 i, at;

	r->table = t->generation;
	r->kind = part < REC_TABLE_RECORDS ? REC_TABLE : REC_VALUE;
	r->flow = part;
	for (i = 0; i < REC_VALUES; i++) {
		if (part < REC_TABLE_RECORDS) {
			place = rec_table_place((struct ens_table *)t, first + i);
			r->word[i] = place ? *place : 0;
		} else {
			at = first - REC_TABLE_RECORDS * REC_VALUES + i;
			r->word[i] = at < values ? t->values[at] : 0;
		}
	}
}

CCA_FN u32 rec_table_records(const struct ens_table *t)
{
	/* At most 2^19 values. */
	return REC_TABLE_RECORDS + (ens_rows(t) * t->n_columns + REC_VALUES - 1) / REC_VALUES;
}

/* Reads one part of the header that rec_put_table() wrote. */
CCA_FN void rec_get_table(const struct rec_record *r, struct ens_table *t)
{
	u32 *place;
	u32 i;

	t->generation = r->table;
	for (i = 0; i < REC_VALUES; i++) {
		place = rec_table_place(t, r->flow * REC_VALUES + i);
		if (place)
			*place = r->word[i];
	}
	for (i = 0; i < ENS_MAX_AXES; i++)
		t->axis[i].scale = t->axis[i].per_octave ? ENS_LOG : ENS_LINEAR;
}

CCA_FN void rec_get_values(const struct rec_record *r, u32 *values, u32 count)
{
	u32 i, at;

	for (i = 0; i < REC_VALUES; i++) {
		at = (r->flow - REC_TABLE_RECORDS) * REC_VALUES + i;
		if (at < count)
			values[at] = r->word[i];
	}
}

#endif /* CCA_RECORDING_H */
