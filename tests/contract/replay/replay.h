/* SPDX-License-Identifier: MIT */
/*
 * Gives the core again what a recording (kmod/core/recording.h) says that it was
 * given, and compares what it makes of it, record by record, bit by bit.
 */
#ifndef TESTS_REPLAY_H
#define TESTS_REPLAY_H

#include "replay_rtcp.h"

/* --- GR ------------------------------------------------------------------------- */

static inline int replay_gr_start(struct replay *r, u32 index, const struct rec_record *rec,
				  struct replay_flow *f, struct rec_record *mine)
{
	struct cca_decision d;
	struct cca_start start;

	if (replay_take_params(r, index, rec, f))
		return -1;
	rec_get_start(rec, &start);
	gr_flow_init(&f->gr, (const struct gr_params *)(const void *)f->defaults, &start,
		     rec->delay_class, rec->word[REC_HASH], &d);
	rec_put_start(mine, &start, f->gr.ens.clock.delay_class, f->gr.ens.hash, rec->params);
	gr_put_outcome(mine, &f->gr, &d);
	return 0;
}

static inline int replay_gr_ack(struct replay *r, u32 index, const struct rec_record *rec,
				struct replay_flow *f, struct rec_record *mine)
{
	const struct ens_table *t;
	struct cca_decision d;
	struct cca_ack ack;

	if (replay_take_turn(r, index, rec, f, &t))
		return -1;
	rec_get_ack(rec, &ack);
	ens_flow_set_class(&f->gr.ens, rec->delay_class);
	gr_flow_on_ack(&f->gr, (const struct gr_params *)(const void *)f->defaults, t, &ack, &d);
	ens_flow_put_ack(mine, &f->gr.ens, &ack, rec->table, rec->params);
	gr_put_outcome(mine, &f->gr, &d);
	r->turns[f->gr.ens.epoch_end]++;
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

/* --- window mode ------------------------------------------------------------------ */

/* What the kernel asked: growth, the threshold of an episode, the window behind an undo. */
static inline void replay_asked(struct replay *r, const struct rec_record *rec,
				struct replay_flow *f, struct rec_record *mine)
{
	bool is_reno = r->header.id == CCA_ID_reno;
	u32 acked_pkts = rec->word[REC_ACKED], result = 0;
	struct cca_window before, w;

	rec_get_window(rec, &before);
	w = before;
	if (rec->kind == REC_GROW && is_reno)
		reno_grow(&f->reno, &w, acked_pkts);
	else if (rec->kind == REC_GROW)
		roccet_flow_grow(&f->roccet, &w, acked_pkts);
	else if (rec->kind == REC_SSTHRESH)
		result = is_reno ? reno_ssthresh(&f->reno, &w) : roccet_flow_ssthresh(&f->roccet, &w);
	else
		result = is_reno ? reno_undo(&f->reno, &w) : roccet_flow_undo(&f->roccet, &w);
	rec_put_window(mine, &before);
	rec_put_window_after(mine, &w);
	mine->word[REC_ACKED] = acked_pkts;
	mine->word[REC_RESULT] = result;
	r->slow_start += rec->kind == REC_GROW && before.cwnd_pkts < before.ssthresh_pkts;
}

/* Reno is told of events only for who reads the recording. */
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
	case REC_WINDOW_ACK:
		rec_get_ack(rec, &ack);
		reno_on_ack(&f->reno, &ack);
		rec_put_ack(mine, &ack);
		return 0;
	case REC_EVENT:
		rec_get_event(rec, &ev);
		rec_put_event(mine, &ev);
		return 0;
	default:
		return replay_refuse(r, index, "expected a kind of window mode");
	}
}

static inline int replay_roccet_start(struct replay *r, u32 index, const struct rec_record *rec,
				      struct replay_flow *f, struct rec_record *mine)
{
	struct cca_start start;

