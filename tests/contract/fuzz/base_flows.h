/* SPDX-License-Identifier: MIT */
/*
 * CUBIC, Vegas, ROCCET, BBRv1 and BBRv3 for flow_target.c: each takes every event that
 * GR takes, and must keep its window and its rate within their bounds. All but CUBIC
 * have a second flow in memory that held other things, which must decide the same.
 * ROCCET has tables of its own, with two axes, which come and go with GR's.
 */
#ifndef TESTS_BASE_FLOWS_H
#define TESTS_BASE_FLOWS_H

#include "bbr1.h"
#include "bbr3.h"
#include "cubic.h"
#include "fuzz.h"
#include "roccet_flow.h"
#include "vegas.h"

#define BASE_TABLES 2u
#define BASE_COLUMNS 4u			/* ROCCET's first parameters, which are the tuned ones */

static struct counter base_counters[] = {
	{ "roccet_launches", 0 }, { "roccet_events", 0 }, { "roccet_rows", 0 },
};

static struct ens_table base_tables[BASE_TABLES];
static u32 base_values[BASE_TABLES][4 * 3 * 2 * BASE_COLUMNS];

struct base_flows {
	struct cubic_params cubic_params;
	struct bbr1_params bbr1_params;
	struct bbr3_params bbr3_params;
	struct cubic_state cubic;
	struct bbr1_state bbr1, bbr1_twin;
	struct bbr3_state bbr3, bbr3_twin;
	struct cca_window window;
	struct vegas_params vegas_params;
	struct vegas_state vegas, vegas_twin;
	struct cca_window vegas_window, vegas_twin_window;
	struct cca_decision d1, d3;
	struct roccet_params roccet_params;
	struct roccet_flow roccet, roccet_twin;
	struct cca_window roccet_window, roccet_twin_window;
	const struct ens_table *table;	/* of ROCCET; NULL: none */
	u32 states;			/* of the table that the last turn saw; 0: none */
};

/* Throughput levels by minimum RTTs; values from all over their ranges. */
static void base_make_table(struct ens_table *t, u32 *values, u32 epoch_ms)
{
	u32 i;

	memset(t, 0, sizeof(*t));
	t->id = CCA_ID_roccet;
	t->epoch_ms = epoch_ms;
	t->estimate_ms = 1 + epoch_ms / 4;
	t->epsilon_pct = 25;
	t->hold_back_permille = 200;
	t->n_axes = 2;
	t->axis[0].step = 100000;
	t->axis[0].count = 4;
	t->axis[1].number = 1;
	t->axis[1].step = 5000;
	t->axis[1].count = 3;
	t->axis[1].per_octave = 1;
	t->axis[1].scale = ENS_LOG;
	t->n_classes = 2;
	t->classes[0].percentile = t->classes[1].percentile = 95;
	t->classes[0].queueing_delay_us = 20000;
	t->classes[1].queueing_delay_us = 90000;
	t->n_columns = BASE_COLUMNS;
	for (i = 0; i < BASE_COLUMNS; i++)
		t->column[i] = i;
	for (i = 0; i < ens_rows(t) * BASE_COLUMNS; i++) {
		const struct cca_param_spec *spec = cca_param_at(CCA_ID_roccet, i % BASE_COLUMNS);

		values[i] = spec->min + i * 2654435761u % (spec->max - spec->min + 1);
	}
	t->values = values;
}

static void base_make_tables(void)
{
	u32 i;

	for (i = 0; i < BASE_TABLES; i++)
		base_make_table(&base_tables[i], base_values[i], 1 + 900 * i);
}

static void base_change_table(struct base_flows *b, u32 which, u64 generation)
{
	b->table = generation ? &base_tables[which % BASE_TABLES] : NULL;
	base_tables[which % BASE_TABLES].generation = generation;
}

/* A parameter at an end of its range, by the bits of flags; else its default. */
static void base_params(void *params, u32 id, u32 flags)
{
	u32 i;

	cca_params_init(params, id);
	for (i = 0; flags && cca_param_at(id, i); i++) {
		const struct cca_param_spec *spec = cca_param_at(id, i);

		if ((flags >> i % 8) & 1)
			cca_param_set(params, i, flags & 1 ? spec->min : spec->max);
	}
}

