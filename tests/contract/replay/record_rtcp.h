/* SPDX-License-Identifier: MIT */
/*
 * R-TCP's part of record.c: flows 1 and 2 share a client behind a limiter, which ACKs of flows
 * that are not recorded reach too; flow 3 has a client of its own.
 */
#ifndef TESTS_RECORD_RTCP_H
#define TESTS_RECORD_RTCP_H

#include "record_maker.h"

#define SHARED_CLIENT 7u		/* any number */
#define FAST_PKTS_PER_S 4000u
#define LIMIT_PKTS_PER_S 300u		/* of each flow */
#define FAST_US 700000u
#define APART_US 8000000u		/* then the second flow loses nothing more */
#define START_US 1000000u

static const struct rtcp_params *rtcp_defaults(const struct maker *m)
{
	return (const struct rtcp_params *)(const void *)m->params.value;
}

static struct rtcp_client *client_of(struct maker *m, u32 i)
{
	return m->client_of[i] ? &m->shared : &m->own[i];
}

static struct rtcp_flow *flow_of(struct maker *m, u32 i)
{
	if (m->header.id == CCA_ID_rtcp_cubic)
		return &m->rtcp_cubic[i].state.flow;
	return m->header.id == CCA_ID_rtcp_bbr ? &m->rtcp_bbr[i].state.flow :
						 &m->rtcp_bbr3[i].state.flow;
}

static struct rtcp_ens *rtcp_ens_of(struct maker *m, u32 i)
{
	if (m->header.id == CCA_ID_rtcp_cubic)
		return &m->rtcp_cubic[i].ens;
	return m->header.id == CCA_ID_rtcp_bbr ? &m->rtcp_bbr[i].ens : &m->rtcp_bbr3[i].ens;
}

static struct rtcp_params *rtcp_set_of_flow(struct maker *m, u32 i)
{
	if (m->header.id == CCA_ID_rtcp_cubic)
		return &m->rtcp_cubic[i].params.rtcp;
	return m->header.id == CCA_ID_rtcp_bbr ? &m->rtcp_bbr[i].params.rtcp :
						 &m->rtcp_bbr3[i].params.rtcp;
}

static void tell_client(struct maker *m)
{
	struct rec_record r;
	u32 part;

	for (part = 0; part < RTCP_REC_PARTS; part++) {
		rec_init(&r, (enum rec_kind)RTCP_REC_CLIENT, 0, 0);
		rtcp_put_client(&r, &m->shared, SHARED_CLIENT, part);
		put(m, &r);
	}
}

/* A bucket that lets all through at first, then refuses what is beyond it, then some. */
static void limit_ack(struct maker *m, u32 i, struct cca_ack *ack)
{
	u64 t_us = m->now_us - START_US;
	u32 rate = t_us < FAST_US ? FAST_PKTS_PER_S : LIMIT_PKTS_PER_S;

	m->delivered[i] -= ack->acked_pkts;
	if (t_us > APART_US && i == 1)
		rate = 0;
	ack->acked_pkts = (u32)((m->now_us - m->told_us[i]) * rate / 1000000);
	if (!ack->acked_pkts)
		ack->acked_pkts = 1;
	ack->delivered_pkts = m->delivered[i] += ack->acked_pkts;
	ack->lost_pkts = t_us < FAST_US ? 0 : !roll(m, 6);
	if (t_us >= FAST_US && t_us < 2 * FAST_US)
		ack->lost_pkts = 3 * ack->acked_pkts;
	if (t_us > APART_US)
		ack->lost_pkts = i == 1 ? 0 : 6 + ack->acked_pkts;
	ack->rtt_us = 20000 + roll(m, 2000);
	m->told_us[i] = m->now_us;
}

static void put_states(struct maker *m, u32 i, struct rec_record *r)
{
	rtcp_put_states(r, client_of(m, i), flow_of(m, i), m->client_of[i]);
	put(m, r);
}

static void put_rtcp_recall(struct maker *m, u32 i, struct rec_record *r)
{
	rtcp_put_outcome(r, rtcp_ens_of(m, i), rtcp_set_of_flow(m, i), client_of(m, i),
			 flow_of(m, i), m->header.id);
	rtcp_put_states(r, client_of(m, i), flow_of(m, i), m->client_of[i]);
}

static void start_rtcp_cubic(struct maker *m, u32 i, const struct cca_start *start, u32 hash,
			     u32 waiting, struct rec_record *r)
{
	struct cca_window before = { 10, 64, 0 }, w = before;
	struct rtcp_cubic_flow *f = &m->rtcp_cubic[i];

	rtcp_cubic_flow_init(f, client_of(m, i), rtcp_defaults(m), start, 1, hash);
	rtcp_flow_update_share(flow_of(m, i), client_of(m, i), waiting);
	rtcp_cubic_bound(&f->state, &f->params, client_of(m, i), &w);
	rtcp_cubic_put_windows(r, &before, &w);
	rtcp_cubic_put_outcome(r, f, client_of(m, i));
	m->window[i] = w;
}