	if (replay_take_params(r, index, rec, f))
		return -1;
	rec_get_start(rec, &start);
	roccet_flow_init(&f->roccet, (const struct roccet_params *)(const void *)f->defaults, &start,
			 rec->delay_class, rec->word[REC_HASH]);
	rec_put_start(mine, &start, f->roccet.ens.clock.delay_class, f->roccet.ens.hash, rec->params);
	return 0;
}

static inline int replay_roccet_ack(struct replay *r, u32 index, const struct rec_record *rec,
				    struct replay_flow *f, struct rec_record *mine)
{
	const struct ens_table *t;
	struct cca_window before, w;
	struct cca_ack ack;

	if (replay_take_turn(r, index, rec, f, &t))
		return -1;
	roccet_get_ack(rec, &ack, &before);
	w = before;
	ens_flow_set_class(&f->roccet.ens, rec->delay_class);
	roccet_flow_on_ack(&f->roccet, (const struct roccet_params *)(const void *)f->defaults, t,
			   &ack, &w);
	ens_flow_put_ack(mine, &f->roccet.ens, &ack, rec->table, rec->params);
	roccet_put_windows(mine, &before, &w);
	r->turns[f->roccet.ens.epoch_end]++;
	r->lowered += w.cwnd_pkts < before.cwnd_pkts;
	return 0;
}

static inline int replay_roccet(struct replay *r, u32 index, const struct rec_record *rec,
				struct replay_flow *f, struct rec_record *mine)
{
	struct cca_event ev;
	int err = 0;

	switch (rec->kind) {
	case REC_START:
		err = replay_roccet_start(r, index, rec, f, mine);
		break;
	case REC_WINDOW_ACK:
		err = replay_roccet_ack(r, index, rec, f, mine);
		break;
	case REC_EVENT:
		rec_get_event(rec, &ev);
		roccet_flow_on_event(&f->roccet, &ev);
		rec_put_event(mine, &ev);
		break;
	default:
		return replay_refuse(r, index, "expected a kind of window mode");
	}
	roccet_put_outcome(mine, &f->roccet);
	return err;
}

/* Rows are recalled: of GR and ROCCET. */
static inline int replay_recall(struct replay *r, u32 index, const struct rec_record *rec,
				struct replay_flow *f, struct rec_record *mine)
{
	bool is_gr = r->header.id == CCA_ID_gr;
	struct ens_flow *ens = is_gr ? &f->gr.ens : &f->roccet.ens;
	const struct ens_table *t;

	if (r->header.id != CCA_ID_gr && r->header.id != CCA_ID_roccet)
		return replay_refuse(r, index, "expected no recall of rows, which it has none of");
	if (replay_take_turn(r, index, rec, f, &t))
		return -1;
	ens_flow_set_class(ens, rec->delay_class);
	if (is_gr)
		gr_flow_recall(&f->gr, (const struct gr_params *)(const void *)f->defaults, t,
			       rec->now_us);
	else
		roccet_flow_recall(&f->roccet, (const struct roccet_params *)(const void *)f->defaults,
				   t, rec->now_us);
	ens_flow_put_recall(mine, ens, rec->table, rec->params);
	ens_flow_put_outcome(mine, ens, is_gr ? (const void *)&f->gr.params :
						(const void *)&f->roccet.params, r->header.id);
	return 0;
}

/* --- the whole ---------------------------------------------------------------------- */

static inline int replay_flow(struct replay *r, u32 index, const struct rec_record *rec,
			      struct replay_flow *f, struct rec_record *mine)
{
	if (replay_is_rtcp(r->header.id))
		return replay_rtcp(r, index, rec, f, mine);
	if (rec->kind == REC_RECALL)
		return replay_recall(r, index, rec, f, mine);
	if (r->header.id == CCA_ID_gr)
		return replay_gr(r, index, rec, f, mine);
	if (rec->kind == REC_GROW || rec->kind == REC_SSTHRESH || rec->kind == REC_UNDO) {
		replay_asked(r, rec, f, mine);
		return 0;
	}
	return r->header.id == CCA_ID_reno ? replay_reno(r, index, rec, f, mine) :
					     replay_roccet(r, index, rec, f, mine);
}

