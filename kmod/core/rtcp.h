/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP with CUBIC and both versions of BBR as its base algorithm: R-TCP 2026, sections 4.4 and 5.
 * This file applies the cap of rtcp_cap.h to the base algorithm. rtcp_detect.h and rtcp_fit.h
 * detect the rate limiter.
 *
 *   rtcp_cubic   The cap limits CUBIC's window, and the ssthresh after a loss.
 *   rtcp_bbr     The cap limits BBR's pacing rate. BBR's own policer detector (bbr1_lt.h) is reset
 *                when equation 13 first holds. From the first classification on it is off for good.
 *   rtcp_bbr3    The cap limits BBR's pacing rate. Version 3 has no policer detector.
 *
 * The base algorithm does not know the cap, but its ACKs reflect it. R-TCP handles each event
 * before the base algorithm does. The base algorithm uses its own default parameters, unless the
 * host sets others.
 *
 * The host owns the client, and holds its lock during a call. There is one client for each
 * connection, or one that all flows to the same client share. It must exist longer than its flows,
 * and each flow leaves it with rtcp_flow_leaves() (rtcp_flows.h). If the host itself chooses a
 * window, at the start or after an idle time, it limits it with rtcp_cubic_bound().
 */
#ifndef CCA_RTCP_H
#define CCA_RTCP_H

#include "bbr1.h"
#include "bbr3.h"
#include "cubic.h"
#include "rtcp_flows.h"

/* --- CUBIC ------------------------------------------------------------------------------ */

struct rtcp_cubic_params {
	struct rtcp_params rtcp;
	struct cubic_params base;
};

struct rtcp_cubic_state {
	struct cubic_state base;
	struct rtcp_flow flow;
};

CCA_FN void rtcp_cubic_bound(const struct rtcp_cubic_state *s, const struct rtcp_cubic_params *p,
			     const struct rtcp_client *c, struct cca_window *w)
{
	w->cwnd_pkts = cca_min_u32(w->cwnd_pkts, rtcp_cap_pkts(&s->flow, c, &p->rtcp));
}

CCA_FN void rtcp_cubic_params_init(struct rtcp_cubic_params *p)
{
	cca_params_init(&p->rtcp, CCA_ID_rtcp_cubic);
	cca_params_init(&p->base, CCA_ID_cubic);
}

CCA_FN void rtcp_cubic_init(struct rtcp_cubic_state *s, const struct rtcp_cubic_params *p,
			    struct rtcp_client *c, const struct cca_start *start)
{
	cubic_init(&s->base, &p->base, start);
	rtcp_flow_init(&s->flow, c, &p->rtcp, start);
	s->flow.windowed = true;
	rtcp_flow_starts(&s->flow, c, start->now_us);
}

CCA_FN void rtcp_cubic_on_ack(struct rtcp_cubic_state *s, const struct rtcp_cubic_params *p,
			      struct rtcp_client *c, const struct cca_ack *ack,
			      struct cca_window *w)
{
	rtcp_on_ack(&s->flow, c, &p->rtcp, ack);
	cubic_on_ack(&s->base, &p->base, ack, w);
	rtcp_cubic_bound(s, p, c, w);
}

CCA_FN void rtcp_cubic_grow(struct rtcp_cubic_state *s, const struct rtcp_cubic_params *p,
			    const struct rtcp_client *c, struct cca_window *w, u32 acked_pkts)
{
	cubic_grow(&s->base, &p->base, w, acked_pkts);
	rtcp_cubic_bound(s, p, c, w);
}

CCA_FN u32 rtcp_cubic_ssthresh(struct rtcp_cubic_state *s, const struct rtcp_cubic_params *p,
			       const struct rtcp_client *c, struct cca_window *w)
{
	u32 ssthresh_pkts = cubic_ssthresh(&s->base, &p->base, w);

	return cca_min_u32(ssthresh_pkts, rtcp_cap_pkts(&s->flow, c, &p->rtcp));
}

CCA_FN u32 rtcp_cubic_undo(struct rtcp_cubic_state *s, const struct rtcp_cubic_params *p,
			   const struct rtcp_client *c, const struct cca_window *w)
{
	return cca_min_u32(cubic_undo(&s->base, w), rtcp_cap_pkts(&s->flow, c, &p->rtcp));
}

CCA_FN void rtcp_cubic_on_event(struct rtcp_cubic_state *s, const struct rtcp_cubic_params *p,
				struct rtcp_client *c, const struct cca_event *ev)
{
	rtcp_on_event(&s->flow, c, &p->rtcp, ev);
	cubic_on_event(&s->base, ev);
}

/* --- BBR version 1 ------------------------------------------------------------------------- */

struct rtcp_bbr1_params {
	struct rtcp_params rtcp;
	struct bbr1_params base;
};

struct rtcp_bbr1_state {
	struct bbr1_state base;
	struct rtcp_flow flow;
};

/*
 * Controls BBR's policer detector (section 4.4). It stays off for the rest of the flow, even if the
 * limit is cleared. A flow that only observes leaves it on.
 */
CCA_FN void rtcp_bbr1_police(struct rtcp_bbr1_state *s, const struct rtcp_bbr1_params *p,
			     const struct rtcp_client *c)
{
	if (!p->rtcp.act)
		return;
	if ((c->kind == RTCP_LIMITED || c->kind == RTCP_CLEARED) && !s->base.lt.off)
		bbr1_use_long_term(&s->base, false);
	else if (c->reduced && !s->flow.policer_reset && !s->base.lt.off)
		bbr1_use_long_term(&s->base, true);
	s->flow.policer_reset |= c->reduced;
}

