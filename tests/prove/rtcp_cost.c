// SPDX-License-Identifier: MIT
/*
 * The cost that R-TCP adds to an ACK of its base algorithms, in the core alone. Prints a line of
 * JSON for each base and phase. Flows under R-TCP are recorded on the path of the core's tests, and
 * their inputs replayed to the algorithm with R-TCP and to the one without it.
 *
 *   idle        no policer: nothing has triggered R-TCP
 *   estimating  behind a policer, from the trigger to the classification: all candidates live
 *   limited     from there on: estimate, tokens, cap and probes
 *
 * Policers and round trips are those of the operators 1 to 3 of R-TCP 2026 (Table 1), each behind
 * accesses of 20, 50 and 100 Mbit/s and with four round-trip times: 36 flows, so that a predictor
 * of branches does not know them by heart. A pass takes each flow once from the beginning of its
 * phase, without R-TCP and with it. The figures are means over the ACKs of all flows, of the
 * medians over the passes: what interrupts the program meets few of them.
 */
#include <stdlib.h>
#include <time.h>

#include "../contract/flow.h"

#define FILE_PKTS 4000u		/* more than any bucket, and all that a pass can take of a flow */
#define MOST_RECORDED 40000u
#define MOST_STEPS 500u		/* of a flow in a phase */
#define WAITING_BYTES 1000000u	/* the flow never lacks data */
#define VARIANTS 36u
#ifndef PASSES
#define PASSES 51
#endif

/* --- recording: an input of a flow, with the window that a call finds ---------------------- */

enum input { ACK, GROW, SSTHRESH, UNDO, EVENT, LOSS };

struct step {
	enum input input;
	u32 acked_pkts;
	struct cca_window window;
	union {
		struct cca_ack ack;
		struct cca_event event;
		struct cca_loss loss;
	};
};

static struct step recorded[MOST_RECORDED];
static u32 n_recorded;

static struct step *record(enum input input, const struct flow *f)
{
	struct step *step = &recorded[n_recorded < MOST_RECORDED - 1 ? n_recorded++ : n_recorded];

	step->input = input;
	step->window = f->w;
	return step;
}

static void recorded_ack(struct flow *f, const struct cca_ack *ack)
{
	record(ACK, f)->ack = *ack;
	rtcp_flow_update_share(flow_rtcp(f), f->client, WAITING_BYTES);
	flow_on_ack(f, ack);
}

static void recorded_grow(struct flow *f, u32 acked_pkts)
{
	if (is_window_mode(f->id))
		record(GROW, f)->acked_pkts = acked_pkts;
	flow_grow(f, acked_pkts);
}

static u32 recorded_ssthresh(struct flow *f)
{
	record(SSTHRESH, f);
	return flow_ssthresh(f);
}

static void recorded_event(struct flow *f, const struct cca_event *event)
{
	record(EVENT, f)->event = *event;
	flow_on_event(f, event);
}

static void recorded_loss(struct flow *f, const struct cca_loss *loss)
{
	if (f->id == CCA_ID_rtcp_bbr3)
		record(LOSS, f)->loss = *loss;
	flow_on_loss(f, loss);
}

/* The path calls these instead. */
#define flow_on_ack recorded_ack
#define flow_grow recorded_grow
#define flow_ssthresh recorded_ssthresh
#define flow_on_event recorded_event
#define flow_on_loss recorded_loss
#include "../contract/core/path.h"
#undef flow_on_ack
#undef flow_grow
#undef flow_ssthresh
#undef flow_on_event
#undef flow_on_loss

static const struct { u32 bytes_per_s, bucket_bytes, rtt_ms; } operators[] = {
	{ 258750, 733000, 36 }, { 162500, 385000, 18 }, { 130000, 223000, 21 },
};
static const u32 access_pkt_time_us[] = { 600, 240, 120 };

static struct path path;
static struct rtcp_client path_client;

/* A file of the variant under this algorithm; returns its start. */
static struct cca_start record_file(u32 id, u32 variant, bool policed)
{
	u32 op = variant / 12, rtt_us = (operators[op].rtt_ms + variant % 4) * MS;
	struct cca_start start;

	path_open(&path, access_pkt_time_us[variant / 4 % 3], rtt_us, 1000);
	path.token_time_us = policed ? (u32)(1500ull * SECOND / operators[op].bytes_per_s) : 0;
	path.bucket_pkts = operators[op].bucket_bytes / 1500;
	path.tokens_us -= (u64)path.bucket_pkts * path.token_time_us;	/* the bucket is full */
	start = path_start(&path);
	memset(&path_client, 0, sizeof(path_client));
	rtcp_client_init(&path_client, start.now_us);
	path.f.client = &path_client;
	n_recorded = 0;
	open_flow(&path.f, id, &start, 1);
	while (path.delivered_pkts < FILE_PKTS)
		path_step(&path);
	CHECK(n_recorded < MOST_RECORDED - 1);
	return start;
}

