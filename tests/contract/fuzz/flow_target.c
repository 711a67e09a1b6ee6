// SPDX-License-Identifier: MIT
/*
 * Fuzz target: a flow under each algorithm of the core, with tables and recalls that come and
 * go, under any sequence of events that a host could send, also one that does not keep to the
 * contract. Three flows of R-TCP share a client.
 *
 * An input is a program: parameters and a start, then operations of a byte and
 * its operands. Operands are read where they are used; an input that ends gives
 * zeros.
 *
 * Properties, after every event:
 *   - the window and the pacing rate lie within their bounds
 *   - parameters in force lie in their ranges; a state lies in its table
 *   - counters keep their order, what is measured its bounds
 *   - what the memory held before, and where it lies, does not count: a second
 *     flow, elsewhere and moved about, decides the same
 *   - no arithmetic is undefined and no byte outside is touched (the sanitizers)
 */
#include "../core/read_table.h"
#include "flow_properties.h"
#include "made_text.h"

#define TABLES 8u
#define MAX_OPERATIONS 400u

enum reached {
	INPUTS, ACKS, SLOW_STARTS_LEFT, DRAINS, HOLDS, TIMEOUTS, UNDONE, SILENCES, LOOKED_UP,
	RAISED, KEPT, TABLES_TAKEN, RECALLED, RATES_CHANGED, ROCCET_LAUNCHES, ROCCET_EVENTS,
	ROCCET_ROWS, ESTIMATING, CLEARED, PROBING, REFILLING, LIFTED, VERIFYING,
	SIRA_REDUCED, SIRA_UNSENT, SIRA_OUTAGES, REACHED,
};

static struct counter counters[REACHED] = {
	{ "inputs", 0 }, { "acks", 0 }, { "slow_starts_left", 0 }, { "drains", 0 }, { "holds", 0 },
	{ "timeouts", 0 }, { "undone", 0 }, { "silences", 0 }, { "looked_up", 0 }, { "raised", 0 },
	{ "kept", 0 }, { "tables_taken", 0 }, { "recalled", 0 }, { "rates_changed", 0 },
	{ "roccet_launches", 0 }, { "roccet_events", 0 }, { "roccet_rows", 0 }, { "estimating", 0 },
	{ "cleared", 0 }, { "probing", 0 }, { "refilling", 0 }, { "lifted", 0 }, { "verifying", 0 },
	{ "sira_reduced", 0 }, { "sira_unsent", 0 }, { "sira_outages", 0 },
};

static struct ens_table tables[TABLES][FLOWS];

static void print_reached(void)
{
	u32 i, k;

	print_counters(counters, REACHED);
	for (i = 0; i < TABLES; i++)
		for (k = 0; k < FLOWS; k++)
			free(tables[i][k].values);
}

UNGUIDED_BEGIN

static void make_table(struct ens_table *t, u32 id, u32 seed)
{
	struct made_text made = make_text(seed, id, 8, 0);
	struct ens_parser parser;

	ens_parser_init(&parser, t, id);
	PROPERTY(feed_table(&parser, made.text, made.len) == (int)made.len);
	PROPERTY(ens_is_complete(&parser));
	free(made.text);
	if (seed % 2 == 0)
		return;
	/* Epochs that are short enough to end, levels that are met. */
	t->epoch_ms = 1 + seed * 300;
	t->estimate_ms = cca_min_u32(t->estimate_ms, 1 + seed * 50);
	t->epsilon_pct = t->n_classes ? 25 : 0;
	t->axis[0].step = is_rtcp(id) ? 5000 * seed : 100000 * seed;
}

/* From made texts of up to eight levels, for each algorithm that has rows. */
static void make_tables(void)
{
	u32 i, k;

	for (k = 0; k < FLOWS; k++)
		for (i = 0; i < TABLES && cca_axis_name(ids[k], 0); i++)
			make_table(&tables[i][k], ids[k], i);
}

UNGUIDED_END

/* --- operands --------------------------------------------------------------- */

struct program {
	const uint8_t *at;
	size_t left;
};

static u32 take_byte(struct program *p)
{
	if (!p->left)
		return 0;
	p->left--;
	return *p->at++;
}

static u32 take_u32(struct program *p)
{
	u32 value = take_byte(p);

	value = value << 8 | take_byte(p);
	value = value << 8 | take_byte(p);
	return value << 8 | take_byte(p);
}