/* A timeout's event tells what it takes for lost: the next ACK has none to tell. */
static inline void replay_count_losses(struct replay *r, const struct rec_record *rec,
				       struct replay_flow *f)
{
	if (rec->kind == REC_EVENT && rec->event == CCA_TIMEOUT)
		f->timed_out = true;
	if (rec->kind != REC_WINDOW_ACK)
		return;
	r->told_lost += rec->word[REC_LOST];
	if (f->timed_out)
		r->told_twice += rec->word[REC_LOST];
	f->timed_out = false;
}

static inline int replay_event(struct replay *r, u32 index, const struct rec_record *rec)
{
	struct replay_flow *f = replay_find_flow(r, rec->flow);
	struct rec_record mine;

	if (!f != (rec->kind == REC_START) || r->n_flows == REPLAY_MAX_FLOWS)
		return replay_refuse(r, index, "expected a flow's start first, once, and not too many");
	if (rec->event > CCA_ECN || rec->epoch_end > ENS_KEPT)
		return replay_refuse(r, index, "expected a known event and turn");
	if (!f) {
		f = &r->flows[r->n_flows++];
		f->number = rec->flow;
	}
	rec_init(&mine, (enum rec_kind)rec->kind, rec->flow, rec->now_us);
	if (replay_flow(r, index, rec, f, &mine))
		return -1;
	rec_finish(&mine);
	r->events[rec->event] += rec->kind == REC_EVENT;
	replay_count_losses(r, rec, f);
	r->replayed++;
	if (memcmp(&mine, rec, sizeof(mine)) && !r->differing++)
		r->first_differing = index;
	return 0;
}

static inline int replay_record(struct replay *r, u32 index, const struct rec_record *rec)
{
	u32 last_kind = replay_is_rtcp(r->header.id) ? (u32)RTCP_REC_LOSS : (u32)REC_RECALL;

	if (rec->kind == REC_NOTHING || rec->kind > last_kind)
		return replay_refuse(r, index, "expected a kind, found a record that was never finished");
	if (rec->word[REC_SUM] != rec_sum(rec))
		return replay_refuse(r, index, "its sum is wrong: the recording is damaged");
	r->kinds[rec->kind]++;
	if (rec->kind == REC_PARAMS)
		return replay_params(r, index, rec);
	if (rec->kind == REC_TABLE || rec->kind == REC_VALUE)
		return replay_table(r, index, rec);
	if (rec->kind == RTCP_REC_CLIENT)
		return replay_client(r, index, rec);
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
	if (h->id != CCA_ID_gr && h->id != CCA_ID_reno && h->id != CCA_ID_roccet &&
	    !replay_is_rtcp(h->id))
		return replay_refuse(r, 0, "expected a recording of gr, reno, roccet or rtcp_*");
	if (h->lost)
		return replay_refuse(r, h->records, "events were lost: it is not whole");
	if (len - sizeof(*h) != (size_t)h->records * sizeof(struct rec_record))
		return replay_refuse(r, h->records, "expected as many records as the header says");
	r->records = (const struct rec_record *)(const void *)((const char *)bytes + sizeof(*h));
	r->flows = (struct replay_flow *)calloc(REPLAY_MAX_FLOWS, sizeof(*r->flows));
	r->tables = (struct ens_table *)calloc(REPLAY_MAX_TOLD, sizeof(*r->tables));
	r->params = (struct replay_params *)calloc(REPLAY_MAX_TOLD, sizeof(*r->params));
	r->clients = (struct replay_client *)calloc(REPLAY_MAX_TOLD, sizeof(*r->clients));
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
	free(r->clients);
}

#endif /* TESTS_REPLAY_H */
