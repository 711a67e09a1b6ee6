/* SPDX-License-Identifier: MIT */
/* What a recording (kmod/core/recording.h) tells of beside events: flows, tables, parameters. */
#ifndef TESTS_REPLAY_STATE_H
#define TESTS_REPLAY_STATE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gr_recording.h"
#include "reno.h"
#include "roccet_recording.h"
#include "rtcp_recording.h"

#define REPLAY_MAX_FLOWS 65536u
#define REPLAY_MAX_TOLD 4096u		/* tables, parameters, clients */

struct replay_flow {
	u32 number;
	struct gr_flow gr;
	struct roccet_flow roccet;
	struct reno_state reno;
	struct rtcp_cubic_flow rtcp_cubic;
	struct rtcp_bbr1_flow rtcp_bbr;
	struct rtcp_bbr3_flow rtcp_bbr3;
	struct cca_decision decision;	/* R-TCP over BBR: in force */
	struct rtcp_client own;		/* R-TCP: where the client's number is 0 */
	u32 client;
	bool timed_out;			/* since its last ACK */
	u32 defaults[CCA_MAX_PARAMS];	/* parameters of its algorithm */
};

struct replay_client {
	u32 number;
	u32 parts;			/* told of, a bit each */
	struct rtcp_client client;
};

struct replay_params {
	u32 version;
	u32 value[CCA_MAX_PARAMS];
};

struct replay {
	struct rec_header header;
	const struct rec_record *records;
	struct replay_flow *flows;
	struct ens_table *tables;
	struct replay_params *params;
	struct replay_client *clients;
	u32 n_flows, n_tables, n_params, n_clients;
	/* the report */
	u32 replayed, differing, first_differing, kinds[RTCP_REC_KINDS];
	u32 events[CCA_ECN + 1], turns[ENS_KEPT + 1], slow_start, lowered;
	u32 limited, probing, shared, moved;	/* R-TCP */
	u32 told_lost, told_twice;	/* window mode: by ACKs, and by ACKs right behind a timeout */
	char problem[160];		/* why it is refused; empty: it is not */
};

static inline int replay_refuse(struct replay *r, u32 index, const char *why)
{
	snprintf(r->problem, sizeof(r->problem), "record %u: %s", index, why);
	return -1;
}

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

static inline struct replay_client *replay_find_client(struct replay *r, u32 number)
{
	u32 i;

	for (i = 0; i < r->n_clients; i++)
		if (r->clients[i].number == number)
			return &r->clients[i];
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
	rec_get_params(rec, p->value, r->header.id);
	return 0;
}

static inline bool replay_is_sound(const struct ens_table *t, u32 id)
{
	u32 i;

	if (!t->n_axes || t->n_axes > ENS_MAX_AXES || !t->n_columns ||
	    t->n_classes > ENS_MAX_CLASSES || t->n_columns > CCA_MAX_PARAMS)
		return false;
	for (i = 0; i < t->n_axes; i++)
		if (!t->axis[i].step || !t->axis[i].count || t->axis[i].count > ENS_MAX_LEVELS)
			return false;
	for (i = 0; i < t->n_columns; i++)
		if (!cca_param_at(id, t->column[i]))
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
	if (!replay_is_sound(t, r->header.id) || rec->flow < REC_TABLE_RECORDS)
		return replay_refuse(r, index, "expected a table's values behind a whole table");
	if (!t->values)
		t->values = (u32 *)calloc(1, ens_values_bytes(t));
	rec_get_values(rec, t->values, ens_rows(t) * t->n_columns);
	return 0;
}

/* What the host had in force at a flow's start, or at the turn that a record tells of. */
static inline int replay_take_params(struct replay *r, u32 index, const struct rec_record *rec,
				     struct replay_flow *f)
{
	struct replay_params *p = replay_find_params(r, rec->params);

	if (!p)
		return replay_refuse(r, index, "expected its parameters before it");
	memcpy(f->defaults, p->value, sizeof(f->defaults));
	return 0;
}

static inline int replay_take_turn(struct replay *r, u32 index, const struct rec_record *rec,
				   struct replay_flow *f, const struct ens_table **t)
{
	*t = NULL;
	if (rec->epoch_end == ENS_WAITED)
		return 0;
	*t = rec->table ? replay_find_table(r, rec->table) : NULL;
	if (rec->table && (!*t || !(*t)->values))
		return replay_refuse(r, index, "expected its table before a turn");
	return replay_take_params(r, index, rec, f);
}

#endif /* TESTS_REPLAY_STATE_H */