/* A number as hosts give it, as no host should, or any. */
static u32 take_any(struct program *p, u32 usual)
{
	static const u32 odd[] = {
		0, 1, 2, 0xffffffffu, 0xfffffffeu, 0x7fffffffu, 0x80000000u, 1u << 24, (1u << 24) + 1,
		1u << 26, (1u << 26) + 1, 1u << 16, 1000000, 4000000, 3600000000u, 1u << 28,
	};
	u32 how = take_byte(p);

	if (how < 128)
		return usual;
	if (how < 192)
		return odd[how % 16];
	return take_u32(p) >> (how % 32);
}

/* --- ACKs ----------------------------------------------------------------------- */

static void lose(struct flow *f, const struct cca_ack *ack)
{
	struct cca_loss loss = { ack->now_us, ack->delivered_pkts, ack->tx_inflight_pkts,
				 ack->lost_pkts, ack->app_limited };
	u32 cwnd_pkts = f->w.cwnd_pkts;

	flow_on_loss(f, &loss);
	if (!is_window_mode(f->id))
		return;
	f->w.ssthresh_pkts = flow_ssthresh(f);
	PROPERTY(f->w.cwnd_pkts == cwnd_pkts && f->w.ssthresh_pkts >= 2);
	f->w.cwnd_pkts = cca_min_u32(cwnd_pkts, f->w.ssthresh_pkts);
}

/* An ACK itself only lowers the window, and in ROCCET's recovery not even that. */
static void check_lowered(const struct flow *f, const struct cca_window *before)
{
	const struct roccet_state *s = &f->roccet.roccet;

	PROPERTY(f->w.cwnd_pkts <= cca_max_u32(before->cwnd_pkts, CUBIC_MIN_CWND_PKTS));
	if (f->id != CCA_ID_roccet || !s->in_recovery)
		return;
	PROPERTY(f->w.cwnd_pkts == before->cwnd_pkts);
	PROPERTY(f->w.ssthresh_pkts == before->ssthresh_pkts ||
		 (s->ignores && f->w.ssthresh_pkts < before->ssthresh_pkts));
}

/* Growth raises it, but for Vegas, which moves it by one in a round trip. */
static void grow(struct flow *f, const struct cca_ack *ack)
{
	u32 before_pkts = f->w.cwnd_pkts;

	if (f->id == CCA_ID_roccet && f->roccet.roccet.in_recovery)
		return;
	flow_grow(f, ack->acked_pkts);
	PROPERTY(f->w.cwnd_pkts + (f->id == CCA_ID_vegas) >= before_pkts ||
		 (is_rtcp(f->id) && f->client->kind == RTCP_LIMITED));
	PROPERTY(f->id != CCA_ID_vegas || f->w.cwnd_pkts < before_pkts ||
		 f->w.cwnd_pkts - before_pkts <= cca_max_u32(ack->acked_pkts, 1));
	PROPERTY(f->id != CCA_ID_roccet || !f->roccet.roccet.drains || f->w.cwnd_pkts == before_pkts);
}

static void give_ack(struct flow *f, const struct cca_ack *ack)
{
	struct cca_window before;

	if (ack->lost_pkts)
		lose(f, ack);
	if (is_rtcp(f->id))
		rtcp_flow_update_share(flow_rtcp(f), f->client, (u64)ack->inflight_pkts * ack->mss_bytes);
	before = f->w;
	flow_on_ack(f, ack);
	if (is_window_mode(f->id)) {
		check_lowered(f, &before);
		grow(f, ack);
	}
}

static void note_table(struct run *r, u32 i)
{
	struct flow *f = r->flow[0][i];

	if (flow_ens(f) && flow_ens(f)->epoch_end != ENS_WAITED)
		r->states[i] = f->table ? ens_states(f->table) : 0;
}

/* What count_ack() compares with. */
struct before {
	u64 rate_bytes_per_s;
	u32 launches, events;
	u8 mode;
};

static struct before before_ack(const struct run *r)
{
	const struct roccet_state *roccet = &r->flow[0][ROCCET]->roccet.roccet;
	struct before b = { r->flow[0][GR]->d.pacing_bytes_per_s, roccet->launches, roccet->events,
			    r->flow[0][GR]->gr.gr.mode };

	return b;
}

