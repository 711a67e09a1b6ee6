/* SPDX-License-Identifier: MIT */
/*
 * Gives the core the inputs of a recording (kmod/core/recording.h) again, and compares the
 * results record by record, bit by bit.
 *
 * Flows of R-TCP come in the order in which they had their client's lock. Their client is one
 * of the recording's (RTCP_REC_CLIENT), or their own.
 */
#ifndef TESTS_REPLAY_H
#define TESTS_REPLAY_H

#include "replay_state.h"

/* --- events --------------------------------------------------------------------- */

static inline void replay_put_outcome(struct flow *f, struct rec_record *mine)
{
	switch (f->id) {
	case CCA_ID_gr: gr_put_outcome(mine, &f->gr, &f->d); break;
	case CCA_ID_roccet: roccet_put_outcome(mine, &f->roccet); break;
	case CCA_ID_sira: sira_put_outcome(mine, &f->sira, &f->d); break;
	case CCA_ID_cubic: cubic_put_outcome(mine, &f->cubic_rows); break;
	case CCA_ID_bbr: bbr1_put_outcome(mine, &f->bbr_rows, &f->d); break;
	case CCA_ID_bbr3: bbr3_put_outcome(mine, &f->bbr3_rows, &f->d); break;
	case CCA_ID_rtcp_bbr:
	case CCA_ID_rtcp_bbr3: rec_put_decision(mine, &f->d); /* fall through */
	case CCA_ID_rtcp_cubic:
		rtcp_put_outcome(mine, (struct rtcp_ens *)flow_ens(f), flow_params(f), f->client,
				 flow_rtcp(f), f->id);
		break;
	}
}

static inline void replay_put_windows(const struct flow *f, const struct cca_window *before,
				      struct rec_record *mine)
{
	rec_put_window(mine, before);
	rec_put_window_after(mine, &f->w);
}

static inline void replay_start(const struct rec_record *rec, struct flow *f, struct rec_record *mine)
{
	struct ens_flow *ens = flow_ens(f);
	struct cca_window before = f->w;
	struct cca_start start;

	rec_get_start(rec, &start);
	flow_init(f, &start, rec->delay_class, rec->word[REC_HASH]);
	rec_put_start(mine, &start, ens ? ens->clock.delay_class : 0, ens ? ens->hash : 0, rec->params);
	if (is_rtcp(f->id)) {
		mine->word[RTCP_REC_START_WAITING] = rec->word[RTCP_REC_START_WAITING];
		rtcp_flow_update_share(flow_rtcp(f), f->client, rec->word[RTCP_REC_START_WAITING]);
	}
	if (f->id == CCA_ID_rtcp_cubic) {
		rtcp_cubic_bound(&f->rtcp_cubic.state, &f->rtcp_cubic.params, f->client, &f->w);
		replay_put_windows(f, &before, mine);
	}
	replay_put_outcome(f, mine);
}

static inline bool replay_is_in_slow_start(const struct flow *f)
{
	return (f->id == CCA_ID_gr && f->gr.gr.mode == GR_SLOW_START) ||
	       (f->id == CCA_ID_sira && sira_window_is_first(&f->sira.sira.window)) ||
	       (f->id == CCA_ID_bbr && f->bbr_rows.bbr.mode == BBR1_STARTUP) ||
	       (f->id == CCA_ID_bbr3 && f->bbr3_rows.bbr.mode == BBR3_STARTUP) ||
	       (f->id == CCA_ID_rtcp_bbr && f->rtcp_bbr.state.base.mode == BBR1_STARTUP) ||
	       (f->id == CCA_ID_rtcp_bbr3 && f->rtcp_bbr3.state.base.mode == BBR3_STARTUP);
}

static inline void replay_ack(struct replay *r, const struct rec_record *rec, struct flow *f,
			      struct rec_record *mine)
{
	struct ens_flow *ens = flow_ens(f);
	struct cca_window before = f->w;
	struct cca_ack ack;

	rec_get_ack(rec, &ack);
	if (!ens) {
		flow_on_ack(f, &ack);
		rec_put_ack(mine, &ack);
		return;
	}
	/* In window mode these words are the window's. */
	if (rec->kind == REC_WINDOW_ACK)
		ack.tx_inflight_pkts = ack.lost_since_pkts = 0;
	ens_flow_set_class(ens, rec->delay_class);
	if (is_rtcp(f->id))
		rtcp_flow_update_share(flow_rtcp(f), f->client, rec->word[RTCP_REC_WAITING]);
	flow_on_ack(f, &ack);
	ens_flow_put_ack(mine, ens, &ack, rec->table, rec->params);
	if (is_rtcp(f->id))
		mine->word[RTCP_REC_WAITING] = rec->word[RTCP_REC_WAITING];
	if (rec->kind == REC_WINDOW_ACK)
		replay_put_windows(f, &before, mine);
	replay_put_outcome(f, mine);
	r->turns[ens->epoch_end]++;
	r->slow_start += replay_is_in_slow_start(f);
	r->lowered += rec->kind == REC_WINDOW_ACK && f->w.cwnd_pkts < before.cwnd_pkts;
}