CCA_FN void rtcp_bbr1_bound(const struct rtcp_bbr1_state *s, const struct rtcp_bbr1_params *p,
			    const struct rtcp_client *c, struct cca_decision *d)
{
	d->pacing_bytes_per_s = rtcp_capped_rate(&s->flow, c, &p->rtcp, d->pacing_bytes_per_s);
}

CCA_FN void rtcp_bbr1_params_init(struct rtcp_bbr1_params *p)
{
	cca_params_init(&p->rtcp, CCA_ID_rtcp_bbr);
	cca_params_init(&p->base, CCA_ID_bbr);
}

/* hash: the argument of bbr1_init(). */
CCA_FN void rtcp_bbr1_init(struct rtcp_bbr1_state *s, const struct rtcp_bbr1_params *p,
			   struct rtcp_client *c, const struct cca_start *start, u32 hash,
			   struct cca_decision *d)
{
	bbr1_init(&s->base, &p->base, start, hash, d);
	rtcp_flow_init(&s->flow, c, &p->rtcp, start);
	rtcp_flow_starts(&s->flow, c, start->now_us);
	rtcp_bbr1_police(s, p, c);
	rtcp_bbr1_bound(s, p, c, d);
}

CCA_FN void rtcp_bbr1_on_ack(struct rtcp_bbr1_state *s, const struct rtcp_bbr1_params *p,
			     struct rtcp_client *c, const struct cca_ack *ack,
			     struct cca_decision *d)
{
	rtcp_on_ack(&s->flow, c, &p->rtcp, ack);
	rtcp_bbr1_police(s, p, c);
	if (s->flow.reopened)
		bbr1_reopen(&s->base);
	s->flow.reopened = false;
	bbr1_on_ack(&s->base, &p->base, ack, d);
	rtcp_bbr1_bound(s, p, c, d);
}

CCA_FN void rtcp_bbr1_on_event(struct rtcp_bbr1_state *s, const struct rtcp_bbr1_params *p,
			       struct rtcp_client *c, const struct cca_event *ev,
			       struct cca_decision *d)
{
	rtcp_on_event(&s->flow, c, &p->rtcp, ev);
	bbr1_on_event(&s->base, &p->base, ev, d);
	rtcp_bbr1_bound(s, p, c, d);
}

/* --- BBR version 3 ------------------------------------------------------------------------- */

struct rtcp_bbr3_params {
	struct rtcp_params rtcp;
	struct bbr3_params base;
};

struct rtcp_bbr3_state {
	struct bbr3_state base;
	struct rtcp_flow flow;
};

CCA_FN void rtcp_bbr3_bound(const struct rtcp_bbr3_state *s, const struct rtcp_bbr3_params *p,
			    const struct rtcp_client *c, struct cca_decision *d)
{
	d->pacing_bytes_per_s = rtcp_capped_rate(&s->flow, c, &p->rtcp, d->pacing_bytes_per_s);
}

CCA_FN void rtcp_bbr3_params_init(struct rtcp_bbr3_params *p)
{
	cca_params_init(&p->rtcp, CCA_ID_rtcp_bbr3);
	cca_params_init(&p->base, CCA_ID_bbr3);
}

/* hash: the argument of bbr3_init(). */
CCA_FN void rtcp_bbr3_init(struct rtcp_bbr3_state *s, const struct rtcp_bbr3_params *p,
			   struct rtcp_client *c, const struct cca_start *start, u32 hash,
			   struct cca_decision *d)
{
	bbr3_init(&s->base, &p->base, start, hash, d);
	rtcp_flow_init(&s->flow, c, &p->rtcp, start);
	rtcp_flow_starts(&s->flow, c, start->now_us);
	rtcp_bbr3_bound(s, p, c, d);
}

CCA_FN void rtcp_bbr3_on_loss(struct rtcp_bbr3_state *s, const struct rtcp_bbr3_params *p,
			      const struct cca_loss *loss)
{
	bbr3_on_loss(&s->base, &p->base, loss);
}

CCA_FN void rtcp_bbr3_on_ack(struct rtcp_bbr3_state *s, const struct rtcp_bbr3_params *p,
			     struct rtcp_client *c, const struct cca_ack *ack,
			     struct cca_decision *d)
{
	rtcp_on_ack(&s->flow, c, &p->rtcp, ack);
	if (s->flow.reopened)
		bbr3_reopen(&s->base);
	s->flow.reopened = false;
	bbr3_on_ack(&s->base, &p->base, ack, d);
	rtcp_bbr3_bound(s, p, c, d);
}

CCA_FN void rtcp_bbr3_on_event(struct rtcp_bbr3_state *s, const struct rtcp_bbr3_params *p,
			       struct rtcp_client *c, const struct cca_event *ev,
			       struct cca_decision *d)
{
	rtcp_on_event(&s->flow, c, &p->rtcp, ev);
	bbr3_on_event(&s->base, &p->base, ev, d);
	rtcp_bbr3_bound(s, p, c, d);
}

#define RTCP_EXTRA_BYTES(state, base) \
	(sizeof(struct state) - sizeof(struct base) + sizeof(struct rtcp_client))
RTCP_ASSERT(cubic_is_small,
	    RTCP_EXTRA_BYTES(rtcp_cubic_state, cubic_state) <= RTCP_MOST_STATE_BYTES);
RTCP_ASSERT(bbr1_is_small,
	    RTCP_EXTRA_BYTES(rtcp_bbr1_state, bbr1_state) <= RTCP_MOST_STATE_BYTES);
RTCP_ASSERT(bbr3_is_small,
	    RTCP_EXTRA_BYTES(rtcp_bbr3_state, bbr3_state) <= RTCP_MOST_STATE_BYTES);

#endif /* CCA_RTCP_H */