/* --- the algorithm with R-TCP, nothing around it; the one without is a struct flow -------- */

struct with_rtcp {
	u32 id;
	struct rtcp_client client;
	struct cca_window w;
	struct cca_decision d;
	union {
		struct { struct rtcp_cubic_params p; struct rtcp_cubic_state s; } cubic;
		struct { struct rtcp_bbr1_params p; struct rtcp_bbr1_state s; } bbr;
		struct { struct rtcp_bbr3_params p; struct rtcp_bbr3_state s; } bbr3;
	};
};

static void open_with_rtcp(struct with_rtcp *r, u32 id, const struct cca_start *start)
{
	memset(r, 0, sizeof(*r));
	r->id = id;
	rtcp_client_init(&r->client, start->now_us);
	if (id == CCA_ID_rtcp_cubic) {
		rtcp_cubic_params_init(&r->cubic.p);
		rtcp_cubic_init(&r->cubic.s, &r->cubic.p, &r->client, start);
	} else if (id == CCA_ID_rtcp_bbr) {
		rtcp_bbr1_params_init(&r->bbr.p);
		rtcp_bbr1_init(&r->bbr.s, &r->bbr.p, &r->client, start, 1, &r->d);
	} else {
		rtcp_bbr3_params_init(&r->bbr3.p);
		rtcp_bbr3_init(&r->bbr3.s, &r->bbr3.p, &r->client, start, 1, &r->d);
	}
}

static void take_cubic(struct with_rtcp *r, const struct step *step)
{
	struct rtcp_cubic_state *s = &r->cubic.s;

	r->w = step->window;
	switch (step->input) {
	case ACK:
		rtcp_flow_update_share(&s->flow, &r->client, WAITING_BYTES);
		rtcp_cubic_on_ack(s, &r->cubic.p, &r->client, &step->ack, &r->w);
		break;
	case GROW: rtcp_cubic_grow(s, &r->cubic.p, &r->client, &r->w, step->acked_pkts); break;
	case SSTHRESH: r->w.ssthresh_pkts = rtcp_cubic_ssthresh(s, &r->cubic.p, &r->client, &r->w); break;
	default: rtcp_cubic_on_event(s, &r->cubic.p, &r->client, &step->event); break;
	}
}

static void take_bbr1(struct with_rtcp *r, const struct step *step)
{
	struct rtcp_bbr1_state *s = &r->bbr.s;

	if (step->input == ACK) {
		rtcp_flow_update_share(&s->flow, &r->client, WAITING_BYTES);
		rtcp_bbr1_on_ack(s, &r->bbr.p, &r->client, &step->ack, &r->d);
	} else {
		rtcp_bbr1_on_event(s, &r->bbr.p, &r->client, &step->event, &r->d);
	}
}

static void take_bbr3(struct with_rtcp *r, const struct step *step)
{
	struct rtcp_bbr3_state *s = &r->bbr3.s;

	if (step->input == ACK) {
		rtcp_flow_update_share(&s->flow, &r->client, WAITING_BYTES);
		rtcp_bbr3_on_ack(s, &r->bbr3.p, &r->client, &step->ack, &r->d);
	} else if (step->input == LOSS) {
		rtcp_bbr3_on_loss(s, &r->bbr3.p, &step->loss);
	} else {
		rtcp_bbr3_on_event(s, &r->bbr3.p, &r->client, &step->event, &r->d);
	}
}

static void take_with_rtcp(struct with_rtcp *r, const struct step *step)
{
	switch (r->id) {
	case CCA_ID_rtcp_cubic: take_cubic(r, step); break;
	case CCA_ID_rtcp_bbr: take_bbr1(r, step); break;
	default: take_bbr3(r, step); break;
	}
}

static void take_without(struct flow *f, const struct step *step)
{
	f->w = step->window;
	switch (step->input) {
	case ACK: flow_on_ack(f, &step->ack); break;
	case GROW: flow_grow(f, step->acked_pkts); break;
	case SSTHRESH: f->w.ssthresh_pkts = flow_ssthresh(f); break;
	case LOSS: flow_on_loss(f, &step->loss); break;
	default: flow_on_event(f, &step->event); break;
	}
}

/* --- phases -------------------------------------------------------------------------------- */

enum phase { IDLE, ESTIMATING, LIMITED, OTHER };

