/* SPDX-License-Identifier: MIT */
/*
 * R-TCP: the flows of a client, in the order in which they had its lock. Their client is the
 * recording's (RTCP_REC_CLIENT), or of their own.
 */
#ifndef TESTS_REPLAY_RTCP_H
#define TESTS_REPLAY_RTCP_H

#include "replay_state.h"

static inline bool replay_is_rtcp(u32 id)
{
	return id == CCA_ID_rtcp_cubic || id == CCA_ID_rtcp_bbr || id == CCA_ID_rtcp_bbr3;
}

static inline const struct rtcp_params *replay_rtcp_defaults(const struct replay_flow *f)
{
	return (const struct rtcp_params *)(const void *)f->defaults;
}

/* A part of a client's state: of one that comes up first, or that is known no more. */
static inline int replay_client(struct replay *r, u32 index, const struct rec_record *rec)
{
	u32 number = rec->word[RTCP_REC_NUMBER];
	struct replay_client *c = replay_find_client(r, number);

	if (!number || rec->flow >= RTCP_REC_PARTS || (!c && r->n_clients == REPLAY_MAX_TOLD))
		return replay_refuse(r, index, "expected a part of a client, and not too many");
	if (!c) {
		c = &r->clients[r->n_clients++];
		c->number = number;
		c->parts = 0;
	}
	rtcp_get_client(rec, &c->client);
	c->parts |= 1u << rec->flow;
	return 0;
}

/* The flow's client; NULL where the recording has told of none, or not of all of it. */
static inline struct rtcp_client *replay_client_of(struct replay *r, struct replay_flow *f)
{
	struct replay_client *c = f->client ? replay_find_client(r, f->client) : NULL;

	if (!f->client)
		return &f->own;
	return c && c->parts == (1u << RTCP_REC_PARTS) - 1 ? &c->client : NULL;
}

static inline void replay_note_limit(struct replay *r, const struct rtcp_client *c,
				     const struct rtcp_flow *flow)
{
	r->limited += c->kind == RTCP_LIMITED;
	r->probing += flow->phase == RTCP_PROBING;
	r->shared += c->flows > 1;
}

/* --- over CUBIC -------------------------------------------------------------------- */

static inline void replay_rtcp_cubic_start(const struct rec_record *rec, struct replay_flow *f,
					   struct rtcp_client *c, struct rec_record *mine)
{
	struct rtcp_cubic_flow *flow = &f->rtcp_cubic;
	struct cca_window before, w;
	struct cca_start start;

	rec_get_start(rec, &start);
	rec_get_window(rec, &before);
	w = before;
	rtcp_cubic_flow_init(flow, c, replay_rtcp_defaults(f), &start, rec->delay_class,
			     rec->word[REC_HASH]);
	rtcp_flow_update_share(&flow->state.flow, c, rec->word[RTCP_REC_START_WAITING]);
	rtcp_cubic_bound(&flow->state, &flow->params, c, &w);
	rec_put_start(mine, &start, flow->ens.flow.clock.delay_class, flow->ens.flow.hash,
		      rec->params);
	mine->word[RTCP_REC_START_WAITING] = rec->word[RTCP_REC_START_WAITING];
	rtcp_cubic_put_windows(mine, &before, &w);
	rtcp_cubic_put_outcome(mine, flow, c);
}

static inline void replay_rtcp_cubic_ack(struct replay *r, const struct rec_record *rec,
					 struct replay_flow *f, struct rtcp_client *c,
					 const struct ens_table *t, struct rec_record *mine)
{
	struct rtcp_cubic_flow *flow = &f->rtcp_cubic;
	struct cca_window before, w;
	struct cca_ack ack;

	rtcp_cubic_get_ack(rec, &ack, &before);
	w = before;
	ens_flow_set_class(&flow->ens.flow, rec->delay_class);
	rtcp_flow_update_share(&flow->state.flow, c, rec->word[RTCP_REC_WAITING]);
	rtcp_cubic_flow_on_ack(flow, c, replay_rtcp_defaults(f), t, &ack, &w);
	ens_flow_put_ack(mine, &flow->ens.flow, &ack, rec->table, rec->params);
	mine->word[RTCP_REC_WAITING] = rec->word[RTCP_REC_WAITING];
	rtcp_cubic_put_windows(mine, &before, &w);
	rtcp_cubic_put_outcome(mine, flow, c);
	r->turns[flow->ens.flow.epoch_end]++;
	r->lowered += w.cwnd_pkts < before.cwnd_pkts;
}

