/* SPDX-License-Identifier: MIT */
/* The flows of flow_target.c, and what must hold of them after every event. */
#ifndef TESTS_FLOW_PROPERTIES_H
#define TESTS_FLOW_PROPERTIES_H

#include "../flow.h"
#include "fuzz.h"

enum { GR, RENO, CUBIC, VEGAS, ROCCET, BBR, BBR3, RTCP_CUBIC, RTCP_BBR, RTCP_BBR3, SIRA, FLOWS };

static const u32 ids[FLOWS] = {
	CCA_ID_gr, CCA_ID_reno, CCA_ID_cubic, CCA_ID_vegas, CCA_ID_roccet, CCA_ID_bbr, CCA_ID_bbr3,
	CCA_ID_rtcp_cubic, CCA_ID_rtcp_bbr, CCA_ID_rtcp_bbr3, CCA_ID_sira,
};

struct run {
	struct flow *flow[2][FLOWS];	/* each twice, in memory that held other things */
	struct rtcp_client client[2];
	u32 states[FLOWS];		/* of the table at the last end of an epoch; 0: none */
	struct cca_ack ack;
	u64 generation;
};

static void check_rate_window(const struct cca_rate_window *w)
{
	PROPERTY(w->next - w->oldest <= CCA_RATE_SAMPLES);
	PROPERTY(cca_rate_of(w, MSS) <= CCA_MAX_RATE_BYTES_PER_S);
}

static void check_ensemble(struct flow *f, u32 states)
{
	const struct ens_clock *c = &flow_ens(f)->clock;
	u32 i;

	/* Another set comes into force at the end of an epoch alone. */
	for (i = 0; flow_ens(f)->epoch_end != ENS_WAITED && cca_param_at(f->id, i); i++) {
		PROPERTY(cca_param_get(flow_params(f), i) >= cca_param_at(f->id, i)->min);
		PROPERTY(cca_param_get(flow_params(f), i) <= cca_param_at(f->id, i)->max);
	}
	PROPERTY(flow_ens(f)->epoch_end <= ENS_KEPT);
	PROPERTY(c->state == ENS_NO_STATE || c->state < states);
	PROPERTY(c->within_low <= c->within_high && c->within_high <= c->samples);
	PROPERTY(c->samples <= CCA_MAX_PKTS);
	PROPERTY(c->measured_bytes_per_s <= CCA_MAX_RATE_BYTES_PER_S);
	check_rate_window(&c->acked);
}

static void check_roccet(const struct roccet_state *s)
{
	PROPERTY(s->min_rtt_us <= CCA_MAX_RTT_US && s->srtt_us_q3 <= 8 * CCA_MAX_RTT_US);
	PROPERTY((s->min_rtt_us != 0) == (s->srtt_us_q3 != 0));
	PROPERTY(s->jitter_us_q4 <= 16 * CCA_MAX_RTT_US + 8);
	PROPERTY(s->srrtt_q16 <= ROCCET_MAX_SHARE_Q16);
	PROPERTY(s->windows_q8 <= ROCCET_MAX_SUM_Q8 && s->acked_q8 <= ROCCET_MAX_SUM_Q8);
	PROPERTY(s->phase <= ROCCET_ORBITER);
	PROPERTY(s->cubic.w_max_pkts <= CCA_MAX_PKTS);
	PROPERTY(s->episode_lost_pkts <= 2 * CCA_MAX_PKTS);
}

static void check_client(const struct rtcp_client *c)
{
	PROPERTY(c->kind <= RTCP_SPLIT);
	PROPERTY(c->flows <= 3 && c->sharing <= 3);
	PROPERTY(c->fit.count <= RTCP_MAX_CANDIDATES && (!c->fit.count || c->fit.best < c->fit.count));
	PROPERTY(c->acked_bytes < RTCP_MAX_BYTES && c->min_rtt_us <= CCA_MAX_RTT_US);
	PROPERTY(c->bucket_bytes <= RTCP_MAX_BYTES && rtcp_tokens(c) <= c->bucket_bytes);
	PROPERTY(c->kind != RTCP_LIMITED || c->bytes_per_s >= RTCP_LEAST_BYTES_PER_S);
}

