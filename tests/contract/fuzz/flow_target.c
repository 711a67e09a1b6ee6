// SPDX-License-Identifier: MIT
/*
 * Fuzz target: a flow under GR with its epoch clock and tables that come and
 * go, and Reno, CUBIC, Vegas, ROCCET, both versions of BBR and R-TCP over them beside
 * it, under any sequence of events that a host could send, also one that does not keep to the contract.
 *
 * An input is a program: parameters and a start, then operations of a byte and
 * its operands. Operands are read where they are used; an input that ends gives
 * zeros.
 *
 * Properties, after every event:
 *   - 2 <= cwnd <= 2^24, pacing <= 2^37, and above 0 once a round trip is known
 *   - parameters in force lie in their ranges; a state lies in its table
 *   - counters keep their order, the window its bounds
 *   - what the memory held before, and where it lies, does not count: a second
 *     flow, elsewhere and moved about, decides the same
 *   - no arithmetic is undefined and no byte outside is touched (the sanitizers)
 */
#include "../core/read_table.h"
#include "base_flows.h"
#include "gr_flow.h"
#include "made_text.h"
#include "reno.h"
#include "rtcp_flows.h"

#define TABLES 8u
#define MAX_OPERATIONS 400u

enum reached {
	INPUTS, ACKS, SLOW_STARTS_LEFT, DRAINS, HOLDS, TIMEOUTS, UNDONE, SILENCES, LOOKED_UP,
	RAISED, KEPT, TABLES_TAKEN, RATES_CHANGED, ESTIMATING, LIMITED, CLEARED, PROBING, REFILLING,
	LIFTED, VERIFYING, REACHED,
};

static struct counter counters[REACHED] = {
	{ "inputs", 0 }, { "acks", 0 }, { "slow_starts_left", 0 }, { "drains", 0 }, { "holds", 0 },
	{ "timeouts", 0 }, { "undone", 0 }, { "silences", 0 }, { "looked_up", 0 }, { "raised", 0 },
	{ "kept", 0 }, { "tables_taken", 0 }, { "rates_changed", 0 }, { "estimating", 0 },
	{ "limited", 0 }, { "cleared", 0 }, { "probing", 0 }, { "refilling", 0 },
	{ "lifted", 0 }, { "verifying", 0 },
};

static struct ens_table tables[TABLES];

static void print_reached(void)
{
	u32 i;

	print_counters(counters, REACHED);
	print_counters(base_counters, CCA_COUNT_OF(base_counters));
	for (i = 0; i < TABLES; i++)
		free(tables[i].values);
}

UNGUIDED_BEGIN

