/* SPDX-License-Identifier: MIT */
/*
 * A flow under any algorithm of the core, behind one shape: for the core's own tests, the
 * fuzzer and the replay of recordings.
 *
 * An algorithm with an ensemble has its parameters from `table`, or else from the host. One of
 * R-TCP has a client, which flows may share. The union holds garbage before flow_init(): no
 * algorithm may read any of it.
 */
#ifndef TESTS_FLOW_H
#define TESTS_FLOW_H

#include <stddef.h>

#include "bbr_ensemble.h"
#include "cubic_ensemble.h"
#include "gr_flow.h"
#include "reno.h"
#include "roccet_flow.h"
#include "rtcp_ensemble.h"
#include "sira_flow.h"
#include "vegas.h"

#define MSS 1448u
#define MS 1000u
#define SECOND 1000000u
#define NO_SSTHRESH 0x7fffffffu

/* Algorithms without epochs: what their own rules do. Their parameters are in `p`. */
#define GR_ALONE (CCA_ID_gr | 0x100u)
#define ROCCET_ALONE (CCA_ID_roccet | 0x100u)
#define SIRA_ALONE (CCA_ID_sira | 0x100u)
#define CUBIC_ALONE (CCA_ID_cubic | 0x100u)
#define BBR_ALONE (CCA_ID_bbr | 0x100u)
#define BBR3_ALONE (CCA_ID_bbr3 | 0x100u)

/* A program for one algorithm says so before it includes this, and the others are not compiled. */
#ifdef ONLY_ID
#define FLOW_ID(f) ((void)(f), ONLY_ID)
#else
#define FLOW_ID(f) ((f)->id)
#endif

struct flow {
	u32 id;				/* CCA_ID_, or one of the _ALONE */
	struct rtcp_client *client;	/* of R-TCP */
	const struct ens_table *table;	/* NULL: none */
	struct cca_ack ack;		/* the last one, where a test makes them one by one */
	struct cca_window w;		/* window mode */
	struct cca_decision d;		/* control mode */
	union {				/* parameters of the host */
		u32 word[CCA_MAX_PARAMS];
		struct gr_params gr;
		struct cubic_params cubic;
		struct vegas_params vegas;
		struct roccet_params roccet;
		struct bbr1_params bbr;
		struct bbr3_params bbr3;
		struct rtcp_params rtcp;
		struct sira_params sira;
	} p;
	union {
		struct gr_flow gr;
		struct gr_state gr_alone;
		struct roccet_flow roccet;
		struct roccet_state roccet_alone;
		struct reno_state reno;
		struct cubic_flow cubic_rows;
		struct cubic_state cubic;
		struct vegas_state vegas;
		struct bbr1_flow bbr_rows;
		struct bbr1_state bbr;
		struct bbr3_flow bbr3_rows;
		struct bbr3_state bbr3;
		struct rtcp_cubic_flow rtcp_cubic;
		struct rtcp_bbr1_flow rtcp_bbr;
		struct rtcp_bbr3_flow rtcp_bbr3;
		struct sira_flow sira;
		struct sira_state sira_alone;
	};
};

static inline bool is_window_mode(u32 id)
{
	enum { MODE_CONTROL, MODE_WINDOW };

	switch (id & 0xff) {
#define CCA_ALGORITHM(name, mode, host, meaning) case CCA_ID_##name: return MODE_##mode;
#include "params.def"
	default: __builtin_trap();
	}
}

static inline bool is_rtcp(u32 id)
{
	return id == CCA_ID_rtcp_cubic || id == CCA_ID_rtcp_bbr || id == CCA_ID_rtcp_bbr3;
}

/* NULL: its parameters are the host's alone. */
static inline struct ens_flow *flow_ens(struct flow *f)
{
	switch (FLOW_ID(f)) {
	case CCA_ID_gr: return &f->gr.ens;
	case CCA_ID_roccet: return &f->roccet.ens;
	case CCA_ID_cubic: return &f->cubic_rows.ens;
	case CCA_ID_bbr: return &f->bbr_rows.ens;
	case CCA_ID_bbr3: return &f->bbr3_rows.ens;
	case CCA_ID_rtcp_cubic: return &f->rtcp_cubic.ens.flow;
	case CCA_ID_rtcp_bbr: return &f->rtcp_bbr.ens.flow;
	case CCA_ID_rtcp_bbr3: return &f->rtcp_bbr3.ens.flow;
	case CCA_ID_sira: return &f->sira.ens;
	default: return NULL;
	}
}