/* Over BBR: a record's outcome. */
static void paced_put(struct maker *m, u32 i, struct rec_record *r)
{
	if (m->header.id == CCA_ID_rtcp_bbr)
		rtcp_bbr1_put_outcome(r, &m->rtcp_bbr[i], client_of(m, i), &m->decision[i]);
	else
		rtcp_bbr3_put_outcome(r, &m->rtcp_bbr3[i], client_of(m, i), &m->decision[i]);
}

static void start_paced(struct maker *m, u32 i, const struct cca_start *start, u32 hash,
			u32 waiting, struct rec_record *r)
{
	if (m->header.id == CCA_ID_rtcp_bbr)
		rtcp_bbr1_flow_init(&m->rtcp_bbr[i], client_of(m, i), rtcp_defaults(m), start, 1,
				    hash, &m->decision[i]);
	else
		rtcp_bbr3_flow_init(&m->rtcp_bbr3[i], client_of(m, i), rtcp_defaults(m), start, 1,
				    hash, &m->decision[i]);
	rtcp_flow_update_share(flow_of(m, i), client_of(m, i), waiting);
	paced_put(m, i, r);
}

static void start_rtcp(struct maker *m, u32 i, const struct cca_start *start)
{
	u32 hash = roll(m, 1u << 31), waiting = roll(m, 2) * 100000;
	struct rec_record r;

	m->client_of[i] = i < 2 ? SHARED_CLIENT : 0;
	m->told_us[i] = m->now_us;
	rtcp_client_init(&m->own[i], m->now_us);
	if (!i)
		rtcp_client_init(&m->shared, m->now_us);
	if (i < 2)
		tell_client(m);
	rec_init(&r, REC_START, i + 1, start->now_us);
	rec_put_start(&r, start, 1, hash, m->params.version);
	r.word[RTCP_REC_START_WAITING] = waiting;
	if (m->header.id == CCA_ID_rtcp_cubic)
		start_rtcp_cubic(m, i, start, hash, waiting, &r);
	else
		start_paced(m, i, start, hash, waiting, &r);
	put_states(m, i, &r);
}

static void rtcp_cubic_asked(struct maker *m, u32 i, struct rec_record *r)
{
	struct rtcp_cubic_flow *f = &m->rtcp_cubic[i];
	struct cca_window before = m->window[i], *w = &m->window[i];
	u32 acked_pkts = r->kind == REC_GROW ? 1 + roll(m, 3) : 0, result = 0;

	if (r->kind == REC_GROW)
		rtcp_cubic_grow(&f->state, &f->params, client_of(m, i), w, acked_pkts);
	else if (r->kind == REC_SSTHRESH)
		result = rtcp_cubic_ssthresh(&f->state, &f->params, client_of(m, i), w);
	else
		result = rtcp_cubic_undo(&f->state, &f->params, client_of(m, i), w);
	rtcp_cubic_put_windows(r, &before, w);
	r->word[REC_ACKED] = acked_pkts;
	r->word[REC_RESULT] = result;
	if (result)
		w->cwnd_pkts = result;
	if (r->kind == REC_SSTHRESH)
		w->ssthresh_pkts = result;
}

static void rtcp_cubic_pkts_acked(struct maker *m, u32 i, struct rec_record *r)
{
	struct rtcp_cubic_flow *f = &m->rtcp_cubic[i];
	struct cca_window before = m->window[i];
	u32 waiting = roll(m, 60) ? 1000000 : 0;
	struct cca_ack ack;

	make_ack(m, i, &ack);
	limit_ack(m, i, &ack);
	ens_flow_set_class(&f->ens.flow, (u8)roll(m, 2));
	rtcp_flow_update_share(flow_of(m, i), client_of(m, i), waiting);
	rtcp_cubic_flow_on_ack(f, client_of(m, i), rtcp_defaults(m), &m->table, &ack,
			       &m->window[i]);
	ens_flow_put_ack(r, &f->ens.flow, &ack, m->table.generation, m->params.version);
	r->word[RTCP_REC_WAITING] = waiting;
	rtcp_cubic_put_windows(r, &before, &m->window[i]);
	rtcp_cubic_put_outcome(r, f, client_of(m, i));
}

static void rtcp_paced_ack(struct maker *m, u32 i, struct rec_record *r)
{
	bool is_bbr3 = m->header.id == CCA_ID_rtcp_bbr3;
	struct ens_flow *ens = is_bbr3 ? &m->rtcp_bbr3[i].ens.flow : &m->rtcp_bbr[i].ens.flow;
	u32 waiting = roll(m, 60) ? 1000000 : 0;
	struct cca_ack ack;

	make_ack(m, i, &ack);
	limit_ack(m, i, &ack);
	ack.rate_pkts = ack.acked_pkts;
	ack.rate_interval_us = 1000 + roll(m, 20000);
	ens_flow_set_class(ens, (u8)roll(m, 2));
	rtcp_flow_update_share(flow_of(m, i), client_of(m, i), waiting);
	if (is_bbr3) {
		ack.tx_inflight_pkts = 10 + roll(m, 50);
		ack.lost_since_pkts = roll(m, 3);
		rtcp_bbr3_flow_on_ack(&m->rtcp_bbr3[i], client_of(m, i), rtcp_defaults(m),
				      &m->table, &ack, &m->decision[i]);
	} else {
		rtcp_bbr1_flow_on_ack(&m->rtcp_bbr[i], client_of(m, i), rtcp_defaults(m),
				      &m->table, &ack, &m->decision[i]);
	}
	ens_flow_put_ack(r, ens, &ack, m->table.generation, m->params.version);
	r->word[RTCP_REC_WAITING] = waiting;
	paced_put(m, i, r);
}