static void count_ack(const struct run *r, const struct before *b)
{
	static const enum reached ends[] = { INPUTS, LOOKED_UP, RAISED, KEPT };
	const struct flow *f = r->flow[0][GR], *other = r->flow[0][ROCCET];
	const struct sira_state *sira = &r->flow[0][SIRA]->sira.sira;
	const struct rtcp_client *c = &r->client[0];
	u32 i;

	counters[ACKS].count++;
	counters[SIRA_REDUCED].count += sira->mode == SIRA_REDUCE;
	counters[SIRA_UNSENT].count += sira->unsent.behind != 0;
	counters[SIRA_OUTAGES].count += sira->outage;
	counters[SLOW_STARTS_LEFT].count += b->mode == GR_SLOW_START && f->gr.gr.mode == GR_CRUISE;
	counters[DRAINS].count += b->mode == GR_CRUISE && f->gr.gr.mode == GR_DRAIN;
	counters[HOLDS].count += f->gr.gr.hold;
	counters[RATES_CHANGED].count += f->gr.gr.mode == GR_CRUISE &&
					 b->rate_bytes_per_s != f->d.pacing_bytes_per_s;
	counters[ends[f->gr.ens.epoch_end]].count += f->gr.ens.epoch_end != ENS_WAITED;
	counters[ROCCET_LAUNCHES].count += other->roccet.roccet.launches - b->launches;
	counters[ROCCET_EVENTS].count += other->roccet.roccet.events - b->events;
	counters[ROCCET_ROWS].count += other->roccet.ens.epoch_end == ENS_LOOKED_UP &&
				       !other->roccet.ens.held_back;
	counters[ESTIMATING].count += c->fit.count != 0;
	counters[CLEARED].count += c->kind == RTCP_CLEARED;
	for (i = RTCP_CUBIC; i <= RTCP_BBR3; i++) {
		u8 phase = flow_rtcp(r->flow[0][i])->phase;

		counters[PROBING].count += phase == RTCP_PROBING;
		counters[REFILLING].count += phase == RTCP_REFILLING;
		counters[LIFTED].count += phase == RTCP_LIFTED;
		counters[VERIFYING].count += phase == RTCP_VERIFYING;
	}
}

static void send_ack(struct run *r)
{
	struct before b = before_ack(r);
	u32 side, i;

	r->ack.delivered_pkts += r->ack.acked_pkts;
	r->ack.cwnd_pkts = r->flow[0][GR]->d.cwnd_pkts;
	for (side = 0; side < 2; side++)
		for (i = 0; i < FLOWS; i++)
			give_ack(r->flow[side][i], &r->ack);
	for (i = 0; i < FLOWS; i++)
		note_table(r, i);
	check_flows(r);
	count_ack(r, &b);
	r->ack.lost_pkts = 0;
}

/* --- other events ----------------------------------------------------------------- */

static void give_event(struct flow *f, const struct cca_event *ev)
{
	if (is_window_mode(f->id) && ev->kind == CCA_UNDO)
		f->w.cwnd_pkts = cca_min_u32(flow_undo(f), CCA_MAX_PKTS);
	else if (is_window_mode(f->id) && ev->kind == CCA_TIMEOUT)
		f->w.cwnd_pkts = 1;
	if (f->id == CCA_ID_rtcp_bbr3 && ev->kind == CCA_RECOVERY_LEFT && !ev->inflight_pkts)
		rtcp_flow_rests(flow_rtcp(f), f->client);
	flow_on_event(f, ev);
}

static void send_event(struct run *r, u32 kind)
{
	u32 cwnd_pkts = r->flow[0][GR]->d.cwnd_pkts, side, i;
	struct cca_event ev;

	memset(&ev, 0, sizeof(ev));
	ev.kind = (enum cca_event_kind)(kind % 7);
	ev.now_us = r->ack.now_us;
	ev.inflight_pkts = r->ack.inflight_pkts;
	ev.cwnd_pkts = cwnd_pkts;
	ev.mss_bytes = r->ack.mss_bytes;
	for (side = 0; side < 2; side++)
		for (i = 0; i < FLOWS; i++)
			give_event(r->flow[side][i], &ev);
	counters[TIMEOUTS].count += ev.kind == CCA_TIMEOUT;
	counters[UNDONE].count += ev.kind == CCA_UNDO && r->flow[0][GR]->d.cwnd_pkts != cwnd_pkts;
	counters[SILENCES].count += ev.kind == CCA_TRANSFER_STARTED || ev.kind == CCA_IDLE_RESTART;
	check_flows(r);
}

