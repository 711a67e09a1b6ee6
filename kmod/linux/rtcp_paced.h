/* SPDX-License-Identifier: GPL-2.0 */
/*
 * R-TCP over an algorithm in control mode (kmod/core/rtcp.h) as control_ops.h requires an
 * algorithm. The includer has defined:
 *
 *   RTCP_OVER(name)     the name of a function or a struct of the core for this algorithm
 *   rtcp_base_modes     names of the modes of the base algorithm
 *   ALG_SINGLE_BELOW    optional: rate below which it sends single packets
 *   ALG_LEARNS_FROM_LOSSES    optional: it has RTCP_OVER(flow_on_loss)
 */
#ifndef CCATUNE_RTCP_PACED_H
#define CCATUNE_RTCP_PACED_H

#include "rtcp_host.h"

#include "sent_log.h"

#define ALG_WINDOW 0
#define ALG_LOOKS_WITH_ACKS
#define ALG_SNDBUF_WINDOWS 3u		/* BBR may double its window even in recovery */

struct alg_flow {
	struct ccatune_flow head;
	struct rtcp_member member;
	struct RTCP_OVER(flow) core;
	struct cca_decision decision;
	u32 queueing_delay_us;
	u8 seen_state;			/* the kernel's state at the last ACK or timeout */
#ifdef ALG_LEARNS_FROM_LOSSES
	struct cca_sent_log sent;
#endif
};

#include "rtcp_flow.h"

static inline void alg_init(struct alg_flow *f, const struct rtcp_params *defaults,
			    const struct cca_start *start, u8 delay_class)
{
	RTCP_OVER(flow_init)(&f->core, alg_client(f), defaults, start, delay_class, f->head.hash,
			     &f->decision);
}

static inline void alg_on_ack(struct alg_flow *f, const struct rtcp_params *defaults,
			      const struct ens_table *table, const struct cca_ack *ack,
			      struct cca_decision *d)
{
	RTCP_OVER(flow_on_ack)(&f->core, alg_client(f), defaults, table, ack, d);
}

static inline void alg_on_event(struct alg_flow *f, const struct cca_event *ev)
{
	RTCP_OVER(flow_on_event)(&f->core, alg_client(f), ev, &f->decision);
}

#ifdef ALG_LEARNS_FROM_LOSSES
static inline void alg_on_loss(struct alg_flow *f, const struct cca_loss *loss)
{
	RTCP_OVER(flow_on_loss)(&f->core, loss);
}
#endif

static inline void alg_put_outcome(struct rec_record *r, const struct alg_flow *f)
{
	rec_put_decision(r, &f->decision);
	alg_put_recall(r, f);
}

#ifdef CCATUNE_SHOW_H

static inline void alg_view(const struct alg_flow *f, struct ccatune_view *view)
{
	rtcp_view(f, view);
	view->pacing_bytes_per_s = READ_ONCE(f->decision.pacing_bytes_per_s);
}

static inline void alg_show(struct seq_file *m, const struct alg_flow *f)
{
	rtcp_show(m, f);
	seq_printf(m, " bbr=%s", ccatune_name(CCATUNE_NAMES(rtcp_base_modes),
					      READ_ONCE(f->core.state.base.mode)));
}

#endif

#endif /* CCATUNE_RTCP_PACED_H */
