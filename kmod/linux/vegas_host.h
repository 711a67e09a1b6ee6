/* SPDX-License-Identifier: GPL-2.0 */
/* TCP Vegas (kmod/core/vegas.h) as window_ops.h requires an algorithm that follows no table. */
#ifndef CCATUNE_VEGAS_HOST_H
#define CCATUNE_VEGAS_HOST_H

#include "vegas.h"

#define ALG_WINDOW 1
#define ALG_NO_TABLE
#define ALG_ACKS_LEAVE_WINDOW
#define alg_params vegas_params

struct alg_flow {
	struct ccatune_flow head;
	struct vegas_state core;
	struct vegas_params params;
};

static inline void alg_init(struct alg_flow *f, const struct vegas_params *params,
			    const struct cca_start *start)
{
	f->params = *params;
	vegas_init(&f->core);
}

static inline void alg_on_ack(struct alg_flow *f, const struct cca_ack *ack, struct cca_window *w)
{
	vegas_on_ack(&f->core, ack);
}

static inline void alg_grow(struct alg_flow *f, struct cca_window *w, u32 acked_pkts)
{
	vegas_grow(&f->core, &f->params, w, acked_pkts);
}

static inline u32 alg_ssthresh(struct alg_flow *f, struct cca_window *w)
{
	return vegas_ssthresh(&f->core, w);
}

static inline u32 alg_undo(struct alg_flow *f, const struct cca_window *w)
{
	return vegas_undo(&f->core, w);
}

static inline void alg_on_event(struct alg_flow *f, const struct cca_event *ev)
{
	vegas_on_event(&f->core, ev);
}

#endif /* CCATUNE_VEGAS_HOST_H */
