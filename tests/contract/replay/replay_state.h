/* SPDX-License-Identifier: MIT */
/* What a recording (kmod/core/recording.h) holds beside events: flows, tables, parameters, clients. */
#ifndef TESTS_REPLAY_STATE_H
#define TESTS_REPLAY_STATE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../flow.h"
#include "gr_recording.h"
#include "roccet_recording.h"
#include "rtcp_recording.h"

#define REPLAY_MAX_FLOWS 65536u
#define REPLAY_MAX_OTHERS 4096u		/* tables, parameter sets, clients */

struct replay_flow {
	u32 number;
	struct flow f;
	u32 client;			/* R-TCP: the client's number; 0: `own` */
	struct rtcp_client own;
	bool timed_out;			/* since its last ACK */
};

struct replay_client {
	u32 number;
	u32 parts;			/* that the recording has had, a bit each */
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
	u32 replayed, differing, first_differing, kinds[REC_KINDS];
	u32 events[CCA_ECN + 1], turns[ENS_KEPT + 1], slow_start, lowered;
	u32 limited, probing, shared, moved;	/* R-TCP */
	u32 told_lost, told_twice;	/* window mode: by ACKs, and by ACKs right after a timeout */
	char problem[160];		/* why the recording is refused; empty: it is not */
};

static inline int replay_refuse(struct replay *r, u32 index, const char *why)
{
	snprintf(r->problem, sizeof(r->problem), "record %u: %s", index, why);
	return -1;
}

/* The place of the newest entry of `array` whose field has this value; n: none. */
#define REPLAY_FIND(i, array, n, field, value) \
	for ((i) = (n); (i) > 0 && (array)[(i) - 1].field != (value); (i)--) \
		; \
	(i) = (i) ? (i) - 1 : (n)

/* --- parameters, tables, clients ------------------------------------------------ */

static inline int replay_params(struct replay *r, u32 index, const struct rec_record *rec)
{
	u32 i;

	REPLAY_FIND(i, r->params, r->n_params, version, rec->params);
	if (i == REPLAY_MAX_OTHERS)
		return replay_refuse(r, index, "expected fewer parameter sets");
	r->n_params += i == r->n_params;
	r->params[i].version = rec->params;
	rec_get_params(rec, r->params[i].value, r->header.id);
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
	struct ens_table *t;
	u32 i;

	REPLAY_FIND(i, r->tables, r->n_tables, generation, rec->table);
	if (i == r->n_tables && (rec->flow || i == REPLAY_MAX_OTHERS))
		return replay_refuse(r, index, "expected the first part of a table, and not too many");
	r->n_tables += i == r->n_tables;
	t = &r->tables[i];
	if (rec->kind == REC_TABLE) {
		rec_get_table(rec, t);
		return 0;
	}
	if (!replay_is_sound(t, r->header.id) || rec->flow < REC_TABLE_RECORDS)
		return replay_refuse(r, index, "expected a table's values after a whole table");
	if (!t->values)
		t->values = (u32 *)calloc(1, ens_values_bytes(t));
	rec_get_values(rec, t->values, ens_rows(t) * t->n_columns);
	return 0;
}

/* A part of a client's state: where it comes up first, and after events of flows without a recording. */
static inline int replay_client(struct replay *r, u32 index, const struct rec_record *rec)
{
	u32 number = rec->word[RTCP_REC_NUMBER], i;

	REPLAY_FIND(i, r->clients, r->n_clients, number, number);
	if (!number || rec->flow >= RTCP_REC_PARTS || i == REPLAY_MAX_OTHERS)
		return replay_refuse(r, index, "expected a part of a client, and not too many");
	r->n_clients += i == r->n_clients;
	r->clients[i].number = number;
	rtcp_get_client(rec, &r->clients[i].client);
	r->clients[i].parts |= 1u << rec->flow;
	return 0;
}

/* The flow's client; NULL where the recording has not had all of it. */
static inline struct rtcp_client *replay_client_of(struct replay *r, struct replay_flow *f)
{
	u32 i;

	if (!f->client)
		return &f->own;
	REPLAY_FIND(i, r->clients, r->n_clients, number, f->client);
	return i < r->n_clients && r->clients[i].parts == (1u << RTCP_REC_PARTS) - 1 ?
		&r->clients[i].client : NULL;
}

/* What the host had in force at a flow's start, or at the end of an epoch. */
static inline int replay_take_params(struct replay *r, u32 index, const struct rec_record *rec,
				     struct flow *f)
{
	u32 i;

	REPLAY_FIND(i, r->params, r->n_params, version, rec->params);
	if (i == r->n_params)
		return replay_refuse(r, index, "expected its parameters before it");
	memcpy(f->p.word, r->params[i].value, sizeof(f->p.word));
	return 0;
}

static inline int replay_take_table(struct replay *r, u32 index, const struct rec_record *rec,
				    struct flow *f)
{
	u32 i;

	f->table = NULL;
	if (rec->epoch_end == ENS_WAITED)
		return 0;
	REPLAY_FIND(i, r->tables, r->n_tables, generation, rec->table);
	if (rec->table && (i == r->n_tables || !r->tables[i].values))
		return replay_refuse(r, index, "expected its table before the end of an epoch");
	f->table = rec->table ? &r->tables[i] : NULL;
	return replay_take_params(r, index, rec, f);
}

#endif /* TESTS_REPLAY_STATE_H */
