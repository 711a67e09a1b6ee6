/* SPDX-License-Identifier: MIT */
/*
 * Gives the core again what a recording (kmod/core/recording.h) says that it was
 * given, and compares what it makes of it, record by record, bit by bit.
 */
#ifndef TESTS_REPLAY_H
#define TESTS_REPLAY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gr_recording.h"
#include "reno.h"

#define REPLAY_MAX_FLOWS 65536u
#define REPLAY_MAX_TOLD 4096u		/* tables, parameters */

struct replay_flow {
	u32 number;
	struct gr_flow gr;
	struct gr_params defaults;
	struct reno_state reno;
};

struct replay_params {
	u32 version;
	struct gr_params params;
};

struct replay {
	struct rec_header header;
	const struct rec_record *records;
	struct replay_flow *flows;
	struct ens_table *tables;
	struct replay_params *params;
	u32 n_flows, n_tables, n_params;
	/* the report */
	u32 replayed, differing, first_differing, kinds[REC_UNDO + 1], events[CCA_IDLE_RESTART + 1];
	u32 turns[ENS_KEPT + 1], slow_start;
	char problem[160];		/* why it is refused; empty: it is not */
};

static inline int replay_refuse(struct replay *r, u32 index, const char *why)
{
	snprintf(r->problem, sizeof(r->problem), "record %u: %s", index, why);
	return -1;
}

/* --- what a recording tells of -------------------------------------------------- */

static inline struct replay_flow *replay_find_flow(struct replay *r, u32 number)
{
	u32 i;

	/* The newest are asked for most. */
	for (i = r->n_flows; i > 0; i--)
		if (r->flows[i - 1].number == number)
			return &r->flows[i - 1];
	return NULL;
}

static inline struct ens_table *replay_find_table(struct replay *r, u64 generation)
{
	u32 i;

	for (i = 0; i < r->n_tables; i++)
		if (r->tables[i].generation == generation)
			return &r->tables[i];
	return NULL;
}

static inline struct replay_params *replay_find_params(struct replay *r, u32 version)
{
	u32 i;

	for (i = 0; i < r->n_params; i++)
		if (r->params[i].version == version)
			return &r->params[i];
	return NULL;
}

static inline int replay_params(struct replay *r, u32 index, const struct rec_record *rec)
{
	struct replay_params *p = replay_find_params(r, rec->params);

	if (!p && r->n_params == REPLAY_MAX_TOLD)
		return replay_refuse(r, index, "expected fewer parameter sets");
	if (!p)
		p = &r->params[r->n_params++];
	p->version = rec->params;
	rec_get_params(rec, &p->params, CCA_ID_gr);
	return 0;
}

static inline bool replay_is_sound(const struct ens_table *t)
{
	u32 i;

	if (!t->n_axes || t->n_axes > ENS_MAX_AXES || !t->n_classes || !t->n_columns ||
	    t->n_classes > ENS_MAX_CLASSES || t->n_columns > CCA_MAX_PARAMS)
		return false;
	for (i = 0; i < t->n_axes; i++)
		if (!t->axis[i].step || !t->axis[i].count || t->axis[i].count > ENS_MAX_LEVELS)
			return false;
	for (i = 0; i < t->n_columns; i++)
		if (!cca_param_at(CCA_ID_gr, t->column[i]))
			return false;
	return true;
}

static inline int replay_table(struct replay *r, u32 index, const struct rec_record *rec)
{
	struct ens_table *t = replay_find_table(r, rec->table);

	if (!t && (rec->flow || r->n_tables == REPLAY_MAX_TOLD))
		return replay_refuse(r, index, "expected the first part of a table, and not too many");
	if (!t) {
		t = &r->tables[r->n_tables++];
		memset(t, 0, sizeof(*t));
	}
	if (rec->kind == REC_TABLE) {
		rec_get_table(rec, t);
		return 0;
	}
	if (!replay_is_sound(t) || rec->flow < REC_TABLE_RECORDS)
		return replay_refuse(r, index, "expected a table's values behind a whole table");
	if (!t->values)
		t->values = (u32 *)calloc(1, ens_values_bytes(t));
	rec_get_values(rec, t->values, ens_rows(t) * t->n_columns);
	return 0;
}

/* --- GR ------------------------------------------------------------------------- */

