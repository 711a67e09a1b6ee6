// SPDX-License-Identifier: MIT
/*
 * record CCA SEED EVENTS FILE: makes a recording as a kernel would, of made-up
 * events, so that the replayer is tested without a kernel. Three flows in turn;
 * the table and the parameters change on the way.
 */
#include "record_rtcp.h"

static const struct gr_params *gr_defaults(const struct maker *m)
{
	return (const struct gr_params *)(const void *)m->params.value;
}

static const struct roccet_params *roccet_defaults(const struct maker *m)
{
	return (const struct roccet_params *)(const void *)m->params.value;
}

/* Somewhere in the lower part of its range. */
static u32 any_value(struct maker *m, u32 column)
{
	const struct cca_param_spec *spec = cca_param_at(m->header.id, column);

	return spec->min + roll(m, cca_min_u32(spec->max - spec->min, 50000) + 1);
}

static void tell_table(struct maker *m)
{
	struct rec_record r;
	u32 i;

	m->table.generation++;
	for (i = 0; i < ens_rows(&m->table) * 3; i++)
		m->values[i] = any_value(m, m->table.column[i % 3]);
	for (i = 0; i < rec_table_records(&m->table); i++) {
		rec_init(&r, REC_TABLE, 0, 0);
		rec_put_table(&r, &m->table, i);
		put(m, &r);
	}
}

static void tell_params(struct maker *m)
{
	struct rec_record r;

	m->params.version++;
	m->params.value[3] = any_value(m, 3);
	rec_init(&r, REC_PARAMS, 0, 0);
	rec_put_params(&r, m->params.value, m->header.id, m->params.version);
	put(m, &r);
}

static void make_table(struct maker *m)
{
	struct ens_table *t = &m->table;
	u32 i;

	t->epoch_ms = 300;
	t->estimate_ms = 50;
	t->epsilon_pct = 25;
	t->hold_back_permille = 200;
	t->n_axes = m->header.id == CCA_ID_roccet || replay_is_rtcp(m->header.id) ? 2 : 1;
	t->axis[0].step = replay_is_rtcp(m->header.id) ? 7000 : 500000;
	t->axis[0].count = 4;
	t->axis[1].number = 1;
	t->axis[1].step = 20000;
	t->axis[1].count = 3;
	t->axis[1].per_octave = 1;
	t->axis[1].scale = ENS_LOG;
	t->n_classes = 2;
	t->classes[0].percentile = t->classes[1].percentile = 95;
	t->classes[0].queueing_delay_us = 20000;
	t->classes[1].queueing_delay_us = 60000;
	t->n_columns = 3;
	/* R-TCP: theta, eta, gamma. */
	for (i = 0; i < 3; i++)
		t->column[i] = !replay_is_rtcp(m->header.id) ? i : i ? 4 + i : 2;
	t->values = m->values;
}

static void start_flow(struct maker *m, u32 i)
{
	struct cca_start start = { m->now_us, 40000, 10, m->delivered[i], MSS };
	struct cca_decision d;
	struct rec_record r;

	if (replay_is_rtcp(m->header.id)) {
		start_rtcp(m, i, &start);
		return;
	}
	rec_init(&r, REC_START, i + 1, start.now_us);
	if (m->header.id == CCA_ID_gr) {
		u32 hash = roll(m, 1u << 31);

		gr_flow_init(&m->gr[i], gr_defaults(m), &start, 1, hash, &d);
		rec_put_start(&r, &start, 1, hash, m->params.version);
		gr_put_outcome(&r, &m->gr[i], &d);
	} else if (m->header.id == CCA_ID_roccet) {
		u32 hash = roll(m, 1u << 31);

		roccet_flow_init(&m->roccet[i], roccet_defaults(m), &start, 1, hash);
		rec_put_start(&r, &start, 1, hash, m->params.version);
		roccet_put_outcome(&r, &m->roccet[i]);
	} else {
		reno_init(&m->reno[i]);
		rec_put_start(&r, &start, 0, 0, 0);
	}
	m->window[i].cwnd_pkts = 10;
	m->window[i].ssthresh_pkts = 64;
	m->window[i].credit_pkts = 0;
	put(m, &r);
}

