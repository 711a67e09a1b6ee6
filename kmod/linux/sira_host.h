/* SPDX-License-Identifier: GPL-2.0 */
/* SIRA (kmod/core/sira.h) as control_ops.h requires an algorithm. */
#ifndef CCATUNE_SIRA_HOST_H
#define CCATUNE_SIRA_HOST_H

#include "no_client.h"
#include "sira_model.h"

#ifdef CCATUNE_BPF_H

/* The verifier checks the loop once, and not anew for each path that leads to it. */
CCATUNE_PART int sira_move_window_part(struct sira_state *s, const struct sira_params *p,
				       const struct cca_ack *ack, u32 count)
{
	if (s && p && ack)
		sira_move_window(s, p, ack, count);
	return 0;
}

#define sira_move_window sira_move_window_part

#endif

#include "sira_flow.h"

#define ALG_WINDOW 0
#define ALG_ANSWERS_ECN
#define alg_params sira_params

struct alg_flow {
	struct ccatune_flow head;
	struct sira_flow core;
	struct cca_decision decision;
	u32 queueing_delay_us;
};

#define alg_ens(f) (&(f)->core.ens)
#define alg_set(f) (&(f)->core.params)

static inline void alg_init(struct alg_flow *f, const struct sira_params *defaults,
			    const struct cca_start *start, u8 delay_class)
{
	sira_flow_init(&f->core, defaults, start, delay_class, f->head.hash, &f->decision);
}

static inline void alg_on_ack(struct alg_flow *f, const struct sira_params *defaults,
			      const struct ens_table *table, const struct cca_ack *ack,
			      struct cca_decision *d)
{
	sira_flow_on_ack(&f->core, defaults, table, ack, d);
}

static inline void alg_on_event(struct alg_flow *f, const struct cca_event *ev)
{
	sira_flow_on_event(&f->core, ev, &f->decision);
}

static inline void alg_recall(struct alg_flow *f, const struct sira_params *defaults,
			      const struct ens_table *table, u64 now_us)
{
	sira_flow_recall(&f->core, defaults, table, now_us);
}

static inline u32 alg_queueing_delay_us(const struct alg_flow *f, u32 rtt_us)
{
	return sira_queueing_delay_us(&f->core.sira, rtt_us);
}

static inline void alg_put_outcome(struct rec_record *r, const struct alg_flow *f)
{
	sira_put_outcome(r, &f->core, &f->decision);
}

#ifdef CCATUNE_SHOW_H

static inline void alg_view(const struct alg_flow *f, struct ccatune_view *view)
{
	static const char *const modes[] = {
		[SIRA_STARTUP] = "startup",
		[SIRA_COMPENSATE] = "compensate",
		[SIRA_REDUCE] = "reduce",
		[SIRA_DRAIN] = "drain",
	};

	view->mode = ccatune_name(CCATUNE_NAMES(modes), READ_ONCE(f->core.sira.mode));
	view->pacing_bytes_per_s = READ_ONCE(f->decision.pacing_bytes_per_s);
	view->min_rtt_us = READ_ONCE(f->core.sira.min_rtt_us);
}

#define alg_show(m, f) do { } while (0)

#endif

#endif /* CCATUNE_SIRA_HOST_H */
