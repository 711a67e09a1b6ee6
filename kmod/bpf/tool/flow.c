// SPDX-License-Identifier: GPL-2.0
/*
 * What `flows` says of a flow of one algorithm. The Makefile compiles this for each algorithm, with
 * CCATUNE_ALGORITHM and CCATUNE_ADAPTER, the file of its adapter.
 */
#include "tool.h"

#include CCATUNE_ADAPTER

static void view(const struct ccatune_flow *flow, struct ccatune_view *view)
{
#ifdef ALG_NO_TABLE
	(void)flow;
	view->mode = "-";
#else
	struct alg_flow *f = (struct alg_flow *)flow;

	view->clock = &alg_ens(f)->clock;
	view->params = alg_set(f);
	view->queueing_delay_us = f->queueing_delay_us;
	alg_view(f, view);
#endif
}

static void show(struct seq_file *m, const struct ccatune_flow *flow)
{
#ifdef ALG_NO_TABLE
	(void)m;
	(void)flow;
#else
	alg_show(m, (const struct alg_flow *)flow);
#endif
}

const struct algorithm CCATUNE_PASTE(algorithm_, CCATUNE_ALGORITHM) = {
	.id = CCATUNE_ID,
	.flow_bytes = sizeof(struct alg_flow),
	.view = view,
	.show = show,
};