/* The parameter set in force. */
static inline const void *flow_params(const struct flow *f)
{
	switch (FLOW_ID(f)) {
	case CCA_ID_gr: return &f->gr.params;
	case CCA_ID_roccet: return &f->roccet.params;
	case CCA_ID_cubic: return &f->cubic_rows.params;
	case CCA_ID_bbr: return &f->bbr_rows.params;
	case CCA_ID_bbr3: return &f->bbr3_rows.params;
	case CCA_ID_rtcp_cubic: return &f->rtcp_cubic.params.rtcp;
	case CCA_ID_rtcp_bbr: return &f->rtcp_bbr.params.rtcp;
	case CCA_ID_rtcp_bbr3: return &f->rtcp_bbr3.params.rtcp;
	case CCA_ID_sira: return &f->sira.params;
	default: return &f->p;
	}
}

/* R-TCP's part of a flow. */
static inline struct rtcp_flow *flow_rtcp(struct flow *f)
{
	switch (FLOW_ID(f)) {
	case CCA_ID_rtcp_cubic: return &f->rtcp_cubic.state.flow;
	case CCA_ID_rtcp_bbr: return &f->rtcp_bbr.state.flow;
	default: return &f->rtcp_bbr3.state.flow;
	}
}

/* Its parameters, client and table are there already. */
static inline void flow_init(struct flow *f, const struct cca_start *start, u8 delay_class, u32 hash)
{
	switch (FLOW_ID(f)) {
	case CCA_ID_gr: gr_flow_init(&f->gr, &f->p.gr, start, delay_class, hash, &f->d); break;
	case GR_ALONE: gr_init(&f->gr_alone, &f->p.gr, start, &f->d); break;
	case CCA_ID_roccet: roccet_flow_init(&f->roccet, &f->p.roccet, start, delay_class, hash); break;
	case ROCCET_ALONE: roccet_init(&f->roccet_alone, &f->p.roccet, start); break;
	case CCA_ID_reno: reno_init(&f->reno); break;
	case CCA_ID_cubic:
		cubic_flow_init(&f->cubic_rows, &f->p.cubic, start, delay_class, hash);
		break;
	case CUBIC_ALONE: cubic_init(&f->cubic, &f->p.cubic, start); break;
	case CCA_ID_vegas: vegas_init(&f->vegas); break;
	case CCA_ID_bbr:
		bbr1_flow_init(&f->bbr_rows, &f->p.bbr, start, delay_class, hash, &f->d);
		break;
	case BBR_ALONE: bbr1_init(&f->bbr, &f->p.bbr, start, hash, &f->d); break;
	case CCA_ID_bbr3:
		bbr3_flow_init(&f->bbr3_rows, &f->p.bbr3, start, delay_class, hash, &f->d);
		break;
	case BBR3_ALONE: bbr3_init(&f->bbr3, &f->p.bbr3, start, hash, &f->d); break;
	case CCA_ID_rtcp_cubic:
		rtcp_cubic_flow_init(&f->rtcp_cubic, f->client, &f->p.rtcp, start, delay_class, hash);
		break;
	case CCA_ID_rtcp_bbr:
		rtcp_bbr1_flow_init(&f->rtcp_bbr, f->client, &f->p.rtcp, start, delay_class, hash, &f->d);
		break;
	case CCA_ID_rtcp_bbr3:
		rtcp_bbr3_flow_init(&f->rtcp_bbr3, f->client, &f->p.rtcp, start, delay_class, hash, &f->d);
		break;
	case CCA_ID_sira: sira_flow_init(&f->sira, &f->p.sira, start, delay_class, hash, &f->d); break;
	case SIRA_ALONE: sira_init(&f->sira_alone, &f->p.sira, start, &f->d); break;
	default: __builtin_trap();	/* the algorithm has no place here yet */
	}
}