static inline int replay_gr_start(struct replay *r, u32 index, const struct rec_record *rec,
				  struct replay_flow *f, struct rec_record *mine)
{
	struct replay_params *p = replay_find_params(r, rec->params);
	struct cca_decision d;
	struct cca_start start;

	if (!p)
		return replay_refuse(r, index, "expected its parameters before a start");
	rec_get_start(rec, &start);
	f->defaults = p->params;
	gr_flow_init(&f->gr, &f->defaults, &start, rec->delay_class, rec->word[REC_HASH], &d);
	rec_put_start(mine, &start, f->gr.clock.delay_class, f->gr.hash, rec->params);
	gr_put_outcome(mine, &f->gr, &d);
	return 0;
}

static inline int replay_gr_ack(struct replay *r, u32 index, const struct rec_record *rec,
				struct replay_flow *f, struct rec_record *mine)
{
	const struct ens_table *t = NULL;
	struct replay_params *p;
	struct cca_decision d;
	struct cca_ack ack;

	if (rec->turn != ENS_WAITED) {
		p = replay_find_params(r, rec->params);
		t = rec->table ? replay_find_table(r, rec->table) : NULL;
		if (!p || (rec->table && (!t || !t->values)))
			return replay_refuse(r, index, "expected its table and parameters before a turn");
		f->defaults = p->params;
	}
	rec_get_ack(rec, &ack);
	gr_flow_set_class(&f->gr, rec->delay_class);
	gr_flow_on_ack(&f->gr, &f->defaults, t, &ack, &d);
	gr_put_ack(mine, &f->gr, &ack, rec->table, rec->params);
	gr_put_outcome(mine, &f->gr, &d);
	r->turns[f->gr.turn]++;
	r->slow_start += f->gr.gr.mode == GR_SLOW_START;
	return 0;
}

static inline void replay_gr_event(const struct rec_record *rec, struct replay_flow *f,
				   struct rec_record *mine)
{
	struct cca_decision d;
	struct cca_event ev;

	rec_get_event(rec, &ev);
	gr_flow_on_event(&f->gr, &ev, &d);
	rec_put_event(mine, &ev);
	gr_put_outcome(mine, &f->gr, &d);
}

static inline int replay_gr(struct replay *r, u32 index, const struct rec_record *rec,
			    struct replay_flow *f, struct rec_record *mine)
{
	switch (rec->kind) {
	case REC_START:
		return replay_gr_start(r, index, rec, f, mine);
	case REC_ACK:
		return replay_gr_ack(r, index, rec, f, mine);
	case REC_EVENT:
		replay_gr_event(rec, f, mine);
		return 0;
	default:
		return replay_refuse(r, index, "expected a kind of control mode");
	}
}

/* --- Reno ------------------------------------------------------------------------- */

static inline void replay_reno_window(struct replay *r, const struct rec_record *rec,
				      struct replay_flow *f, struct rec_record *mine)
{
	struct cca_window before, w;

	rec_get_window(rec, &before);
	w = before;
	rec_put_window(mine, &before);
	mine->word[REC_ACKED] = rec->word[REC_ACKED];
	if (rec->kind == REC_GROW)
		reno_grow(&f->reno, &w, rec->word[REC_ACKED]);
	else if (rec->kind == REC_SSTHRESH)
		mine->word[REC_RESULT] = reno_ssthresh(&f->reno, &w);
	else
		mine->word[REC_RESULT] = reno_undo(&f->reno, &w);
	rec_put_window_after(mine, &w);
	r->slow_start += rec->kind == REC_GROW && before.cwnd_pkts < before.ssthresh_pkts;
}

static inline int replay_reno(struct replay *r, u32 index, const struct rec_record *rec,
			      struct replay_flow *f, struct rec_record *mine)
{
	struct cca_start start;
	struct cca_event ev;
	struct cca_ack ack;

	switch (rec->kind) {
	case REC_START:
		rec_get_start(rec, &start);
		reno_init(&f->reno);
		rec_put_start(mine, &start, 0, 0, 0);
		return 0;
	case REC_TOLD:
		rec_get_ack(rec, &ack);
		reno_on_ack(&f->reno, &ack);
		rec_put_ack(mine, &ack);
		return 0;
	case REC_EVENT:			/* a note: the core of window mode is not told */
		rec_get_event(rec, &ev);
		rec_put_event(mine, &ev);
		return 0;
	case REC_GROW:
	case REC_SSTHRESH:
	case REC_UNDO:
		replay_reno_window(r, rec, f, mine);
		return 0;
	default:
		return replay_refuse(r, index, "expected a kind of window mode");
	}
}