static void recall(struct run *r)
{
	u32 side, i;

	for (i = 0; i < FLOWS; i++) {
		for (side = 0; side < 2; side++)
			flow_recall(r->flow[side][i], r->ack.now_us);
		note_table(r, i);
	}
	counters[RECALLED].count += r->flow[0][GR]->gr.ens.epoch_end != ENS_WAITED;
	check_flows(r);
}

/* Moves the second flows to other memory: a state holds no address of itself. */
static void move(struct run *r)
{
	u32 i;

	for (i = 0; i < FLOWS; i++) {
		struct flow *moved = (struct flow *)malloc(sizeof(*moved));

		memcpy(moved, r->flow[1][i], sizeof(*moved));
		free(r->flow[1][i]);
		r->flow[1][i] = moved;
	}
}

/* --- operations -------------------------------------------------------------------- */

/* ACKs of an even stream: the modes and epochs go by in few bytes of input. */
static void send_stream(struct run *r, struct program *p)
{
	u32 count = 1 + take_byte(p), gap_us = 1u << take_byte(p) % 20;
	u32 rtt_us = 1000u * (1 + take_byte(p)), slope_us = 50 * (take_byte(p) % 16), i;

	r->ack.acked_pkts = 1 + gap_us / 100000;
	r->ack.inflight_pkts = rtt_us / gap_us + 2;
	for (i = 0; i < count; i++) {
		r->ack.now_us += gap_us;
		r->ack.rtt_us = rtt_us + i * slope_us;
		r->ack.rate_pkts = r->ack.inflight_pkts;
		r->ack.rate_interval_us = r->ack.rtt_us;
		send_ack(r);
	}
}

static void send_odd_ack(struct run *r, struct program *p)
{
	r->ack.now_us += take_any(p, 1000);
	r->ack.rtt_us = take_any(p, 50000);
	r->ack.acked_pkts = take_any(p, 1);
	r->ack.lost_pkts = take_any(p, 0);
	r->ack.inflight_pkts = take_any(p, 10);
	r->ack.mss_bytes = take_any(p, MSS);
	r->ack.rate_pkts = take_any(p, 1);
	r->ack.rate_interval_us = take_any(p, 1000);
	r->ack.tx_inflight_pkts = r->ack.inflight_pkts;
	r->ack.lost_since_pkts = r->ack.lost_pkts;
	send_ack(r);
}

static void change_table(struct run *r, struct program *p)
{
	u32 which = take_byte(p) % (TABLES + 2), side, i;

	r->generation += which < TABLES;	/* a host counts the tables it takes */
	for (i = 0; i < FLOWS; i++) {
		struct ens_table *t = which < TABLES && tables[which][i].id ? &tables[which][i] : NULL;

		if (t)
			t->generation = r->generation;
		for (side = 0; side < 2; side++)
			r->flow[side][i]->table = t;
	}
	counters[TABLES_TAKEN].count += which < TABLES;
}

static void change_clock(struct run *r, struct program *p)
{
	u32 how = take_byte(p);

	if (how < 200)
		r->ack.now_us += (u64)take_u32(p) << how % 24;
	else if (how < 250)
		r->ack.now_us -= take_u32(p) >> how % 32;
	else
		r->ack.now_us = how % 2 ? 0 : ~0ull - 1000000;
}

/* GR's, one by one. */
static void take_params(struct run *r, struct program *p)
{
	struct gr_params params;
	u32 i;

	cca_params_init(&params, CCA_ID_gr);
	for (i = 0; cca_param_at(CCA_ID_gr, i); i++) {
		const struct cca_param_spec *spec = cca_param_at(CCA_ID_gr, i);
		u32 how = take_byte(p);

		if (how >= 192)
			cca_param_set(&params, i, spec->min);
		else if (how >= 128)
			cca_param_set(&params, i, spec->max);
		else if (how >= 64)
			cca_param_set(&params, i, spec->min + take_u32(p) % (spec->max - spec->min + 1));
	}
	r->flow[0][GR]->p.gr = r->flow[1][GR]->p.gr = params;
}

