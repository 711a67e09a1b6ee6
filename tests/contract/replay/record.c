// SPDX-License-Identifier: MIT
/*
 * record CCA SEED EVENTS FILE: makes a recording as a kernel would, of made-up
 * events, so that the replayer is tested without a kernel. Three flows in turn;
 * the table and the parameters change on the way.
 */
#include "replay.h"

#define MSS 1448u
#define FLOWS 3u

struct maker {
	FILE *file;
	u64 dice;
	struct rec_header header;
	struct ens_table table;
	u32 values[2 * 4 * 3];
	struct replay_params params;
	struct gr_flow gr[FLOWS];
	struct reno_state reno[FLOWS];
	struct cca_window window[FLOWS];
	u64 now_us;
	u32 delivered[FLOWS];
};

static u32 roll(struct maker *m, u32 below)
{
	m->dice = m->dice * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(m->dice >> 33) % below;
}

static void put(struct maker *m, struct rec_record *r)
{
	rec_finish(r);
	fwrite(r, sizeof(*r), 1, m->file);
	m->header.records++;
}

static void tell_table(struct maker *m)
{
	struct rec_record r;
	u32 i;

	m->table.generation++;
	for (i = 0; i < 24; i++)
		m->values[i] = i % 3 == 0 ? 2000 + roll(m, 90000) : 1000 + roll(m, 50000);
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
	m->params.params.cwnd_gain_pct = 100 + roll(m, 200);
	rec_init(&r, REC_PARAMS, 0, 0);
	rec_put_params(&r, &m->params.params, CCA_ID_gr, m->params.version);
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
	t->n_axes = 1;
	t->axis[0].step = 500000;
	t->axis[0].count = 4;
	t->n_classes = 2;
	t->classes[0].percentile = t->classes[1].percentile = 95;
	t->classes[0].queueing_delay_us = 20000;
	t->classes[1].queueing_delay_us = 60000;
	t->n_columns = 3;
	for (i = 0; i < 3; i++)
		t->column[i] = i;
	t->values = m->values;
}

static void start_flow(struct maker *m, u32 i)
{
	struct cca_start start = { m->now_us, 40000, 10, m->delivered[i], MSS };
	struct cca_decision d;
	struct rec_record r;

	rec_init(&r, REC_START, i + 1, start.now_us);
	if (m->header.id == CCA_ID_gr) {
		u32 hash = roll(m, 1u << 31);

		gr_flow_init(&m->gr[i], &m->params.params, &start, 1, hash, &d);
		rec_put_start(&r, &start, 1, hash, m->params.version);
		gr_put_outcome(&r, &m->gr[i], &d);
	} else {
		reno_init(&m->reno[i]);
		m->window[i].cwnd_pkts = 10;
		m->window[i].ssthresh_pkts = 64;
		m->window[i].credit_pkts = 0;
		rec_put_start(&r, &start, 0, 0, 0);
	}
	put(m, &r);
}

static void make_ack(struct maker *m, u32 i, struct cca_ack *ack)
{
	memset(ack, 0, sizeof(*ack));
	ack->now_us = m->now_us;
	ack->rtt_us = 40000 + roll(m, 60000);
	ack->acked_pkts = 1 + roll(m, 3);
	ack->lost_pkts = roll(m, 20) ? 0 : 1;
	ack->inflight_pkts = roll(m, 60);
	ack->delivered_pkts = m->delivered[i] += ack->acked_pkts;
	ack->cwnd_pkts = 10 + roll(m, 50);
	ack->mss_bytes = MSS;
	ack->app_limited = !roll(m, 30);
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
		gr_flow_set_class(f, (u8)roll(m, 2));
		gr_flow_on_ack(f, &m->params.params, &m->table, &ack, &d);
		rec_init(&r, REC_ACK, i + 1, ack.now_us);
		gr_put_ack(&r, f, &ack, m->table.generation, m->params.version);
	}
	gr_put_outcome(&r, f, &d);
	put(m, &r);
}

static void reno_step(struct maker *m, u32 i)
{
	static const enum rec_kind kinds[] = { REC_GROW, REC_GROW, REC_GROW, REC_GROW, REC_GROW,
					       REC_TOLD, REC_SSTHRESH, REC_UNDO, REC_EVENT };
	enum rec_kind kind = kinds[roll(m, 9)];
	struct cca_event ev = { (enum cca_event_kind)roll(m, 6), m->now_us, 5, 10, MSS };
	struct cca_window *w = &m->window[i];
	struct rec_record r;
	struct cca_ack ack;

	rec_init(&r, kind, i + 1, m->now_us);
	if (kind == REC_EVENT) {
		rec_put_event(&r, &ev);
	} else if (kind == REC_TOLD) {
		make_ack(m, i, &ack);
		rec_put_ack(&r, &ack);
	} else {
		rec_put_window(&r, w);
		if (kind == REC_GROW)
			reno_grow(&m->reno[i], w, r.word[REC_ACKED] = 1 + roll(m, 3));
		else
			r.word[REC_RESULT] = kind == REC_SSTHRESH ? reno_ssthresh(&m->reno[i], w) :
								    reno_undo(&m->reno[i], w);
		rec_put_window_after(&r, w);
		if (kind == REC_SSTHRESH)
			w->ssthresh_pkts = w->cwnd_pkts = r.word[REC_RESULT];
		else if (kind == REC_UNDO)
			w->cwnd_pkts = r.word[REC_RESULT];
	}
	put(m, &r);
}

int main(int argc, char **argv)
{
	static struct maker m;
	u32 i, events;

	if (argc != 5)
		return 2;
	m.header.id = strcmp(argv[1], "gr") ? CCA_ID_reno : CCA_ID_gr;
	m.dice = strtoull(argv[2], NULL, 10);
	events = (u32)strtoul(argv[3], NULL, 10);
	m.file = fopen(argv[4], "wb");
	if (!m.file)
		return 2;
	m.header.magic = REC_MAGIC;
	m.header.version = REC_VERSION;
	m.header.header_bytes = sizeof(m.header);
	m.header.record_bytes = sizeof(struct rec_record);
	m.now_us = 1000000;
	fwrite(&m.header, sizeof(m.header), 1, m.file);
	make_table(&m);
	cca_params_init(&m.params.params, CCA_ID_gr);
	if (m.header.id == CCA_ID_gr) {
		tell_params(&m);
		tell_table(&m);
	}
	for (i = 0; i < FLOWS; i++)
		start_flow(&m, i);
	for (i = 0; i < events; i++) {
		if (m.header.id == CCA_ID_gr && !roll(&m, 200))
			tell_table(&m);
		if (m.header.id == CCA_ID_gr && !roll(&m, 200))
			tell_params(&m);
		m.now_us += roll(&m, 2000);
		if (m.header.id == CCA_ID_gr)
			gr_step(&m, i % FLOWS);
		else
			reno_step(&m, i % FLOWS);
	}
	rewind(m.file);
	fwrite(&m.header, sizeof(m.header), 1, m.file);
	return fclose(m.file) ? 2 : 0;
}
