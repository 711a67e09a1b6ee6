/* SPDX-License-Identifier: GPL-2.0 */
/* R-TCP over CUBIC (kmod/core/rtcp.h) as window_ops.h requires an algorithm. */
#ifndef CCATUNE_RTCP_CUBIC_HOST_H
#define CCATUNE_RTCP_CUBIC_HOST_H

#include "rtcp_host.h"

#define ALG_WINDOW 1
#define ALG_BOUNDS_START	/* a known limiter's cap applies to the first window */

struct alg_flow {
	struct ccatune_flow head;
	struct rtcp_member member;
	struct rtcp_cubic_flow core;
	struct ccatune_last_ack last_ack;
	u32 queueing_delay_us;
};

#include "rtcp_flow.h"

static inline void alg_init(struct alg_flow *f, const struct rtcp_params *defaults,
			    const struct cca_start *start, u8 delay_class)
{
	rtcp_cubic_flow_init(&f->core, alg_client(f), defaults, start, delay_class, f->head.hash);
}

static inline void alg_bound(const struct alg_flow *f, struct cca_window *w)
{
	rtcp_cubic_bound(&f->core.state, &f->core.params, alg_client(f), w);
}

static inline void alg_on_ack(struct alg_flow *f, const struct rtcp_params *defaults,
			      const struct ens_table *table, const struct cca_ack *ack,
			      struct cca_window *w)
{
	rtcp_cubic_flow_on_ack(&f->core, alg_client(f), defaults, table, ack, w);
}

static inline void alg_grow(struct alg_flow *f, struct cca_window *w, u32 acked_pkts)
{
	rtcp_cubic_grow(&f->core.state, &f->core.params, alg_client(f), w, acked_pkts);
}

static inline u32 alg_ssthresh(struct alg_flow *f, struct cca_window *w)
{
	return rtcp_cubic_ssthresh(&f->core.state, &f->core.params, alg_client(f), w);
}

static inline u32 alg_undo(struct alg_flow *f, const struct cca_window *w)
{
	return rtcp_cubic_undo(&f->core.state, &f->core.params, alg_client(f), w);
}

static inline void alg_on_event(struct alg_flow *f, const struct cca_event *ev)
{
	rtcp_cubic_flow_on_event(&f->core, alg_client(f), ev);
}

static inline void alg_put_outcome(struct rec_record *r, const struct alg_flow *f)
{
	alg_put_recall(r, f);
}

#ifdef CCATUNE_SHOW_H

static inline void alg_view(const struct alg_flow *f, struct ccatune_view *view)
{
	rtcp_view(f, view);
}

static inline void alg_show(struct seq_file *m, const struct alg_flow *f)
{
	rtcp_show(m, f);
}

#endif

#endif /* CCATUNE_RTCP_CUBIC_HOST_H */