/* Of BBRv3 alone. */
static void rtcp_lose(struct maker *m, u32 i, struct rec_record *r)
{
	struct cca_loss loss = { m->now_us, m->delivered[i], 10 + roll(m, 50), 1 + roll(m, 3),
				 (u8)!roll(m, 30) };

	rtcp_bbr3_flow_on_loss(&m->rtcp_bbr3[i], &loss);
	rtcp_put_loss(r, &loss);
	paced_put(m, i, r);
}

static void rtcp_event(struct maker *m, u32 i, struct rec_record *r)
{
	/* Recovery for the most part: a timeout forgets what was in flight. */
	enum cca_event_kind kind = (enum cca_event_kind)roll(m, roll(m, 4) ? 2 : 6);
	struct cca_event ev = { kind, m->now_us, 5, 10, MSS };

	/* It rests: data again. */
	if (!flow_of(m, i)->active)
		ev.kind = CCA_TRANSFER_STARTED;
	rec_put_event(r, &ev);
	if (m->header.id == CCA_ID_rtcp_cubic) {
		rtcp_cubic_flow_on_event(&m->rtcp_cubic[i], client_of(m, i), &ev);
		rtcp_cubic_put_outcome(r, &m->rtcp_cubic[i], client_of(m, i));
		return;
	}
	if (m->header.id == CCA_ID_rtcp_bbr)
		rtcp_bbr1_flow_on_event(&m->rtcp_bbr[i], client_of(m, i), &ev, &m->decision[i]);
	else
		rtcp_bbr3_flow_on_event(&m->rtcp_bbr3[i], client_of(m, i), &ev, &m->decision[i]);
	paced_put(m, i, r);
}

/* What a flow that is not recorded does to the client, which the next record must tell of. */
static void outside(struct maker *m)
{
	struct cca_ack ack;
	u32 i = roll(m, FLOWS);

	make_ack(m, i, &ack);
	ack.acked_pkts = 1;
	rtcp_client_on_ack(&m->shared, rtcp_defaults(m), &ack);
	tell_client(m);
}

static void rtcp_step(struct maker *m, u32 i)
{
	static const enum rec_kind kinds[] = { REC_WINDOW_ACK, REC_WINDOW_ACK, REC_WINDOW_ACK, REC_WINDOW_ACK, REC_WINDOW_ACK,
					       REC_WINDOW_ACK, REC_WINDOW_ACK, REC_WINDOW_ACK, REC_GROW, REC_GROW,
					       REC_GROW, REC_GROW, REC_GROW, REC_GROW };
	enum rec_kind kind = kinds[roll(m, 14)];
	struct rec_record r;

	if (!roll(m, 100))
		outside(m);
	if (!roll(m, 40))
		kind = (enum rec_kind)(REC_SSTHRESH + roll(m, 2));
	if (m->header.id != CCA_ID_rtcp_cubic)
		kind = REC_ACK;
	if (m->header.id == CCA_ID_rtcp_bbr3 && !roll(m, 10))
		kind = (enum rec_kind)RTCP_REC_LOSS;
	if (!roll(m, 25) || !flow_of(m, i)->active)
		kind = REC_EVENT;
	rec_init(&r, kind, i + 1, m->now_us);
	if (kind == REC_EVENT)
		rtcp_event(m, i, &r);
	else if (kind == REC_WINDOW_ACK)
		rtcp_cubic_pkts_acked(m, i, &r);
	else if (kind == REC_ACK)
		rtcp_paced_ack(m, i, &r);
	else if ((u32)kind == RTCP_REC_LOSS)
		rtcp_lose(m, i, &r);
	else
		rtcp_cubic_asked(m, i, &r);
	put_states(m, i, &r);
	if (replay_is_ack(&r) && m->client_of[i] && m->shared.kind == RTCP_SPLIT) {
		rtcp_flow_moves(flow_of(m, i), &m->shared, &m->own[i], m->now_us);
		m->client_of[i] = 0;
	}
}

static void leave_rtcp(struct maker *m, u32 i)
{
	struct rec_record r;

	rec_init(&r, (enum rec_kind)RTCP_REC_LEAVE, i + 1, m->now_us);
	rtcp_flow_leaves(flow_of(m, i), client_of(m, i));
	put_states(m, i, &r);
}

#endif /* TESTS_RECORD_RTCP_H */
