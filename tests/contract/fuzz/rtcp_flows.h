/* SPDX-License-Identifier: MIT */
/*
 * R-TCP over CUBIC, BBRv1 and BBRv3 for flow_target.c: three flows of one client, each of which takes
 * every event that GR takes. A second set in memory that held other things must decide the same.
 */
#ifndef TESTS_RTCP_FLOWS_H
#define TESTS_RTCP_FLOWS_H

#include "base_flows.h"
#include "rtcp.h"

struct rtcp_set {
	struct rtcp_client client;
	struct rtcp_cubic_state cubic;
	struct rtcp_bbr1_state bbr1;
	struct rtcp_bbr3_state bbr3;
	struct cca_window window;
	struct cca_decision d1, d3;
};

struct rtcp_flows {
	struct rtcp_cubic_params cubic_params;
	struct rtcp_bbr1_params bbr1_params;
	struct rtcp_bbr3_params bbr3_params;
	struct rtcp_set set[2];
};

static void rtcp_check_client(const struct rtcp_client *c)
{
	PROPERTY(c->kind <= RTCP_SPLIT);
	PROPERTY(c->flows <= 3 && c->sharing <= 3);
	PROPERTY(c->fit.count <= RTCP_MAX_CANDIDATES && (!c->fit.count || c->fit.best < c->fit.count));
	PROPERTY(c->acked_bytes < RTCP_MAX_BYTES && c->min_rtt_us <= CCA_MAX_RTT_US);
	PROPERTY(c->bucket_bytes <= RTCP_MAX_BYTES && rtcp_tokens(c) <= c->bucket_bytes);
	PROPERTY(c->kind != RTCP_LIMITED || c->bytes_per_s >= RTCP_LEAST_BYTES_PER_S);
}

static void rtcp_check(const struct rtcp_flows *r)
{
	const struct rtcp_set *a = &r->set[0], *b = &r->set[1];
	const struct cca_decision *d[] = { &a->d1, &a->d3, &b->d1, &b->d3 };
	u32 i;

	for (i = 0; i < 4; i++) {
		PROPERTY(d[i]->cwnd_pkts >= 1 && d[i]->cwnd_pkts <= CCA_MAX_PKTS);
		PROPERTY(d[i]->pacing_bytes_per_s >= 1);
		PROPERTY(d[i]->pacing_bytes_per_s <= CCA_MAX_RATE_BYTES_PER_S);
	}
	rtcp_check_client(&a->client);
	PROPERTY(a->client.inflight_pkts == a->cubic.flow.inflight_pkts + a->bbr1.flow.inflight_pkts +
					    a->bbr3.flow.inflight_pkts);
	PROPERTY(a->cubic.flow.phase <= RTCP_VERIFYING && a->window.cwnd_pkts <= CCA_MAX_PKTS);
	PROPERTY(!memcmp(&a->window, &b->window, sizeof(a->window)));
	PROPERTY(!memcmp(&a->client, &b->client, sizeof(a->client)));
	for (i = 0; i < 2; i++) {
		PROPERTY(d[i]->cwnd_pkts == d[i + 2]->cwnd_pkts);
		PROPERTY(d[i]->pacing_bytes_per_s == d[i + 2]->pacing_bytes_per_s);
	}
}

/* A limiter that an earlier connection has found: what rarely comes about in a few hundred events. */
static void rtcp_know(struct rtcp_client *c, u32 flags)
{
	c->kind = RTCP_LIMITED;
	c->bytes_per_s = 1000u << flags % 21;
	c->before_bytes_per_s = flags & 1 ? RTCP_MAX_BYTES_PER_S : 4 * c->bytes_per_s;
	c->theta_permille = 600;
	c->bucket_bytes = 4000ull << flags % 31;
	c->mss_bytes = 1;
}