/* Growth, the threshold of an episode, or the window after an undo. */
static inline void replay_window(struct replay *r, const struct rec_record *rec, struct flow *f,
				 struct rec_record *mine)
{
	struct cca_window before = f->w;
	u32 result = 0;

	if (rec->kind == REC_GROW)
		flow_grow(f, rec->word[REC_ACKED]);
	else
		result = rec->kind == REC_SSTHRESH ? flow_ssthresh(f) : flow_undo(f);
	replay_put_windows(f, &before, mine);
	mine->word[REC_ACKED] = rec->word[REC_ACKED];
	mine->word[REC_RESULT] = result;
	r->slow_start += rec->kind == REC_GROW && before.cwnd_pkts < before.ssthresh_pkts;
}

static inline void replay_other(const struct rec_record *rec, struct flow *f, struct rec_record *mine)
{
	struct cca_event ev;
	struct cca_loss loss;

	if (rec->kind == REC_EVENT) {
		rec_get_event(rec, &ev);
		flow_on_event(f, &ev);
		rec_put_event(mine, &ev);
	} else {
		rec_get_loss(rec, &loss);
		flow_on_loss(f, &loss);
		rec_put_loss(mine, &loss);
	}
	replay_put_outcome(f, mine);
}

static inline void replay_recall(const struct rec_record *rec, struct flow *f, struct rec_record *mine)
{
	struct ens_flow *ens = flow_ens(f);

	ens_flow_set_class(ens, rec->delay_class);
	flow_recall(f, rec->now_us);
	ens_flow_put_recall(mine, ens, rec->table, rec->params);
	if (is_rtcp(f->id))
		rtcp_put_outcome(mine, f->id == CCA_ID_rtcp_cubic ? &f->rtcp_cubic.ens :
				 f->id == CCA_ID_rtcp_bbr ? &f->rtcp_bbr.ens : &f->rtcp_bbr3.ens,
				 (const struct rtcp_params *)flow_params(f), f->client,
				 flow_rtcp(f), f->id);
	else
		ens_flow_put_outcome(mine, ens, flow_params(f), f->id);
}

/* Whether a flow of this algorithm has records of this kind. */
static inline bool replay_has_kind(u32 id, u32 kind)
{
	switch (kind) {
	case REC_START: case REC_EVENT:
		return true;
	case REC_ACK:
		return !is_window_mode(id);
	case REC_WINDOW_ACK: case REC_GROW: case REC_SSTHRESH: case REC_UNDO:
		return is_window_mode(id);
	case REC_RECALL:
		return id != CCA_ID_reno;
	case REC_LOSS:
		return id == CCA_ID_rtcp_bbr3 || id == CCA_ID_bbr3;
	default:
		return is_rtcp(id);
	}
}

/* Gives a flow a record's inputs, and puts them with what came of them into `mine`. */
static inline int replay_flow(struct replay *r, u32 index, const struct rec_record *rec,
			      struct replay_flow *at, struct rec_record *mine)
{
	struct flow *f = &at->f;
	bool is_ack = rec->kind == REC_ACK || rec->kind == REC_WINDOW_ACK;