static void base_check_roccet(const struct base_flows *b)
{
	const struct roccet_state *s = &b->roccet.roccet;
	const struct ens_clock *c = &b->roccet.ens.clock;
	u32 i;

	for (i = 0; cca_param_at(CCA_ID_roccet, i); i++) {
		PROPERTY(cca_param_get(&b->roccet.params, i) >= cca_param_at(CCA_ID_roccet, i)->min);
		PROPERTY(cca_param_get(&b->roccet.params, i) <= cca_param_at(CCA_ID_roccet, i)->max);
	}
	PROPERTY(c->state == ENS_NO_STATE || c->state < b->states);
	PROPERTY(c->within_low <= c->within_high && c->within_high <= c->samples);
	PROPERTY(b->roccet_window.cwnd_pkts <= CCA_MAX_PKTS);
	PROPERTY(b->roccet_window.cwnd_pkts == b->roccet_twin_window.cwnd_pkts);
	PROPERTY(b->roccet_window.ssthresh_pkts == b->roccet_twin_window.ssthresh_pkts);
	PROPERTY(b->roccet_window.credit_pkts == b->roccet_twin_window.credit_pkts);
	PROPERTY(s->min_rtt_us <= CCA_MAX_RTT_US && s->srtt_us_q3 <= 8 * CCA_MAX_RTT_US);
	PROPERTY((s->min_rtt_us != 0) == (s->srtt_us_q3 != 0));
	PROPERTY(s->jitter_us_q4 <= 16 * CCA_MAX_RTT_US + 8);
	PROPERTY(s->srrtt_q16 <= ROCCET_MAX_SHARE_Q16);
	PROPERTY(s->windows_q8 <= ROCCET_MAX_SUM_Q8 && s->acked_q8 <= ROCCET_MAX_SUM_Q8);
	PROPERTY(s->phase <= ROCCET_ORBITER);
	PROPERTY(s->cubic.w_max_pkts <= CCA_MAX_PKTS);
	PROPERTY(s->episode_lost_pkts <= 2 * CCA_MAX_PKTS);
}

static void base_check_vegas(const struct base_flows *b)
{
	PROPERTY(b->vegas.base_rtt_us <= CCA_MAX_RTT_US);
	PROPERTY(!b->vegas.ended_rtt_us || b->vegas.ended_rtt_us >= b->vegas.base_rtt_us);
	PROPERTY(b->vegas_window.cwnd_pkts <= CCA_MAX_PKTS);
	PROPERTY(b->vegas_window.cwnd_pkts == b->vegas_twin_window.cwnd_pkts);
	PROPERTY(b->vegas_window.ssthresh_pkts == b->vegas_twin_window.ssthresh_pkts);
}

static void base_check(const struct base_flows *b)
{
	const struct cca_decision *d[] = { &b->d1, &b->d3 };
	u32 i;

	for (i = 0; i < 2; i++) {
		PROPERTY(d[i]->cwnd_pkts >= 1 && d[i]->cwnd_pkts <= CCA_MAX_PKTS);
		PROPERTY(d[i]->pacing_bytes_per_s >= 1);
		PROPERTY(d[i]->pacing_bytes_per_s <= CCA_MAX_RATE_BYTES_PER_S);
	}
	PROPERTY(b->bbr1.mode <= BBR1_PROBE_RTT && b->bbr1.phase < BBR1_PHASES);
	PROPERTY(b->bbr1.min_rtt_us <= CCA_MAX_RTT_US);
	PROPERTY(b->bbr3.mode <= BBR3_PROBE_RTT);
	PROPERTY(b->bbr3.min_rtt_us <= CCA_MAX_RTT_US);
	PROPERTY(b->bbr3.long_pkts <= CCA_MAX_PKTS || b->bbr3.long_pkts == BBR3_NO_LIMIT_PKTS);
	PROPERTY(b->window.cwnd_pkts <= CCA_MAX_PKTS);
	PROPERTY(b->cubic.acks_per_pkt >= CUBIC_LEAST_ACKS);
	PROPERTY(b->cubic.k_q10s < 1u << 21);
	base_check_roccet(b);
	base_check_vegas(b);
}