static inline void replay_rtcp_cubic_asked(struct replay *r, const struct rec_record *rec,
					   struct replay_flow *f, struct rtcp_client *c,
					   struct rec_record *mine)
{
	struct rtcp_cubic_flow *flow = &f->rtcp_cubic;
	u32 acked_pkts = rec->word[REC_ACKED], result = 0;
	struct cca_window before, w;

	rec_get_window(rec, &before);
	w = before;
	if (rec->kind == REC_GROW)
		rtcp_cubic_grow(&flow->state, &flow->params, c, &w, acked_pkts);
	else if (rec->kind == REC_SSTHRESH)
		result = rtcp_cubic_ssthresh(&flow->state, &flow->params, c, &w);
	else
		result = rtcp_cubic_undo(&flow->state, &flow->params, c, &w);
	rtcp_cubic_put_windows(mine, &before, &w);
	mine->word[REC_ACKED] = acked_pkts;
	mine->word[REC_RESULT] = result;
	r->slow_start += rec->kind == REC_GROW && before.cwnd_pkts < before.ssthresh_pkts;
}

static inline int replay_rtcp_cubic(struct replay *r, u32 index, const struct rec_record *rec,
				    struct replay_flow *f, struct rtcp_client *c,
				    const struct ens_table *t, struct rec_record *mine)
{
	struct cca_event ev;

	switch (rec->kind) {
	case REC_START:
		replay_rtcp_cubic_start(rec, f, c, mine);
		return 0;
	case REC_WINDOW_ACK:
		replay_rtcp_cubic_ack(r, rec, f, c, t, mine);
		return 0;
	case REC_EVENT:
		rec_get_event(rec, &ev);
		rtcp_cubic_flow_on_event(&f->rtcp_cubic, c, &ev);
		rec_put_event(mine, &ev);
		rtcp_cubic_put_outcome(mine, &f->rtcp_cubic, c);
		return 0;
	case REC_GROW:
	case REC_SSTHRESH:
	case REC_UNDO:
		replay_rtcp_cubic_asked(r, rec, f, c, mine);
		return 0;
	default:
		return replay_refuse(r, index, "expected a kind of window mode");
	}
}

/* --- over BBR, versions 1 and 3 ---------------------------------------------------- */

#define paced_flow rtcp_bbr1_flow
#define paced_flow_init rtcp_bbr1_flow_init
#define paced_flow_on_ack rtcp_bbr1_flow_on_ack
#define paced_flow_on_event rtcp_bbr1_flow_on_event
#define paced_put_outcome rtcp_bbr1_put_outcome
#define replay_paced_start replay_rtcp_bbr_start
#define replay_paced_ack replay_rtcp_bbr_ack
#define replay_paced replay_rtcp_bbr
#define PACED_STARTUP BBR1_STARTUP
#include "replay_paced.h"

#define paced_flow rtcp_bbr3_flow
#define paced_flow_init rtcp_bbr3_flow_init
#define paced_flow_on_ack rtcp_bbr3_flow_on_ack
#define paced_flow_on_event rtcp_bbr3_flow_on_event
#define paced_flow_on_loss rtcp_bbr3_flow_on_loss
#define paced_put_outcome rtcp_bbr3_put_outcome
#define replay_paced_start replay_rtcp_bbr3_start
#define replay_paced_ack replay_rtcp_bbr3_ack
#define replay_paced replay_rtcp_bbr3
#define PACED_STARTUP BBR3_STARTUP
#include "replay_paced.h"