	if (!replay_has_kind(f->id, rec->kind))
		return replay_refuse(r, index, "expected a kind of its algorithm");
	if (rec->kind == REC_START) {
		at->client = is_rtcp(f->id) ? rec->word[RTCP_REC_NUMBER] : 0;
		rtcp_client_init(&at->own, rec->now_us);
		if (f->id != CCA_ID_reno && replay_take_params(r, index, rec, f))
			return -1;
	}
	if (flow_ens(f) && (is_ack || rec->kind == REC_RECALL) && replay_take_table(r, index, rec, f))
		return -1;
	f->client = replay_client_of(r, at);
	if (!f->client)
		return replay_refuse(r, index, "expected its client before it");
	if (is_window_mode(f->id))
		rec_get_window(rec, &f->w);
	rec_init(mine, (enum rec_kind)rec->kind, rec->flow, rec->now_us);
	if (rec->kind == REC_START)
		replay_start(rec, f, mine);
	else if (is_ack)
		replay_ack(r, rec, f, mine);
	else if (rec->kind == REC_GROW || rec->kind == REC_SSTHRESH || rec->kind == REC_UNDO)
		replay_window(r, rec, f, mine);
	else if (rec->kind == REC_RECALL)
		replay_recall(rec, f, mine);
	else if (rec->kind == RTCP_REC_LEAVE)
		rtcp_flow_leaves(flow_rtcp(f), f->client);
	else
		replay_other(rec, f, mine);
	if (is_rtcp(f->id)) {
		rtcp_put_states(mine, f->client, flow_rtcp(f), at->client);
		r->limited += f->client->kind == RTCP_LIMITED;
		r->probing += flow_rtcp(f)->phase == RTCP_PROBING;
		r->shared += f->client->flows > 1;
	}
	/* After an ACK a flow leaves a client that is split. */
	if (is_rtcp(f->id) && is_ack && at->client && f->client->kind == RTCP_SPLIT) {
		rtcp_flow_moves(flow_rtcp(f), f->client, &at->own, rec->now_us);
		at->client = 0;
		r->moved++;
	}
	rec_finish(mine);
	return 0;
}

/* A timeout's event has what it takes for lost, so that the next ACK has none. */
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
	struct rec_record mine;
	struct replay_flow *f;
	u32 i;

	REPLAY_FIND(i, r->flows, r->n_flows, number, rec->flow);
	if ((i == r->n_flows) != (rec->kind == REC_START) || r->n_flows == REPLAY_MAX_FLOWS)
		return replay_refuse(r, index, "expected a flow's start first, once, and not too many");
	if (rec->event > CCA_ECN || rec->epoch_end > ENS_KEPT)
		return replay_refuse(r, index, "expected a known event and end of an epoch");
	f = &r->flows[i];
	r->n_flows += i == r->n_flows;
	f->number = rec->flow;
	f->f.id = r->header.id;
	if (replay_flow(r, index, rec, f, &mine))
		return -1;
	r->events[rec->event] += rec->kind == REC_EVENT;
	replay_count_losses(r, rec, f);
	r->replayed++;
	if (memcmp(&mine, rec, sizeof(mine)) && !r->differing++)
		r->first_differing = index;
	return 0;
}

/* --- the whole ------------------------------------------------------------------ */

static inline int replay_record(struct replay *r, u32 index, const struct rec_record *rec)
{
	u32 last_kind = replay_has_kind(r->header.id, REC_LOSS) || is_rtcp(r->header.id) ?
			REC_LOSS : REC_RECALL;

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

static inline void replay_init(struct replay *r)
{
	memset(r, 0, sizeof(*r));
	r->flows = (struct replay_flow *)calloc(REPLAY_MAX_FLOWS, sizeof(*r->flows));
	r->tables = (struct ens_table *)calloc(REPLAY_MAX_OTHERS, sizeof(*r->tables));
	r->params = (struct replay_params *)calloc(REPLAY_MAX_OTHERS, sizeof(*r->params));
	r->clients = (struct replay_client *)calloc(REPLAY_MAX_OTHERS, sizeof(*r->clients));
}

static inline int replay_take_header(struct replay *r, const void *bytes, size_t len)
{
	const struct rec_header *h = &r->header;

	if (len < sizeof(*h))
		return replay_refuse(r, 0, "expected a header");
	memcpy(&r->header, bytes, sizeof(*h));
	if (h->magic != REC_MAGIC || h->version != REC_VERSION || h->header_bytes != sizeof(*h) ||
	    h->record_bytes != sizeof(struct rec_record))
		return replay_refuse(r, 0, "expected the header of a recording of this version");
	if (!cca_name_of(h->id) || h->id == CCA_ID_vegas)
		return replay_refuse(r, 0, "expected a recording of an algorithm that is recorded");
	if (h->lost)
		return replay_refuse(r, h->records, "events were lost: it is not whole");
	if (len - sizeof(*h) != (size_t)h->records * sizeof(struct rec_record))
		return replay_refuse(r, h->records, "expected as many records as the header says");
	r->records = (const struct rec_record *)(const void *)((const char *)bytes + sizeof(*h));
	return 0;
}

/* 0: replayed, whatever came of it. -1: refused, and r->problem says why. */
static inline int replay_run(struct replay *r, const void *bytes, size_t len)
{
	u32 i;

	replay_init(r);
	if (replay_take_header(r, bytes, len))
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