static void base_open(struct base_flows *b, const struct cca_start *start, u32 flags)
{
	struct cca_decision other;

	memset(&b->bbr1_twin, 0x5a, sizeof(b->bbr1_twin));
	memset(&b->bbr3_twin, 0x5a, sizeof(b->bbr3_twin));
	base_params(&b->cubic_params, CCA_ID_cubic, flags);
	base_params(&b->roccet_params, CCA_ID_roccet, flags);
	base_params(&b->bbr1_params, CCA_ID_bbr, flags);
	base_params(&b->bbr3_params, CCA_ID_bbr3, flags);
	cubic_init(&b->cubic, &b->cubic_params, start);
	b->window.cwnd_pkts = cca_min_u32(start->cwnd_pkts, CCA_MAX_PKTS);
	b->window.ssthresh_pkts = 0x7fffffffu;
	b->window.credit_pkts = 0;
	base_params(&b->vegas_params, CCA_ID_vegas, flags);
	memset(&b->vegas_twin, 0x5a, sizeof(b->vegas_twin));
	vegas_init(&b->vegas);
	vegas_init(&b->vegas_twin);
	b->vegas_window = b->window;
	b->vegas_twin_window = b->window;
	memset(&b->roccet_twin, 0x5a, sizeof(b->roccet_twin));
	roccet_flow_init(&b->roccet, &b->roccet_params, start, (u8)(flags % 9), flags * 16777619u);
	roccet_flow_init(&b->roccet_twin, &b->roccet_params, start, (u8)(flags % 9), flags * 16777619u);
	b->roccet_window = b->window;
	b->roccet_twin_window = b->window;
	bbr1_init(&b->bbr1, &b->bbr1_params, start, flags, &b->d1);
	bbr1_init(&b->bbr1_twin, &b->bbr1_params, start, flags, &other);
	bbr3_init(&b->bbr3, &b->bbr3_params, start, flags, &b->d3);
	bbr3_init(&b->bbr3_twin, &b->bbr3_params, start, flags, &other);
	base_check(b);
}

/* Window mode: what one ACK does. A host in recovery has the window itself. */
static void roccet_send_ack(struct roccet_flow *f, const struct base_flows *b, struct cca_window *w,
			    const struct cca_ack *ack)
{
	struct roccet_state *s = &f->roccet;
	struct cca_window before = *w;
	u32 launches = s->launches, events = s->events;

	if (ack->lost_pkts) {
		w->ssthresh_pkts = roccet_flow_ssthresh(f, w);
		PROPERTY(w->cwnd_pkts == before.cwnd_pkts && w->ssthresh_pkts >= CUBIC_MIN_CWND_PKTS);
		w->cwnd_pkts = cca_min_u32(w->cwnd_pkts, w->ssthresh_pkts);
		before = *w;
	}
	roccet_flow_on_ack(f, &b->roccet_params, b->table, ack, w);
	base_counters[0].count += s->launches - launches;
	base_counters[1].count += s->events - events;
	base_counters[2].count += f->ens.epoch_end == ENS_LOOKED_UP && !f->ens.held_back;
	PROPERTY(w->cwnd_pkts <= cca_max_u32(before.cwnd_pkts, CUBIC_MIN_CWND_PKTS));
	if (s->in_recovery) {
		PROPERTY(w->cwnd_pkts == before.cwnd_pkts);
		PROPERTY(w->ssthresh_pkts == before.ssthresh_pkts ||
			 (s->ignores && w->ssthresh_pkts < before.ssthresh_pkts));
		return;
	}
	before = *w;
	roccet_flow_grow(f, w, ack->acked_pkts);
	PROPERTY(w->cwnd_pkts >= before.cwnd_pkts);
	PROPERTY(!s->drains || w->cwnd_pkts == before.cwnd_pkts);
}

/* Once in a round trip the window moves by one; slow start adds at most what was ACKed. */
static void vegas_send_ack(struct vegas_state *s, const struct vegas_params *p,
			   struct cca_window *w, const struct cca_ack *ack)
{
	u32 before_pkts;

	if (ack->lost_pkts) {
		w->ssthresh_pkts = vegas_ssthresh(s, w);
		PROPERTY(w->ssthresh_pkts >= VEGAS_MIN_CWND_PKTS);
		w->cwnd_pkts = cca_min_u32(w->cwnd_pkts, w->ssthresh_pkts);
	}
	before_pkts = w->cwnd_pkts;
	vegas_on_ack(s, ack);
	vegas_grow(s, p, w, ack->acked_pkts);
	PROPERTY(w->cwnd_pkts + 1 >= before_pkts);
	PROPERTY(w->cwnd_pkts - (u64)before_pkts <= cca_max_u32(ack->acked_pkts, 1) ||
		 w->cwnd_pkts < before_pkts);
}