static void gr_step(struct maker *m, u32 i)
{
	struct gr_flow *f = &m->gr[i];
	struct cca_decision d;
	struct rec_record r;
	struct cca_ack ack;

	if (!roll(m, 25)) {
		struct cca_event ev = { (enum cca_event_kind)roll(m, 6), m->now_us, 5, 10, MSS };

		gr_flow_on_event(f, &ev, &d);
		rec_init(&r, REC_EVENT, i + 1, ev.now_us);
		rec_put_event(&r, &ev);
	} else {
		make_ack(m, i, &ack);
		ens_flow_set_class(&f->ens, (u8)roll(m, 2));
		gr_flow_on_ack(f, gr_defaults(m), &m->table, &ack, &d);
		rec_init(&r, REC_ACK, i + 1, ack.now_us);
		ens_flow_put_ack(&r, &f->ens, &ack, m->table.generation, m->params.version);
	}
	gr_put_outcome(&r, f, &d);
	put(m, &r);
}

/* Growth, a threshold or an undo, and what a kernel makes of it. */
static void ask_step(struct maker *m, u32 i, struct rec_record *r)
{
	bool is_reno = m->header.id == CCA_ID_reno;
	struct cca_window *w = &m->window[i];
	u32 acked_pkts = 1 + roll(m, 3), result;

	rec_put_window(r, w);
	if (r->kind == REC_GROW) {
		r->word[REC_ACKED] = acked_pkts;
		if (is_reno)
			reno_grow(&m->reno[i], w, acked_pkts);
		else
			roccet_flow_grow(&m->roccet[i], w, acked_pkts);
		rec_put_window_after(r, w);
		return;
	}
	if (r->kind == REC_SSTHRESH)
		result = is_reno ? reno_ssthresh(&m->reno[i], w) : roccet_flow_ssthresh(&m->roccet[i], w);
	else
		result = is_reno ? reno_undo(&m->reno[i], w) : roccet_flow_undo(&m->roccet[i], w);
	r->word[REC_RESULT] = result;
	rec_put_window_after(r, w);
	w->cwnd_pkts = result;
	if (r->kind == REC_SSTHRESH)
		w->ssthresh_pkts = result;
}

static void tell_step(struct maker *m, u32 i, struct rec_record *r)
{
	struct cca_window before = m->window[i];
	struct roccet_flow *f = &m->roccet[i];
	struct cca_ack ack;

	make_ack(m, i, &ack);
	if (m->header.id == CCA_ID_reno) {
		rec_put_ack(r, &ack);
		return;
	}
	ens_flow_set_class(&f->ens, (u8)roll(m, 2));
	roccet_flow_on_ack(f, roccet_defaults(m), &m->table, &ack, &m->window[i]);
	ens_flow_put_ack(r, &f->ens, &ack, m->table.generation, m->params.version);
	roccet_put_windows(r, &before, &m->window[i]);
	roccet_put_outcome(r, f);
}

static void window_step(struct maker *m, u32 i)
{
	static const enum rec_kind kinds[] = { REC_GROW, REC_GROW, REC_GROW, REC_GROW, REC_GROW,
					       REC_WINDOW_ACK, REC_SSTHRESH, REC_UNDO, REC_EVENT };
	enum rec_kind kind = kinds[roll(m, 9)];
	struct cca_event ev = { (enum cca_event_kind)roll(m, 6), m->now_us, 5, 10, MSS };
	struct rec_record r;

	/* ROCCET learns from what it is told, over round trips that nothing interrupts. */
	if (m->header.id == CCA_ID_roccet && roll(m, 12))
		kind = roll(m, 2) ? REC_WINDOW_ACK : REC_GROW;
	rec_init(&r, kind, i + 1, m->now_us);
	if (kind == REC_EVENT) {
		rec_put_event(&r, &ev);
		if (m->header.id == CCA_ID_roccet) {
			roccet_flow_on_event(&m->roccet[i], &ev);
			roccet_put_outcome(&r, &m->roccet[i]);
		}
	} else if (kind == REC_WINDOW_ACK) {
		tell_step(m, i, &r);
	} else {
		ask_step(m, i, &r);
	}
	put(m, &r);
}