/* --- the whole ---------------------------------------------------------------------- */

static inline int replay_event(struct replay *r, u32 index, const struct rec_record *rec)
{
	struct replay_flow *f = replay_find_flow(r, rec->flow);
	struct rec_record mine;
	int err;

	if (!f != (rec->kind == REC_START) || r->n_flows == REPLAY_MAX_FLOWS)
		return replay_refuse(r, index, "expected a flow's start first, once, and not too many");
	if (rec->event > CCA_IDLE_RESTART || rec->turn > ENS_KEPT)
		return replay_refuse(r, index, "expected a known event and turn");
	if (!f) {
		f = &r->flows[r->n_flows++];
		f->number = rec->flow;
	}
	rec_init(&mine, (enum rec_kind)rec->kind, rec->flow, rec->now_us);
	err = r->header.id == CCA_ID_gr ? replay_gr(r, index, rec, f, &mine) :
					  replay_reno(r, index, rec, f, &mine);
	if (err)
		return err;
	rec_finish(&mine);
	r->events[rec->event] += rec->kind == REC_EVENT;
	r->replayed++;
	if (memcmp(&mine, rec, sizeof(mine)) && !r->differing++)
		r->first_differing = index;
	return 0;
}

static inline int replay_record(struct replay *r, u32 index, const struct rec_record *rec)
{
	if (rec->kind == REC_NOTHING || rec->kind > REC_UNDO)
		return replay_refuse(r, index, "expected a kind, found a record that was never finished");
	if (rec->word[REC_SUM] != rec_sum(rec))
		return replay_refuse(r, index, "its sum is wrong: the recording is damaged");
	r->kinds[rec->kind]++;
	if (rec->kind == REC_PARAMS)
		return replay_params(r, index, rec);
	if (rec->kind == REC_TABLE || rec->kind == REC_VALUE)
		return replay_table(r, index, rec);
	return replay_event(r, index, rec);
}

static inline int replay_open(struct replay *r, const void *bytes, size_t len)
{
	const struct rec_header *h = &r->header;

	memset(r, 0, sizeof(*r));
	if (len < sizeof(*h))
		return replay_refuse(r, 0, "expected a header");
	memcpy(&r->header, bytes, sizeof(*h));
	if (h->magic != REC_MAGIC || h->version != REC_VERSION || h->header_bytes != sizeof(*h) ||
	    h->record_bytes != sizeof(struct rec_record))
		return replay_refuse(r, 0, "expected the header of a recording of this version");
	if (h->id != CCA_ID_gr && h->id != CCA_ID_reno)
		return replay_refuse(r, 0, "expected a recording of gr or reno");
	if (h->lost)
		return replay_refuse(r, h->records, "events were lost: it is not whole");
	if (len - sizeof(*h) != (size_t)h->records * sizeof(struct rec_record))
		return replay_refuse(r, h->records, "expected as many records as the header says");
	r->records = (const struct rec_record *)(const void *)((const char *)bytes + sizeof(*h));
	r->flows = (struct replay_flow *)calloc(REPLAY_MAX_FLOWS, sizeof(*r->flows));
	r->tables = (struct ens_table *)calloc(REPLAY_MAX_TOLD, sizeof(*r->tables));
	r->params = (struct replay_params *)calloc(REPLAY_MAX_TOLD, sizeof(*r->params));
	return 0;
}

/* 0: replayed, whatever it gave. -1: refused, and r->problem says why. */
static inline int replay_run(struct replay *r, const void *bytes, size_t len)
{
	u32 i;

	if (replay_open(r, bytes, len))
		return -1;
	for (i = 0; i < r->header.records; i++)
		if (replay_record(r, i, &r->records[i]))
			return -1;
	return 0;
}

static inline void replay_close(struct replay *r)
{
	u32 i;

	for (i = 0; i < r->n_tables; i++)
		free(r->tables[i].values);
	free(r->flows);
	free(r->tables);
	free(r->params);
}

#endif /* TESTS_REPLAY_H */