/* Tables of GR from made texts of up to eight levels; epochs short enough to end. */
static void make_tables(void)
{
	u32 i;

	base_make_tables();
	for (i = 0; i < TABLES; i++) {
		struct made_text made = make_text(i, CCA_ID_gr, 8, 0);
		struct ens_parser parser;

		ens_parser_init(&parser, &tables[i], CCA_ID_gr);
		PROPERTY(feed_table(&parser, made.text, made.len) == (int)made.len);
		PROPERTY(ens_is_complete(&parser));
		free(made.text);
		if (i % 2) {
			tables[i].epoch_ms = 1 + i * 300;
			tables[i].estimate_ms = cca_min_u32(tables[i].estimate_ms, 1 + i * 50);
			tables[i].epsilon_pct = 25;
			tables[i].axis[0].step = 100000 * i;
		}
	}
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

/* --- the flow ------------------------------------------------------------------- */

struct run {
	struct gr_flow *a, *b;		/* the same flow twice, in memory that held other things */
	struct gr_params defaults;
	const struct ens_table *table;
	struct cca_ack ack;
	struct cca_decision d;
	struct reno_state reno;
	struct cca_window window;
	struct base_flows base;
	struct rtcp_flows rtcp;
	u64 generation;
	u32 states;			/* of the table that the last turn saw; 0: none */
};

static void check_window(const struct cca_rate_window *w)
{
	PROPERTY(w->next - w->oldest <= CCA_RATE_SAMPLES);
	PROPERTY(cca_rate_of(w, 1448) <= CCA_MAX_RATE_BYTES_PER_S);
}

static void check_flow(const struct run *r)
{
	const struct gr_flow *f = r->a;
	u32 i;

	PROPERTY(r->d.cwnd_pkts >= GR_MIN_CWND_PKTS && r->d.cwnd_pkts <= CCA_MAX_PKTS);
	PROPERTY(r->d.pacing_bytes_per_s <= CCA_MAX_RATE_BYTES_PER_S);
	PROPERTY(!f->gr.min_rtt_us || r->d.pacing_bytes_per_s > 0);
	PROPERTY(f->gr.min_rtt_us <= CCA_MAX_RTT_US);
	PROPERTY(f->gr.mode <= GR_DRAIN && f->ens.epoch_end <= ENS_KEPT);
	PROPERTY(f->gr.mode == GR_SLOW_START || f->gr.min_rtt_us);
	for (i = 0; cca_param_at(CCA_ID_gr, i); i++) {
		PROPERTY(cca_param_get(&f->params, i) >= cca_param_at(CCA_ID_gr, i)->min);
		PROPERTY(cca_param_get(&f->params, i) <= cca_param_at(CCA_ID_gr, i)->max);
	}
	PROPERTY(f->ens.clock.state == ENS_NO_STATE || f->ens.clock.state < r->states);
	PROPERTY(f->ens.clock.within_low <= f->ens.clock.within_high);
	PROPERTY(f->ens.clock.within_high <= f->ens.clock.samples);
	PROPERTY(f->ens.clock.samples <= CCA_MAX_PKTS);
	PROPERTY(f->ens.clock.measured_bytes_per_s <= CCA_MAX_RATE_BYTES_PER_S);
	check_window(&f->gr.bandwidth);
	check_window(&f->ens.clock.acked);
	PROPERTY(r->window.cwnd_pkts <= CCA_MAX_PKTS);
}

static void check_same(const struct cca_decision *a, const struct cca_decision *b)
{
	PROPERTY(a->cwnd_pkts == b->cwnd_pkts);
	PROPERTY(a->pacing_bytes_per_s == b->pacing_bytes_per_s);
}

static void count_ack(const struct run *r, u8 mode_before, u64 rate_before)
{
	static const enum reached turns[] = { INPUTS, LOOKED_UP, RAISED, KEPT };

	counters[ACKS].count++;
	counters[SLOW_STARTS_LEFT].count += mode_before == GR_SLOW_START && r->a->gr.mode == GR_CRUISE;
	counters[DRAINS].count += mode_before == GR_CRUISE && r->a->gr.mode == GR_DRAIN;
	counters[HOLDS].count += r->a->gr.hold;
	counters[RATES_CHANGED].count += r->a->gr.mode == GR_CRUISE &&
					 rate_before != r->d.pacing_bytes_per_s;
	if (r->a->ens.epoch_end)
		counters[turns[r->a->ens.epoch_end]].count++;
}

static void count_rtcp(struct rtcp_reached reached)
{
	counters[ESTIMATING].count += reached.estimating;
	counters[LIMITED].count += reached.limited;
	counters[CLEARED].count += reached.cleared;
	counters[PROBING].count += reached.probing;
	counters[REFILLING].count += reached.refilling;
	counters[LIFTED].count += reached.lifted;
	counters[VERIFYING].count += reached.verifying;
}

static void send_ack(struct run *r)
{
	struct cca_decision other = { 0, 0 };
	u8 mode = r->a->gr.mode;
	u64 rate = r->d.pacing_bytes_per_s;
	u32 epoch = r->a->ens.clock.epoch;

	r->ack.delivered_pkts += r->ack.acked_pkts;
	r->ack.cwnd_pkts = r->d.cwnd_pkts;
	gr_flow_on_ack(r->a, &r->defaults, r->table, &r->ack, &r->d);
	gr_flow_on_ack(r->b, &r->defaults, r->table, &r->ack, &other);
	check_same(&r->d, &other);
	if (epoch != r->a->ens.clock.epoch)
		r->states = r->table ? ens_states(r->table) : 0;
	reno_on_ack(&r->reno, &r->ack);
	reno_grow(&r->reno, &r->window, r->ack.acked_pkts);
	if (r->ack.lost_pkts)
		r->window.ssthresh_pkts = reno_ssthresh(&r->reno, &r->window);
	base_send_ack(&r->base, &r->ack);
	count_rtcp(rtcp_send_ack(&r->rtcp, &r->ack));
	check_flow(r);
	count_ack(r, mode, rate);
	r->ack.lost_pkts = 0;
}

static void send_event(struct run *r, u32 kind)
{
	struct cca_event ev;
	struct cca_decision other = { 0, 0 };
	u32 cwnd_pkts = r->d.cwnd_pkts;

	memset(&ev, 0, sizeof(ev));
	ev.kind = (enum cca_event_kind)(kind % 7);
	ev.now_us = r->ack.now_us;
	ev.inflight_pkts = r->ack.inflight_pkts;
	ev.cwnd_pkts = r->d.cwnd_pkts;
	ev.mss_bytes = r->ack.mss_bytes;
	gr_flow_on_event(r->a, &ev, &r->d);
	gr_flow_on_event(r->b, &ev, &other);
	check_same(&r->d, &other);
	base_send_event(&r->base, &ev);
	rtcp_send_event(&r->rtcp, &ev);
	if (ev.kind == CCA_TIMEOUT) {
		counters[TIMEOUTS].count++;
		r->window.cwnd_pkts = 1;
	} else if (ev.kind == CCA_UNDO) {
		counters[UNDONE].count += r->d.cwnd_pkts != cwnd_pkts;
		r->window.cwnd_pkts = cca_min_u32(reno_undo(&r->reno, &r->window), CCA_MAX_PKTS);
	} else if (ev.kind == CCA_TRANSFER_STARTED || ev.kind == CCA_IDLE_RESTART) {
		counters[SILENCES].count++;
	}
	check_flow(r);
}

/* Moves the second flow to other memory: a state holds no address of itself. */
static void move(struct run *r)
{
	struct gr_flow *moved = (struct gr_flow *)malloc(sizeof(*moved));

	memcpy(moved, r->b, sizeof(*moved));
	free(r->b);
	r->b = moved;
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
	r->ack.mss_bytes = take_any(p, 1448);
	r->ack.rate_pkts = take_any(p, 1);
	r->ack.rate_interval_us = take_any(p, 1000);
	r->ack.tx_inflight_pkts = r->ack.inflight_pkts;
	r->ack.lost_since_pkts = r->ack.lost_pkts;
	send_ack(r);
}

static void change_table(struct run *r, struct program *p)
{
	u32 which = take_byte(p) % (TABLES + 2);

	if (which >= TABLES) {
		r->table = NULL;
		base_change_table(&r->base, which, 0);
		return;
	}
	tables[which].generation = ++r->generation;	/* a host counts the tables it takes */
	r->table = &tables[which];
	base_change_table(&r->base, which, r->generation);
	counters[TABLES_TAKEN].count++;
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

static void take_params(struct gr_params *params, struct program *p)
{
	u32 i;

	cca_params_init(params, CCA_ID_gr);
	for (i = 0; cca_param_at(CCA_ID_gr, i); i++) {
		const struct cca_param_spec *spec = cca_param_at(CCA_ID_gr, i);
		u32 how = take_byte(p);

		if (how >= 192)
			cca_param_set(params, i, spec->min);
		else if (how >= 128)
			cca_param_set(params, i, spec->max);
		else if (how >= 64)
			cca_param_set(params, i, spec->min + take_u32(p) % (spec->max - spec->min + 1));
	}
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
		break;
	case 12:
		r->ack.app_limited = !r->ack.app_limited;
		break;
	case 13:
		take_params(&r->defaults, p);
		break;
	case 14:
		r->window.credit_pkts = take_any(p, 0) % CCA_MAX_PKTS;
		r->window.ssthresh_pkts = take_any(p, 100);
		break;
	default:
		move(r);
		break;
	}
}

static struct gr_flow *open_flow(struct run *r, const struct cca_start *start, u32 flags, int garbage)
{
	struct gr_flow *f = (struct gr_flow *)malloc(sizeof(*f));

	memset(f, garbage, sizeof(*f));
	gr_flow_init(f, &r->defaults, start, (u8)(flags % 9), flags * 16777619u, &r->d);
	return f;
}

static void open_run(struct run *r, struct program *p)
{
	struct cca_start start;
	u32 flags = take_byte(p);

	memset(r, 0, sizeof(*r));
	take_params(&r->defaults, p);
	start.now_us = (u64)take_any(p, 1000000) << (flags % 33);
	start.rtt_us = take_any(p, 50000);
	start.cwnd_pkts = take_any(p, 10);
	start.delivered_pkts = take_any(p, 0);
	start.mss_bytes = take_any(p, 1448);
	r->a = open_flow(r, &start, flags, 0xa5);
	r->b = open_flow(r, &start, flags, 0x5a);
	r->ack.now_us = start.now_us;
	r->ack.delivered_pkts = start.delivered_pkts;
	r->ack.mss_bytes = start.mss_bytes;
	base_open(&r->base, &start, flags);
	rtcp_open(&r->rtcp, &start, flags);
	reno_init(&r->reno);
	r->window.cwnd_pkts = cca_min_u32(start.cwnd_pkts, CCA_MAX_PKTS);
	r->window.ssthresh_pkts = 0x7fffffffu;
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
	free(r.a);
	free(r.b);
	return 0;
}