/* Round trips in which it learns something. */
static bool takes_long(const struct maker *m)
{
	return m->header.id == CCA_ID_roccet || replay_is_rtcp(m->header.id);
}

static struct ens_flow *ens_flow_of(struct maker *m, u32 i)
{
	switch (m->header.id) {
	case CCA_ID_gr:
		return &m->gr[i].ens;
	case CCA_ID_roccet:
		return &m->roccet[i].ens;
	default:
		return &rtcp_ens_of(m, i)->flow;
	}
}

/* Rows are recalled: for another table, or because there is none any more. */
static void recall_flow(struct maker *m, u32 i, const struct ens_table *t)
{
	struct ens_flow *ens = ens_flow_of(m, i);
	struct rec_record r;

	rec_init(&r, REC_RECALL, i + 1, m->now_us);
	if (m->header.id == CCA_ID_gr)
		gr_flow_recall(&m->gr[i], gr_defaults(m), t, m->now_us);
	else if (m->header.id == CCA_ID_roccet)
		roccet_flow_recall(&m->roccet[i], roccet_defaults(m), t, m->now_us);
	else
		rtcp_ens_recall(rtcp_ens_of(m, i), client_of(m, i), rtcp_defaults(m), t, m->now_us,
				rtcp_set_of_flow(m, i));
	if (ens->epoch_end == ENS_WAITED)
		return;
	ens_flow_put_recall(&r, ens, t ? t->generation : 0, m->params.version);
	if (m->header.id == CCA_ID_gr)
		ens_flow_put_outcome(&r, ens, &m->gr[i].params, m->header.id);
	else if (m->header.id == CCA_ID_roccet)
		ens_flow_put_outcome(&r, ens, &m->roccet[i].params, m->header.id);
	else
		put_rtcp_recall(m, i, &r);
	put(m, &r);
}

static void step(struct maker *m, u32 i)
{
	u32 k;

	if (m->header.id != CCA_ID_reno && !roll(m, 200)) {
		tell_table(m);
		for (k = 0; m->table.generation % 2 && k < FLOWS; k++)
			recall_flow(m, k, m->table.generation % 4 == 1 ? &m->table : NULL);
	}
	if (m->header.id != CCA_ID_reno && !roll(m, 200))
		tell_params(m);
	m->now_us += roll(m, takes_long(m) ? 8000 : 2000);
	if (m->header.id == CCA_ID_gr)
		gr_step(m, i);
	else if (replay_is_rtcp(m->header.id))
		rtcp_step(m, i);
	else
		window_step(m, i);
}

static u32 id_of(const char *name)
{
	u32 id;

	for (id = CCA_ID_gr; cca_name_of(id) && strcmp(cca_name_of(id), name); id++)
		;
	return id;
}

int main(int argc, char **argv)
{
	static struct maker m;
	u32 i, events;

	if (argc != 5)
		return 2;
	m.header.id = id_of(argv[1]);
	m.dice = strtoull(argv[2], NULL, 10);
	events = (u32)strtoul(argv[3], NULL, 10);
	m.file = fopen(argv[4], "wb");
	if (!m.file)
		return 2;
	m.header.magic = REC_MAGIC;
	m.header.version = REC_VERSION;
	m.header.header_bytes = sizeof(m.header);
	m.header.record_bytes = sizeof(struct rec_record);
	m.now_us = START_US;
	fwrite(&m.header, sizeof(m.header), 1, m.file);
	make_table(&m);
	cca_params_init(m.params.value, m.header.id);
	if (m.header.id != CCA_ID_reno) {
		tell_params(&m);
		tell_table(&m);
	}
	for (i = 0; i < FLOWS; i++)
		start_flow(&m, i);
	for (i = 0; i < events; i++)
		step(&m, i % FLOWS);
	for (i = 0; replay_is_rtcp(m.header.id) && i < FLOWS; i++)
		leave_rtcp(&m, i);
	rewind(m.file);
	fwrite(&m.header, sizeof(m.header), 1, m.file);
	return fclose(m.file) ? 2 : 0;
}