/* The others': each at an end of its range, by the bits of flags; else its default. */
static void set_params(void *params, u32 id, u32 flags)
{
	u32 i;

	cca_params_init(params, id);
	for (i = 0; flags && cca_param_at(id, i); i++) {
		const struct cca_param_spec *spec = cca_param_at(id, i);

		if ((flags >> i % 8) & 1)
			cca_param_set(params, i, flags & 1 ? spec->min : spec->max);
	}
}

static void change_renos_window(struct run *r, struct program *p)
{
	struct cca_window *w = &r->flow[0][RENO]->w;

	w->credit_pkts = take_any(p, 0) % CCA_MAX_PKTS;
	w->ssthresh_pkts = take_any(p, 100);
	r->flow[1][RENO]->w = *w;
}

static void operate(struct run *r, struct program *p)
{
	u32 operation = take_byte(p);

	switch (operation % 16) {
	case 0: case 1: case 2: case 3: case 4:
		send_stream(r, p);
		break;
	case 5:
		send_odd_ack(r, p);
		break;
	case 6:
		r->ack.lost_pkts = take_byte(p);
		break;
	case 7: case 8:
		send_event(r, take_byte(p));
		break;
	case 9:
		change_clock(r, p);
		break;
	case 10: case 11:
		change_table(r, p);
		if (operation & 16)
			recall(r);
		break;
	case 12:
		r->ack.app_limited = !r->ack.app_limited;
		break;
	case 13:
		take_params(r, p);
		break;
	case 14:
		change_renos_window(r, p);
		break;
	default:
		move(r);
		break;
	}
}

/* A limiter that an earlier connection has found: what rarely comes about in a few hundred events. */
static void know_limiter(struct rtcp_client *c, u32 flags)
{
	c->kind = RTCP_LIMITED;
	c->bytes_per_s = 1000u << flags % 21;
	c->before_bytes_per_s = flags & 1 ? RTCP_MAX_BYTES_PER_S : 4 * c->bytes_per_s;
	c->theta_permille = 600;
	c->bucket_bytes = 4000ull << flags % 31;
	c->mss_bytes = 1;
}

static void open_flow(struct flow *f, const struct cca_start *start, u32 flags)
{
	f->w.cwnd_pkts = cca_min_u32(start->cwnd_pkts, CCA_MAX_PKTS);
	f->w.ssthresh_pkts = NO_SSTHRESH;
	f->w.credit_pkts = 0;
	flow_init(f, start, (u8)(flags % 9), flags * 16777619u);
	if (is_window_mode(f->id))
		memset(&f->d, 0, sizeof(f->d));
}

static void open_run(struct run *r, struct program *p)
{
	u32 flags = take_byte(p), side, i;
	struct cca_start start;

	memset(r, 0, sizeof(*r));
	for (side = 0; side < 2; side++)
		for (i = 0; i < FLOWS; i++) {
			struct flow *f = (struct flow *)malloc(sizeof(*f));

			memset(f, side ? 0x5a : 0xa5, sizeof(*f));
			f->id = ids[i];
			f->table = NULL;
			f->client = &r->client[side];
			set_params(&f->p, f->id, flags);
			r->flow[side][i] = f;
		}
	take_params(r, p);
	start.now_us = (u64)take_any(p, 1000000) << (flags % 33);
	start.rtt_us = take_any(p, 50000);
	start.cwnd_pkts = take_any(p, 10);
	start.delivered_pkts = take_any(p, 0);
	start.mss_bytes = take_any(p, MSS);
	r->ack.now_us = start.now_us;
	r->ack.delivered_pkts = start.delivered_pkts;
	r->ack.mss_bytes = start.mss_bytes;
	for (side = 0; side < 2; side++) {
		memset(&r->client[side], side ? 0x5a : 0xa5, sizeof(r->client[side]));
		rtcp_client_init(&r->client[side], start.now_us);
		if (flags & 64)
			know_limiter(&r->client[side], flags);
		for (i = 0; i < FLOWS; i++)
			open_flow(r->flow[side][i], &start, flags);
	}
	check_flows(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct program p = { data, size };
	struct run r;
	u32 i;

	if (!counters[INPUTS].count++) {
		make_tables();
		atexit(print_reached);
	}
	open_run(&r, &p);
	for (i = 0; i < MAX_OPERATIONS && p.left; i++)
		operate(&r, &p);
	for (i = 0; i < FLOWS; i++) {
		free(r.flow[0][i]);
		free(r.flow[1][i]);
	}
	return 0;
}
