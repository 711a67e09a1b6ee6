/* SPDX-License-Identifier: GPL-2.0 */
/* CUBIC (kmod/core/cubic.h) as window_ops.h requires an algorithm that follows no table. */
#ifndef CCATUNE_CUBIC_HOST_H
#define CCATUNE_CUBIC_HOST_H

#include "cubic.h"

#define ALG_WINDOW 1
#define ALG_NO_TABLE
#define alg_params cubic_params

struct alg_flow {
	struct ccatune_flow head;
	struct cubic_state core;
	struct cubic_params params;
};

static inline void alg_init(struct alg_flow *f, const struct cubic_params *params,
			    const struct cca_start *start)
{
	f->params = *params;
	cubic_init(&f->core, &f->params, start);
}

static inline void alg_on_ack(struct alg_flow *f, const struct cca_ack *ack, struct cca_window *w)
{
	cubic_on_ack(&f->core, &f->params, ack, w);
}

static inline void alg_grow(struct alg_flow *f, struct cca_window *w, u32 acked_pkts)
{
	cubic_grow(&f->core, &f->params, w, acked_pkts);
}

static inline u32 alg_ssthresh(struct alg_flow *f, struct cca_window *w)
{
	return cubic_ssthresh(&f->core, &f->params, w);
}

static inline u32 alg_undo(struct alg_flow *f, const struct cca_window *w)
{
	return cubic_undo(&f->core, w);
}

static inline void alg_on_event(struct alg_flow *f, const struct cca_event *ev)
{
	cubic_on_event(&f->core, ev);
}

#endif /* CCATUNE_CUBIC_HOST_H */