/* Window mode: the window does not grow here, but in flow_grow(). */
static inline void flow_on_ack(struct flow *f, const struct cca_ack *ack)
{
	switch (FLOW_ID(f)) {
	case CCA_ID_gr: gr_flow_on_ack(&f->gr, &f->p.gr, f->table, ack, &f->d); break;
	case GR_ALONE: gr_on_ack(&f->gr_alone, &f->p.gr, ack, &f->d); break;
	case CCA_ID_roccet: roccet_flow_on_ack(&f->roccet, &f->p.roccet, f->table, ack, &f->w); break;
	case ROCCET_ALONE: roccet_on_ack(&f->roccet_alone, &f->p.roccet, ack, &f->w); break;
	case CCA_ID_reno: reno_on_ack(&f->reno, ack); break;
	case CCA_ID_cubic: cubic_flow_on_ack(&f->cubic_rows, &f->p.cubic, f->table, ack, &f->w); break;
	case CUBIC_ALONE: cubic_on_ack(&f->cubic, &f->p.cubic, ack, &f->w); break;
	case CCA_ID_vegas: vegas_on_ack(&f->vegas, ack); break;
	case CCA_ID_bbr: bbr1_flow_on_ack(&f->bbr_rows, &f->p.bbr, f->table, ack, &f->d); break;
	case BBR_ALONE: bbr1_on_ack(&f->bbr, &f->p.bbr, ack, &f->d); break;
	case CCA_ID_bbr3: bbr3_flow_on_ack(&f->bbr3_rows, &f->p.bbr3, f->table, ack, &f->d); break;
	case BBR3_ALONE: bbr3_on_ack(&f->bbr3, &f->p.bbr3, ack, &f->d); break;
	case CCA_ID_rtcp_cubic:
		rtcp_cubic_flow_on_ack(&f->rtcp_cubic, f->client, &f->p.rtcp, f->table, ack, &f->w);
		break;
	case CCA_ID_rtcp_bbr:
		rtcp_bbr1_flow_on_ack(&f->rtcp_bbr, f->client, &f->p.rtcp, f->table, ack, &f->d);
		break;
	case CCA_ID_rtcp_bbr3:
		rtcp_bbr3_flow_on_ack(&f->rtcp_bbr3, f->client, &f->p.rtcp, f->table, ack, &f->d);
		break;
	case CCA_ID_sira: sira_flow_on_ack(&f->sira, &f->p.sira, f->table, ack, &f->d); break;
	case SIRA_ALONE: sira_on_ack(&f->sira_alone, &f->p.sira, ack, &f->d); break;
	default: break;
	}
}

static inline void flow_grow(struct flow *f, u32 acked_pkts)
{
	switch (FLOW_ID(f)) {
	case CCA_ID_roccet: roccet_flow_grow(&f->roccet, &f->w, acked_pkts); break;
	case ROCCET_ALONE: roccet_grow(&f->roccet_alone, &f->p.roccet, &f->w, acked_pkts); break;
	case CCA_ID_reno: reno_grow(&f->reno, &f->w, acked_pkts); break;
	case CCA_ID_cubic:
		cubic_grow(&f->cubic_rows.cubic, &f->cubic_rows.params, &f->w, acked_pkts);
		break;
	case CUBIC_ALONE: cubic_grow(&f->cubic, &f->p.cubic, &f->w, acked_pkts); break;
	case CCA_ID_vegas: vegas_grow(&f->vegas, &f->p.vegas, &f->w, acked_pkts); break;
	case CCA_ID_rtcp_cubic:
		rtcp_cubic_grow(&f->rtcp_cubic.state, &f->rtcp_cubic.params, f->client, &f->w, acked_pkts);
		break;
	default: break;
	}
}

/* The threshold of a loss episode; 0 in control mode. */
static inline u32 flow_ssthresh(struct flow *f)
{
	switch (FLOW_ID(f)) {
	case CCA_ID_roccet: return roccet_flow_ssthresh(&f->roccet, &f->w);
	case ROCCET_ALONE: return roccet_ssthresh(&f->roccet_alone, &f->p.roccet, &f->w);
	case CCA_ID_reno: return reno_ssthresh(&f->reno, &f->w);
	case CCA_ID_cubic: return cubic_ssthresh(&f->cubic_rows.cubic, &f->cubic_rows.params, &f->w);
	case CUBIC_ALONE: return cubic_ssthresh(&f->cubic, &f->p.cubic, &f->w);
	case CCA_ID_vegas: return vegas_ssthresh(&f->vegas, &f->w);
	case CCA_ID_rtcp_cubic:
		return rtcp_cubic_ssthresh(&f->rtcp_cubic.state, &f->rtcp_cubic.params, f->client, &f->w);
	default: return 0;
	}
}

/* The window after an episode that was none; 0 in control mode. */
static inline u32 flow_undo(struct flow *f)
{
	switch (FLOW_ID(f)) {
	case CCA_ID_roccet: return roccet_flow_undo(&f->roccet, &f->w);
	case ROCCET_ALONE: return roccet_undo(&f->roccet_alone, &f->w);
	case CCA_ID_reno: return reno_undo(&f->reno, &f->w);
	case CCA_ID_cubic: return cubic_undo(&f->cubic_rows.cubic, &f->w);
	case CUBIC_ALONE: return cubic_undo(&f->cubic, &f->w);
	case CCA_ID_vegas: return vegas_undo(&f->vegas, &f->w);
	case CCA_ID_rtcp_cubic:
		return rtcp_cubic_undo(&f->rtcp_cubic.state, &f->rtcp_cubic.params, f->client, &f->w);
	default: return 0;
	}
}

