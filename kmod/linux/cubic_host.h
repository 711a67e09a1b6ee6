/* SPDX-License-Identifier: GPL-2.0 */
/* CUBIC (kmod/core/cubic.h) as window_ops.h requires an algorithm. */
#ifndef CCATUNE_CUBIC_HOST_H
#define CCATUNE_CUBIC_HOST_H

#include "cubic_ensemble.h"
#include "no_client.h"

#define ALG_WINDOW 1
#define alg_params cubic_params

struct alg_flow {
	struct ccatune_flow head;
	struct cubic_flow core;
	struct ccatune_last_ack last_ack;
	u32 queueing_delay_us;
};

#define alg_ens(f) (&(f)->core.ens)
#define alg_set(f) (&(f)->core.params)

static inline void alg_init(struct alg_flow *f, const struct cubic_params *defaults,
			    const struct cca_start *start, u8 delay_class)
{
	cubic_flow_init(&f->core, defaults, start, delay_class, f->head.hash);
}

static inline void alg_on_ack(struct alg_flow *f, const struct cubic_params *defaults,
			      const struct ens_table *table, const struct cca_ack *ack,
			      struct cca_window *w)
{
	cubic_flow_on_ack(&f->core, defaults, table, ack, w);
}

static inline void alg_grow(struct alg_flow *f, struct cca_window *w, u32 acked_pkts)
{
	cubic_grow(&f->core.cubic, &f->core.params, w, acked_pkts);
}

static inline u32 alg_ssthresh(struct alg_flow *f, struct cca_window *w)
{
	return cubic_ssthresh(&f->core.cubic, &f->core.params, w);
}

static inline u32 alg_undo(struct alg_flow *f, const struct cca_window *w)
{
	return cubic_undo(&f->core.cubic, w);
}

static inline void alg_on_event(struct alg_flow *f, const struct cca_event *ev)
{
	cubic_flow_on_event(&f->core, ev);
}

static inline void alg_recall(struct alg_flow *f, const struct cubic_params *defaults,
			      const struct ens_table *table, u64 now_us)
{
	cubic_flow_recall(&f->core, defaults, table, now_us);
}

static inline u32 alg_queueing_delay_us(const struct alg_flow *f, u32 rtt_us)
{
	return ens_queueing_delay_us(f->core.min_rtt_us, rtt_us);
}

static inline void alg_put_outcome(struct rec_record *r, const struct alg_flow *f)
{
	cubic_put_outcome(r, &f->core);
}

#ifdef CCATUNE_SHOW_H

static inline void alg_view(const struct alg_flow *f, struct ccatune_view *view)
{
	view->mode = READ_ONCE(f->core.cubic.in_epoch) ? "avoidance" : "waiting";
	view->min_rtt_us = READ_ONCE(f->core.min_rtt_us);
}

static inline void alg_show(struct seq_file *m, const struct alg_flow *f)
{
	seq_printf(m, " w_max_pkts=%u", READ_ONCE(f->core.cubic.w_max_pkts));
}

#endif

#endif /* CCATUNE_CUBIC_HOST_H */
