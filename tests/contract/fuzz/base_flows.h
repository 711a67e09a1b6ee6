/* SPDX-License-Identifier: MIT */
/*
 * CUBIC, BBRv1 and BBRv3 for flow_target.c: each takes every event that GR takes,
 * and must keep its window and its rate within their bounds. BBR has a second flow
 * in memory that held other things, which must decide the same.
 */
#ifndef TESTS_BASE_FLOWS_H
#define TESTS_BASE_FLOWS_H

#include "bbr1.h"
#include "bbr3.h"
#include "cubic.h"
#include "fuzz.h"

struct base_flows {
	struct cubic_params cubic_params;
	struct bbr1_params bbr1_params;
	struct bbr3_params bbr3_params;
	struct cubic_state cubic;
	struct bbr1_state bbr1, bbr1_twin;
	struct bbr3_state bbr3, bbr3_twin;
	struct cca_window window;
	struct cca_decision d1, d3;
};

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
}

static void base_open(struct base_flows *b, const struct cca_start *start, u32 flags)
{
	struct cca_decision other;

	memset(&b->bbr1_twin, 0x5a, sizeof(b->bbr1_twin));
	memset(&b->bbr3_twin, 0x5a, sizeof(b->bbr3_twin));
	base_params(&b->cubic_params, CCA_ID_cubic, flags);
	base_params(&b->bbr1_params, CCA_ID_bbr, flags);
	base_params(&b->bbr3_params, CCA_ID_bbr3, flags);
	cubic_init(&b->cubic, &b->cubic_params, start);
	b->window.cwnd_pkts = cca_min_u32(start->cwnd_pkts, CCA_MAX_PKTS);
	b->window.ssthresh_pkts = 0x7fffffffu;
	b->window.credit_pkts = 0;
	bbr1_init(&b->bbr1, &b->bbr1_params, start, flags, &b->d1);
	bbr1_init(&b->bbr1_twin, &b->bbr1_params, start, flags, &other);
	bbr3_init(&b->bbr3, &b->bbr3_params, start, flags, &b->d3);
	bbr3_init(&b->bbr3_twin, &b->bbr3_params, start, flags, &other);
	base_check(b);
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

static void base_send_event(struct base_flows *b, const struct cca_event *ev)
{
	struct cca_decision other = { 0, 0 };

	if (ev->kind == CCA_UNDO)
		b->window.cwnd_pkts = cca_min_u32(cubic_undo(&b->cubic, &b->window), CCA_MAX_PKTS);
	cubic_on_event(&b->cubic, ev);
	bbr1_on_event(&b->bbr1, &b->bbr1_params, ev, &b->d1);
	bbr1_on_event(&b->bbr1_twin, &b->bbr1_params, ev, &other);
	PROPERTY(other.cwnd_pkts == b->d1.cwnd_pkts);
	bbr3_on_event(&b->bbr3, &b->bbr3_params, ev, &b->d3);
	bbr3_on_event(&b->bbr3_twin, &b->bbr3_params, ev, &other);
	PROPERTY(other.cwnd_pkts == b->d3.cwnd_pkts);
	base_check(b);
}

#endif /* TESTS_BASE_FLOWS_H */
