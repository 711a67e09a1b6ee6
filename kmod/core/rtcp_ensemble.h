/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * An R-TCP flow that follows an ensemble. It consists of the algorithm's state, the epoch clock
 * (ensemble_flow.h) and the parameter set in force.
 *
 *   axes     minimum RTT of the client (R-TCP 2026, section 4.1), and its estimated rate limit R
 *            (section 4.2); R is 0 while the client is not classified as limited
 *   theta    depends on the RTT; it is fixed at the client's trigger (rtcp_detect.h)
 *   eta,     depend on both axes; they control the cap, and there is no cap before R is known
 *   gamma
 *
 * After an ACK the flow looks up its row again in these cases:
 *
 *   The first RTT is known, or the RTT has decreased by more than an eighth.
 *   A transfer has begun.
 *   The client's class has changed. Any of its flows can cause this.
 *   The epoch is over.
 *
 * It also looks up its row if the host recalls rows (ensemble_flow.h). Each look-up begins an
 * epoch. R-TCP has no delay target, so the epsilon rule does not apply. Delay classes of a table
 * only separate the host's statistics. Without a table, or if it is held back, a flow uses the
 * host's own parameters. The base algorithm uses its defaults.
 *
 * The host holds the client's lock, as for the functions of rtcp.h.
 */
#ifndef CCA_RTCP_ENSEMBLE_H
#define CCA_RTCP_ENSEMBLE_H

#include "ensemble_flow.h"
#include "rtcp.h"

/* The three algorithms have the same axes. */
enum rtcp_axis {
#define CCA_ONLY CCA_ID_rtcp_cubic
#define CCA_AXIS(algorithm, name, meaning) RTCP_AXIS_##name,
#include "params.def"
};

struct rtcp_ens {
	struct ens_flow flow;
	u32 min_rtt_us;		/* at the last look-up; 0: none yet */
	u8 kind;		/* enum rtcp_class at the last look-up */
	bool starts;		/* a transfer has begun since the last look-up */
};

/* The queueing delay in an RTT sample (RTT - minimum RTT); 0 if it has none. */
CCA_FN u32 rtcp_queueing_delay_us(const struct rtcp_client *c, u32 rtt_us)
{
	return rtt_us > c->min_rtt_us && c->min_rtt_us ? rtt_us - c->min_rtt_us : 0;
}

/* The client's value on the axis with this number in params.def. */
CCA_FN u64 rtcp_axis_value(const struct rtcp_client *c, u32 axis)
{
	if (axis == RTCP_AXIS_min_rtt_us)
		return c->min_rtt_us;
	return c->kind == RTCP_LIMITED ? c->bytes_per_s : 0;
}

/* The client's values on the axes of a table. They are new if its RTT is known. */
CCA_FN struct ens_values rtcp_ens_values(const struct ens_table *t, const struct rtcp_client *c)
{
	struct ens_values values;

	ENS_SET_AXES(&values, t, rtcp_axis_value, c);
	values.is_new = c->min_rtt_us != 0;
	return values;
}

CCA_FN void rtcp_ens_init(struct rtcp_ens *e, const struct cca_start *start, u8 delay_class,
			  u32 hash)
{
	ens_flow_init(&e->flow, start, delay_class, hash);
	e->min_rtt_us = 0;
	e->kind = RTCP_UNKNOWN;
	e->starts = false;
}

/* Whether the client's values have changed enough for a look-up before the epoch is over. */
CCA_FN bool rtcp_ens_has_moved(const struct rtcp_ens *e, const struct rtcp_client *c)
{
	u32 shorter_us = e->min_rtt_us - e->min_rtt_us / RTCP_TOLERANCE;

	if (!c->min_rtt_us)
		return false;
	return !e->min_rtt_us || c->min_rtt_us < shorter_us || e->starts || e->kind != c->kind;
}

/* Ends the epoch with its measurement, and selects the row of the next one. */
CCA_FN void rtcp_ens_end_epoch(struct rtcp_ens *e, const struct rtcp_client *c,
			  const struct ens_table *table, u64 now_us, void *params)
{
	struct ens_values values = rtcp_ens_values(table, c);

	(void)ens_clock_measured(&e->flow.clock);	/* measures for the host's statistics */
	ens_flow_end_epoch(&e->flow, table, now_us, &values, params);
	e->min_rtt_us = c->min_rtt_us;
	e->kind = c->kind;
	e->starts = false;
}

/*
 * Call this after the algorithm's own function for an ACK. table: the one in force, NULL for none.
 * defaults: the host's current parameters. Both are read only at the end of an epoch, which then
 * writes params, the flow's parameters in force.
 */
CCA_FN void rtcp_ens_on_ack(struct rtcp_ens *e, const struct rtcp_client *c,
			    const struct rtcp_params *defaults, const struct ens_table *table,
			    const struct cca_ack *ack, struct rtcp_params *params)
{
	bool is_over = ens_flow_on_ack(&e->flow, ack, ENS_NO_DELAY, true);

	if (!is_over && !rtcp_ens_has_moved(e, c))
		return;
	*params = *defaults;
	rtcp_ens_end_epoch(e, c, table, ack->now_us, params);
}

/*
 * The host recalls rows (ensemble_flow.h). It calls this before it passes on an ACK, or before a
 * transmission.
 */