static void check_sira(const struct sira_state *s)
{
	const struct sira_window *w = &s->window;

	PROPERTY(s->mode <= SIRA_DRAIN && s->srtt_us_q3 <= 8 * CCA_MAX_RTT_US);
	PROPERTY(w->intervals && w->intervals < SIRA_SLOTS && w->ended <= w->intervals);
	PROPERTY(sira_window_total(w) < 1ull << 35);
	PROPERTY(w->due <= sira_window_total(w) * w->intervals);
	PROPERTY(!s->sending.behind || !s->sending.ahead);
	PROPERTY(!s->unsent.behind || !s->unsent.ahead);
	PROPERTY(s->residuals <= SIRA_MAX_RESIDUALS && s->open_pkts <= CCA_MAX_PKTS);
}

/* What is each algorithm's own. */
static void check_state(const struct flow *f)
{
	const struct bbr3_state *bbr3;

	switch (f->id) {
	case CCA_ID_gr:
		PROPERTY(f->d.cwnd_pkts >= GR_MIN_CWND_PKTS);
		PROPERTY(f->gr.gr.min_rtt_us <= CCA_MAX_RTT_US && f->gr.gr.mode <= GR_DRAIN);
		PROPERTY(f->gr.gr.mode == GR_SLOW_START || f->gr.gr.min_rtt_us);
		check_rate_window(&f->gr.gr.bandwidth);
		break;
	case CCA_ID_cubic:
		PROPERTY(f->cubic_rows.cubic.acks_per_pkt >= CUBIC_LEAST_ACKS);
		PROPERTY(f->cubic_rows.cubic.k_q10s < 1u << 21);
		PROPERTY(f->cubic_rows.min_rtt_us <= CCA_MAX_RTT_US);
		break;
	case CCA_ID_vegas:
		PROPERTY(f->vegas.base_rtt_us <= CCA_MAX_RTT_US);
		PROPERTY(!f->vegas.ended_rtt_us || f->vegas.ended_rtt_us >= f->vegas.base_rtt_us);
		break;
	case CCA_ID_roccet:
		check_roccet(&f->roccet.roccet);
		break;
	case CCA_ID_bbr:
		PROPERTY(f->bbr_rows.bbr.mode <= BBR1_PROBE_RTT);
		PROPERTY(f->bbr_rows.bbr.phase < CCA_MAX_bbr_cycle_phases);
		PROPERTY(f->bbr_rows.bbr.min_rtt_us <= CCA_MAX_RTT_US);
		break;
	case CCA_ID_bbr3:
		bbr3 = &f->bbr3_rows.bbr;
		PROPERTY(bbr3->mode <= BBR3_PROBE_RTT && bbr3->min_rtt_us <= CCA_MAX_RTT_US);
		PROPERTY(bbr3->long_pkts <= CCA_MAX_PKTS || bbr3->long_pkts == BBR3_NO_LIMIT_PKTS);
		break;
	case CCA_ID_sira:
		check_sira(&f->sira.sira);
		break;
	}
}

static void check_decision(const struct flow *f)
{
	if (is_window_mode(f->id)) {
		PROPERTY(f->w.cwnd_pkts <= CCA_MAX_PKTS);
		return;
	}
	PROPERTY(f->d.cwnd_pkts >= 1 && f->d.cwnd_pkts <= CCA_MAX_PKTS);
	PROPERTY(f->d.pacing_bytes_per_s <= CCA_MAX_RATE_BYTES_PER_S);
	/* GR does not pace before it knows a round trip. */
	PROPERTY(f->d.pacing_bytes_per_s || (f->id == CCA_ID_gr && !f->gr.gr.min_rtt_us));
}

static void check_flows(struct run *r)
{
	u32 i, inflight_pkts = 0;

	for (i = 0; i < FLOWS; i++) {
		struct flow *a = r->flow[0][i], *b = r->flow[1][i];

		check_decision(a);
		check_state(a);
		if (flow_ens(a))
			check_ensemble(a, r->states[i]);
		PROPERTY(!memcmp(&a->w, &b->w, sizeof(a->w)));
		PROPERTY(a->d.cwnd_pkts == b->d.cwnd_pkts);
		PROPERTY(a->d.pacing_bytes_per_s == b->d.pacing_bytes_per_s);
		if (is_rtcp(a->id)) {
			PROPERTY(flow_rtcp(a)->phase <= RTCP_VERIFYING);
			inflight_pkts += flow_rtcp(a)->inflight_pkts;
		}
	}
	check_client(&r->client[0]);
	PROPERTY(r->client[0].inflight_pkts == inflight_pkts);
	PROPERTY(!memcmp(&r->client[0], &r->client[1], sizeof(r->client[0])));
}

#endif /* TESTS_FLOW_PROPERTIES_H */