static void rtcp_open(struct rtcp_flows *r, const struct cca_start *start, u32 flags)
{
	u32 i;

	rtcp_cubic_params_init(&r->cubic_params);
	rtcp_bbr1_params_init(&r->bbr1_params);
	rtcp_bbr3_params_init(&r->bbr3_params);
	base_params(&r->cubic_params.rtcp, CCA_ID_rtcp_cubic, flags);
	base_params(&r->bbr1_params.rtcp, CCA_ID_rtcp_bbr, flags);
	base_params(&r->bbr3_params.rtcp, CCA_ID_rtcp_bbr3, flags);
	for (i = 0; i < 2; i++) {
		struct rtcp_set *s = &r->set[i];

		memset(s, i ? 0x5a : 0xa5, sizeof(*s));
		s->window.cwnd_pkts = cca_min_u32(start->cwnd_pkts, CCA_MAX_PKTS);
		s->window.ssthresh_pkts = 0x7fffffffu;
		s->window.credit_pkts = 0;
		rtcp_client_init(&s->client, start->now_us);
		if (flags & 64)
			rtcp_know(&s->client, flags);
		rtcp_cubic_init(&s->cubic, &r->cubic_params, &s->client, start);
		rtcp_bbr1_init(&s->bbr1, &r->bbr1_params, &s->client, start, flags, &s->d1);
		rtcp_bbr3_init(&s->bbr3, &r->bbr3_params, &s->client, start, flags, &s->d3);
	}
	rtcp_check(r);
}

static void rtcp_set_ack(struct rtcp_flows *r, struct rtcp_set *s, const struct cca_ack *ack)
{
	if (ack->lost_pkts) {
		s->window.ssthresh_pkts = rtcp_cubic_ssthresh(&s->cubic, &r->cubic_params, &s->client, &s->window);
		PROPERTY(s->window.ssthresh_pkts >= CUBIC_MIN_CWND_PKTS);
		s->window.cwnd_pkts = cca_min_u32(s->window.cwnd_pkts, s->window.ssthresh_pkts);
	}
	rtcp_flow_update_share(&s->cubic.flow, &s->client, (u64)ack->inflight_pkts * ack->mss_bytes);
	rtcp_flow_update_share(&s->bbr1.flow, &s->client, ack->delivered_pkts);
	rtcp_cubic_on_ack(&s->cubic, &r->cubic_params, &s->client, ack, &s->window);
	rtcp_cubic_grow(&s->cubic, &r->cubic_params, &s->client, &s->window, ack->acked_pkts);
	rtcp_bbr1_on_ack(&s->bbr1, &r->bbr1_params, &s->client, ack, &s->d1);
	rtcp_bbr3_on_ack(&s->bbr3, &r->bbr3_params, &s->client, ack, &s->d3);
}

/* What the events have reached, of R-TCP. */
struct rtcp_reached {
	bool estimating, limited, cleared, probing, refilling, lifted, verifying;
};

static struct rtcp_reached rtcp_send_ack(struct rtcp_flows *r, const struct cca_ack *ack)
{
	const struct rtcp_set *s = &r->set[0];
	u8 phase = s->bbr1.flow.phase;
	u32 i;

	for (i = 0; i < 2; i++)
		rtcp_set_ack(r, &r->set[i], ack);
	rtcp_check(r);
	return (struct rtcp_reached){
		s->client.fit.count != 0, s->client.settled, s->client.kind == RTCP_CLEARED,
		phase == RTCP_PROBING, phase == RTCP_REFILLING, phase == RTCP_LIFTED,
		phase == RTCP_VERIFYING,
	};
}

static void rtcp_send_event(struct rtcp_flows *r, const struct cca_event *ev)
{
	u32 i;

	for (i = 0; i < 2; i++) {
		struct rtcp_set *s = &r->set[i];

		if (ev->kind == CCA_UNDO)
			s->window.cwnd_pkts = cca_min_u32(rtcp_cubic_undo(&s->cubic, &r->cubic_params, &s->client,
									  &s->window), CCA_MAX_PKTS);
		if (ev->kind == CCA_RECOVERY_LEFT && !ev->inflight_pkts)
			rtcp_flow_rests(&s->bbr3.flow, &s->client);
		rtcp_cubic_on_event(&s->cubic, &r->cubic_params, &s->client, ev);
		rtcp_bbr1_on_event(&s->bbr1, &r->bbr1_params, &s->client, ev, &s->d1);
		rtcp_bbr3_on_event(&s->bbr3, &r->bbr3_params, &s->client, ev, &s->d3);
	}
	rtcp_check(r);
}

#endif /* TESTS_RTCP_FLOWS_H */