CCA_FN void rtcp_ens_recall(struct rtcp_ens *e, const struct rtcp_client *c,
			    const struct rtcp_params *defaults, const struct ens_table *table,
			    u64 now_us, struct rtcp_params *params)
{
	if (!ens_flow_is_recalled(&e->flow, table))
		return;
	*params = *defaults;
	rtcp_ens_end_epoch(e, c, table, now_us, params);
}

CCA_FN void rtcp_ens_on_event(struct rtcp_ens *e, const struct cca_event *ev)
{
	ens_flow_on_event(&e->flow, ev);
	if (ev->kind == CCA_TRANSFER_STARTED || ev->kind == CCA_IDLE_RESTART)
		e->starts = true;
}

/* --- over CUBIC -------------------------------------------------------------------- */

struct rtcp_cubic_flow {
	struct rtcp_cubic_state state;
	struct rtcp_ens ens;
	struct rtcp_cubic_params params;	/* in force */
};

CCA_FN void rtcp_cubic_flow_init(struct rtcp_cubic_flow *f, struct rtcp_client *c,
				 const struct rtcp_params *defaults,
				 const struct cca_start *start, u8 delay_class, u32 hash)
{
	rtcp_cubic_params_init(&f->params);
	f->params.rtcp = *defaults;
	rtcp_ens_init(&f->ens, start, delay_class, hash);
	rtcp_cubic_init(&f->state, &f->params, c, start);
}

CCA_FN void rtcp_cubic_flow_on_ack(struct rtcp_cubic_flow *f, struct rtcp_client *c,
				   const struct rtcp_params *defaults,
				   const struct ens_table *table, const struct cca_ack *ack,
				   struct cca_window *w)
{
	rtcp_cubic_on_ack(&f->state, &f->params, c, ack, w);
	rtcp_ens_on_ack(&f->ens, c, defaults, table, ack, &f->params.rtcp);
}

CCA_FN void rtcp_cubic_flow_on_event(struct rtcp_cubic_flow *f, struct rtcp_client *c,
				     const struct cca_event *ev)
{
	rtcp_ens_on_event(&f->ens, ev);
	rtcp_cubic_on_event(&f->state, &f->params, c, ev);
}

/* --- over BBR version 1 ------------------------------------------------------------ */

struct rtcp_bbr1_flow {
	struct rtcp_bbr1_state state;
	struct rtcp_ens ens;
	struct rtcp_bbr1_params params;		/* in force */
};

CCA_FN void rtcp_bbr1_flow_init(struct rtcp_bbr1_flow *f, struct rtcp_client *c,
				const struct rtcp_params *defaults,
				const struct cca_start *start, u8 delay_class, u32 hash,
				struct cca_decision *d)
{
	rtcp_bbr1_params_init(&f->params);
	f->params.rtcp = *defaults;
	rtcp_ens_init(&f->ens, start, delay_class, hash);
	rtcp_bbr1_init(&f->state, &f->params, c, start, hash, d);
}

CCA_FN void rtcp_bbr1_flow_on_ack(struct rtcp_bbr1_flow *f, struct rtcp_client *c,
				  const struct rtcp_params *defaults,
				  const struct ens_table *table, const struct cca_ack *ack,
				  struct cca_decision *d)
{
	rtcp_bbr1_on_ack(&f->state, &f->params, c, ack, d);
	rtcp_ens_on_ack(&f->ens, c, defaults, table, ack, &f->params.rtcp);
}

CCA_FN void rtcp_bbr1_flow_on_event(struct rtcp_bbr1_flow *f, struct rtcp_client *c,
				    const struct cca_event *ev, struct cca_decision *d)
{
	rtcp_ens_on_event(&f->ens, ev);
	rtcp_bbr1_on_event(&f->state, &f->params, c, ev, d);
}

/* --- over BBR version 3 ------------------------------------------------------------ */

struct rtcp_bbr3_flow {
	struct rtcp_bbr3_state state;
	struct rtcp_ens ens;
	struct rtcp_bbr3_params params;		/* in force */
};

CCA_FN void rtcp_bbr3_flow_init(struct rtcp_bbr3_flow *f, struct rtcp_client *c,
				const struct rtcp_params *defaults,
				const struct cca_start *start, u8 delay_class, u32 hash,
				struct cca_decision *d)
{
	rtcp_bbr3_params_init(&f->params);
	f->params.rtcp = *defaults;
	rtcp_ens_init(&f->ens, start, delay_class, hash);
	rtcp_bbr3_init(&f->state, &f->params, c, start, hash, d);
}

CCA_FN void rtcp_bbr3_flow_on_loss(struct rtcp_bbr3_flow *f, const struct cca_loss *loss)
{
	rtcp_bbr3_on_loss(&f->state, &f->params, loss);
}

CCA_FN void rtcp_bbr3_flow_on_ack(struct rtcp_bbr3_flow *f, struct rtcp_client *c,
				  const struct rtcp_params *defaults,
				  const struct ens_table *table, const struct cca_ack *ack,
				  struct cca_decision *d)
{
	rtcp_bbr3_on_ack(&f->state, &f->params, c, ack, d);
	rtcp_ens_on_ack(&f->ens, c, defaults, table, ack, &f->params.rtcp);
}

CCA_FN void rtcp_bbr3_flow_on_event(struct rtcp_bbr3_flow *f, struct rtcp_client *c,
				    const struct cca_event *ev, struct cca_decision *d)
{
	rtcp_ens_on_event(&f->ens, ev);
	rtcp_bbr3_on_event(&f->state, &f->params, c, ev, d);
}

#endif /* CCA_RTCP_ENSEMBLE_H */