static void base_lose(struct base_flows *b, const struct cca_ack *ack)
{
	struct cca_loss loss;

	memset(&loss, 0, sizeof(loss));
	loss.now_us = ack->now_us;
	loss.delivered_pkts = ack->delivered_pkts;
	loss.tx_inflight_pkts = ack->tx_inflight_pkts;
	loss.lost_since_pkts = ack->lost_pkts;
	loss.app_limited = ack->app_limited;
	bbr3_on_loss(&b->bbr3, &b->bbr3_params, &loss);
	bbr3_on_loss(&b->bbr3_twin, &b->bbr3_params, &loss);
	b->window.ssthresh_pkts = cubic_ssthresh(&b->cubic, &b->cubic_params, &b->window);
	b->window.cwnd_pkts = cca_min_u32(b->window.cwnd_pkts, b->window.ssthresh_pkts);
}

static void base_send_ack(struct base_flows *b, const struct cca_ack *ack)
{
	struct cca_decision other = { 0, 0 };

	if (ack->lost_pkts)
		base_lose(b, ack);
	cubic_on_ack(&b->cubic, &b->cubic_params, ack, &b->window);
	cubic_grow(&b->cubic, &b->cubic_params, &b->window, ack->acked_pkts);
	vegas_send_ack(&b->vegas, &b->vegas_params, &b->vegas_window, ack);
	vegas_send_ack(&b->vegas_twin, &b->vegas_params, &b->vegas_twin_window, ack);
	roccet_send_ack(&b->roccet, b, &b->roccet_window, ack);
	roccet_send_ack(&b->roccet_twin, b, &b->roccet_twin_window, ack);
	if (b->roccet.ens.epoch_end != ENS_WAITED)
		b->states = b->table ? ens_states(b->table) : 0;
	bbr1_on_ack(&b->bbr1, &b->bbr1_params, ack, &b->d1);
	bbr1_on_ack(&b->bbr1_twin, &b->bbr1_params, ack, &other);
	PROPERTY(other.cwnd_pkts == b->d1.cwnd_pkts);
	PROPERTY(other.pacing_bytes_per_s == b->d1.pacing_bytes_per_s);
	bbr3_on_ack(&b->bbr3, &b->bbr3_params, ack, &b->d3);
	bbr3_on_ack(&b->bbr3_twin, &b->bbr3_params, ack, &other);
	PROPERTY(other.cwnd_pkts == b->d3.cwnd_pkts);
	PROPERTY(other.pacing_bytes_per_s == b->d3.pacing_bytes_per_s);
	base_check(b);
}

static void roccet_send_event(struct roccet_flow *f, struct cca_window *w,
			      const struct cca_event *ev)
{
	if (ev->kind == CCA_UNDO)
		w->cwnd_pkts = cca_min_u32(roccet_flow_undo(f, w), CCA_MAX_PKTS);
	else if (ev->kind == CCA_TIMEOUT)
		w->cwnd_pkts = 1;
	roccet_flow_on_event(f, ev);
}

static void vegas_send_event(struct vegas_state *s, struct cca_window *w,
			     const struct cca_event *ev)
{
	if (ev->kind == CCA_UNDO)
		w->cwnd_pkts = cca_min_u32(vegas_undo(s, w), CCA_MAX_PKTS);
	else if (ev->kind == CCA_TIMEOUT)
		w->cwnd_pkts = 1;
	vegas_on_event(s, ev);
}

static void base_send_event(struct base_flows *b, const struct cca_event *ev)
{
	struct cca_decision other = { 0, 0 };

	if (ev->kind == CCA_UNDO)
		b->window.cwnd_pkts = cca_min_u32(cubic_undo(&b->cubic, &b->window), CCA_MAX_PKTS);
	cubic_on_event(&b->cubic, ev);
	vegas_send_event(&b->vegas, &b->vegas_window, ev);
	vegas_send_event(&b->vegas_twin, &b->vegas_twin_window, ev);
	roccet_send_event(&b->roccet, &b->roccet_window, ev);
	roccet_send_event(&b->roccet_twin, &b->roccet_twin_window, ev);
	bbr1_on_event(&b->bbr1, &b->bbr1_params, ev, &b->d1);
	bbr1_on_event(&b->bbr1_twin, &b->bbr1_params, ev, &other);
	PROPERTY(other.cwnd_pkts == b->d1.cwnd_pkts);
	bbr3_on_event(&b->bbr3, &b->bbr3_params, ev, &b->d3);
	bbr3_on_event(&b->bbr3_twin, &b->bbr3_params, ev, &other);
	PROPERTY(other.cwnd_pkts == b->d3.cwnd_pkts);
	base_check(b);
}

#endif /* TESTS_BASE_FLOWS_H */