static enum phase phase_of(const struct rtcp_client *c)
{
	if (c->kind == RTCP_LIMITED)
		return LIMITED;
	return c->kind != RTCP_UNKNOWN ? OTHER : c->fit.count ? ESTIMATING : IDLE;
}

/* A phase of a flow: its steps, and both states at its beginning. */
struct section {
	struct flow without;
	struct with_rtcp with;
	struct step steps[MOST_STEPS];
	u32 n_steps, acks;
};

static struct section sections[VARIANTS];

/* The first time that the flow is in the phase. The core must do what it did on the path. */
static bool find_section(struct section *found, enum phase phase, u32 base, u32 id,
			 const struct cca_start *start)
{
	static struct flow without;
	static struct with_rtcp with;
	bool begun = false, over = false;
	u32 i;

	without.client = NULL;
	open_flow(&without, base, start, 1);
	open_with_rtcp(&with, id, start);
	for (i = 0; i < n_recorded; i++) {
		const struct step *step = &recorded[i];

		if (phase_of(&with.client) == phase && !begun) {
			begun = true;
			found->without = without;
			found->with = with;
			found->n_steps = found->acks = 0;
		}
		take_without(&without, step);
		take_with_rtcp(&with, step);
		over |= begun && (phase_of(&with.client) != phase || found->n_steps == MOST_STEPS);
		if (begun && !over) {
			found->acks += step->input == ACK;
			found->steps[found->n_steps++] = *step;
		}
	}
	CHECK(!memcmp(&with.client, &path_client, sizeof(path_client)));
	return begun;
}

/* --- time ---------------------------------------------------------------------------------- */

static double now_ns(void)
{
	struct timespec at;

	timespec_get(&at, TIME_UTC);
	return 1e9 * (double)at.tv_sec + (double)at.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *values)
{
	qsort(values, PASSES, sizeof(*values), compare);
	return values[PASSES / 2];
}

/* Each pass of a section, without and with R-TCP. */
static void replay(const struct section *section, double *without_ns, double *added_ns)
{
	static struct flow without;
	static struct with_rtcp with;
	double start_ns, spent_ns[2];
	u32 pass, i;

	for (pass = 0; pass < PASSES; pass++) {
		without = section->without;
		with = section->with;
		start_ns = now_ns();
		for (i = 0; i < section->n_steps; i++)
			take_without(&without, &section->steps[i]);
		spent_ns[0] = now_ns() - start_ns;
		start_ns = now_ns();
		for (i = 0; i < section->n_steps; i++)
			take_with_rtcp(&with, &section->steps[i]);
		spent_ns[1] = now_ns() - start_ns;
		__asm__ volatile("" : : "g"(&without), "g"(&with) : "memory");
		without_ns[pass] = spent_ns[0];
		added_ns[pass] = spent_ns[1] - spent_ns[0];
	}
}

TEST(cost_of_each_base_and_phase)
{
	static const struct { u32 base, id, extra_bytes; } cases[] = {
		{ CUBIC_ALONE, CCA_ID_rtcp_cubic, RTCP_EXTRA_BYTES(rtcp_cubic_state, cubic_state) },
		{ BBR_ALONE, CCA_ID_rtcp_bbr, RTCP_EXTRA_BYTES(rtcp_bbr1_state, bbr1_state) },
		{ BBR3_ALONE, CCA_ID_rtcp_bbr3, RTCP_EXTRA_BYTES(rtcp_bbr3_state, bbr3_state) },
	};
	static const char *const phases[] = { "idle", "estimating", "limited" };
	static double without_ns[PASSES], added_ns[PASSES];
	u32 phase, variant, n, acks;

	FOR_ROWS(cases)
		for (phase = IDLE; phase < OTHER; phase++) {
			double total_ns = 0, total_added_ns = 0;

			for (variant = n = acks = 0; variant < VARIANTS; variant++) {
				struct cca_start start = record_file(c->id, variant, phase != IDLE);

				n += find_section(&sections[n], (enum phase)phase, c->base, c->id, &start);
			}
			while (n--) {
				replay(&sections[n], without_ns, added_ns);
				acks += sections[n].acks;
				total_ns += median(without_ns);
				total_added_ns += median(added_ns);
			}
			CHECK(acks);
			printf("{\"base\": \"%s\", \"phase\": \"%s\", \"acks\": %u, \"plain_ns\": %.2f, "
			       "\"added_ns\": %.2f, \"extra_bytes\": %u}\n", cca_name_of(c->base & 0xff), phases[phase],
			       acks, total_ns / acks, total_added_ns / acks, c->extra_bytes);
		}
}