static inline void flow_on_event(struct flow *f, const struct cca_event *ev)
{
	switch (FLOW_ID(f)) {
	case CCA_ID_gr: gr_flow_on_event(&f->gr, ev, &f->d); break;
	case GR_ALONE: gr_on_event(&f->gr_alone, &f->p.gr, ev, &f->d); break;
	case CCA_ID_roccet: roccet_flow_on_event(&f->roccet, ev); break;
	case ROCCET_ALONE: roccet_on_event(&f->roccet_alone, ev); break;
	case CCA_ID_cubic: cubic_flow_on_event(&f->cubic_rows, ev); break;
	case CUBIC_ALONE: cubic_on_event(&f->cubic, ev); break;
	case CCA_ID_vegas: vegas_on_event(&f->vegas, ev); break;
	case CCA_ID_bbr: bbr1_flow_on_event(&f->bbr_rows, ev, &f->d); break;
	case BBR_ALONE: bbr1_on_event(&f->bbr, &f->p.bbr, ev, &f->d); break;
	case CCA_ID_bbr3: bbr3_flow_on_event(&f->bbr3_rows, ev, &f->d); break;
	case BBR3_ALONE: bbr3_on_event(&f->bbr3, &f->p.bbr3, ev, &f->d); break;
	case CCA_ID_rtcp_cubic: rtcp_cubic_flow_on_event(&f->rtcp_cubic, f->client, ev); break;
	case CCA_ID_rtcp_bbr: rtcp_bbr1_flow_on_event(&f->rtcp_bbr, f->client, ev, &f->d); break;
	case CCA_ID_rtcp_bbr3: rtcp_bbr3_flow_on_event(&f->rtcp_bbr3, f->client, ev, &f->d); break;
	case CCA_ID_sira: sira_flow_on_event(&f->sira, ev, &f->d); break;
	case SIRA_ALONE: sira_on_event(&f->sira_alone, &f->p.sira, ev, &f->d); break;
	default: break;
	}
}

/* Of BBRv3 alone: a packet was lost. */
static inline void flow_on_loss(struct flow *f, const struct cca_loss *loss)
{
	if (FLOW_ID(f) == CCA_ID_bbr3)
		bbr3_flow_on_loss(&f->bbr3_rows, loss);
	else if (FLOW_ID(f) == BBR3_ALONE)
		bbr3_on_loss(&f->bbr3, &f->p.bbr3, loss);
	else if (FLOW_ID(f) == CCA_ID_rtcp_bbr3)
		rtcp_bbr3_flow_on_loss(&f->rtcp_bbr3, loss);
}

/* An urgent table, or none any more, ahead of the epoch's end. */
static inline void flow_recall(struct flow *f, u64 now_us)
{
	switch (FLOW_ID(f)) {
	case CCA_ID_gr: gr_flow_recall(&f->gr, &f->p.gr, f->table, now_us); break;
	case CCA_ID_roccet: roccet_flow_recall(&f->roccet, &f->p.roccet, f->table, now_us); break;
	case CCA_ID_cubic: cubic_flow_recall(&f->cubic_rows, &f->p.cubic, f->table, now_us); break;
	case CCA_ID_bbr: bbr1_flow_recall(&f->bbr_rows, &f->p.bbr, f->table, now_us); break;
	case CCA_ID_bbr3: bbr3_flow_recall(&f->bbr3_rows, &f->p.bbr3, f->table, now_us); break;
	case CCA_ID_rtcp_cubic:
		rtcp_ens_recall(&f->rtcp_cubic.ens, f->client, &f->p.rtcp, f->table, now_us,
				&f->rtcp_cubic.params.rtcp);
		break;
	case CCA_ID_rtcp_bbr:
		rtcp_ens_recall(&f->rtcp_bbr.ens, f->client, &f->p.rtcp, f->table, now_us,
				&f->rtcp_bbr.params.rtcp);
		break;
	case CCA_ID_rtcp_bbr3:
		rtcp_ens_recall(&f->rtcp_bbr3.ens, f->client, &f->p.rtcp, f->table, now_us,
				&f->rtcp_bbr3.params.rtcp);
		break;
	case CCA_ID_sira: sira_flow_recall(&f->sira, &f->p.sira, f->table, now_us); break;
	default: break;
	}
}

#endif /* TESTS_FLOW_H */