/* --- the whole --------------------------------------------------------------------- */

static inline bool replay_is_ack(const struct rec_record *rec)
{
	return rec->kind == REC_WINDOW_ACK || rec->kind == REC_ACK;
}

/* Behind an ACK a flow leaves a client that is split. */
static inline void replay_move(struct replay *r, const struct rec_record *rec,
			       struct replay_flow *f, struct rtcp_client *c,
			       struct rtcp_flow *flow)
{
	if (!replay_is_ack(rec) || c->kind != RTCP_SPLIT || !f->client)
		return;
	rtcp_flow_moves(flow, c, &f->own, rec->now_us);
	f->client = 0;
	r->moved++;
}

static inline struct rtcp_flow *replay_rtcp_flow(struct replay *r, struct replay_flow *f)
{
	switch (r->header.id) {
	case CCA_ID_rtcp_cubic:
		return &f->rtcp_cubic.state.flow;
	case CCA_ID_rtcp_bbr:
		return &f->rtcp_bbr.state.flow;
	default:
		return &f->rtcp_bbr3.state.flow;
	}
}

static inline void replay_rtcp_recall(struct replay *r, const struct rec_record *rec,
				      struct replay_flow *f, const struct rtcp_client *c,
				      const struct ens_table *t, struct rec_record *mine)
{
	struct rtcp_params *set = r->header.id == CCA_ID_rtcp_cubic ? &f->rtcp_cubic.params.rtcp :
				  r->header.id == CCA_ID_rtcp_bbr ? &f->rtcp_bbr.params.rtcp :
								    &f->rtcp_bbr3.params.rtcp;
	struct rtcp_ens *ens = r->header.id == CCA_ID_rtcp_cubic ? &f->rtcp_cubic.ens :
			       r->header.id == CCA_ID_rtcp_bbr ? &f->rtcp_bbr.ens :
								 &f->rtcp_bbr3.ens;

	ens_flow_set_class(&ens->flow, rec->delay_class);
	rtcp_ens_recall(ens, c, replay_rtcp_defaults(f), t, rec->now_us, set);
	ens_flow_put_recall(mine, &ens->flow, rec->table, rec->params);
	rtcp_put_outcome(mine, ens, set, c, replay_rtcp_flow(r, f), r->header.id);
}

static inline int replay_rtcp(struct replay *r, u32 index, const struct rec_record *rec,
			      struct replay_flow *f, struct rec_record *mine)
{
	struct rtcp_flow *flow = replay_rtcp_flow(r, f);
	const struct ens_table *t = NULL;
	struct rtcp_client *c;
	int err = 0;

	if (rec->kind == REC_START) {
		f->client = rec->word[RTCP_REC_NUMBER];
		rtcp_client_init(&f->own, rec->now_us);
		if (replay_take_params(r, index, rec, f))
			return -1;
	} else if ((replay_is_ack(rec) || rec->kind == REC_RECALL) &&
		   replay_take_turn(r, index, rec, f, &t)) {
		return -1;
	}
	c = replay_client_of(r, f);
	if (!c)
		return replay_refuse(r, index, "expected its client before it");
	if (rec->kind == RTCP_REC_LEAVE)
		rtcp_flow_leaves(flow, c);
	else if (rec->kind == REC_RECALL)
		replay_rtcp_recall(r, rec, f, c, t, mine);
	else if (r->header.id == CCA_ID_rtcp_cubic)
		err = replay_rtcp_cubic(r, index, rec, f, c, t, mine);
	else if (r->header.id == CCA_ID_rtcp_bbr)
		err = replay_rtcp_bbr(r, index, rec, &f->rtcp_bbr, f, c, t, mine);
	else
		err = replay_rtcp_bbr3(r, index, rec, &f->rtcp_bbr3, f, c, t, mine);
	rtcp_put_states(mine, c, flow, f->client);
	replay_note_limit(r, c, flow);
	replay_move(r, rec, f, c, flow);
	return err;
}

#endif /* TESTS_REPLAY_RTCP_H */
