/* SPDX-License-Identifier: GPL-2.0 */
/* What R-TCP's adapters have in common. The includer has defined struct alg_flow. */
#ifndef CCATUNE_RTCP_FLOW_H
#define CCATUNE_RTCP_FLOW_H

#define alg_client(f) rtcp_member_client(&(f)->member)
#define alg_ens(f) (&(f)->core.ens.flow)
#define alg_set(f) (&(f)->core.params.rtcp)

static inline void alg_recall(struct alg_flow *f, const struct rtcp_params *defaults,
			      const struct ens_table *table, u64 now_us)
{
	rtcp_ens_recall(&f->core.ens, alg_client(f), defaults, table, now_us, alg_set(f));
}

static inline u32 alg_queueing_delay_us(const struct alg_flow *f, u32 rtt_us)
{
	return rtcp_queueing_delay_us(alg_client(f), rtt_us);
}

static inline void alg_put_recall(struct rec_record *r, const struct alg_flow *f)
{
	rtcp_put_outcome(r, &f->core.ens, alg_set(f), alg_client(f), &f->core.state.flow,
			 CCATUNE_ID);
}

#ifdef CCATUNE_SHOW_H

#include "rtcp_text.h"

/*
 * The flow may leave its client meanwhile, but the client's memory stays valid under RCU. The
 * client's lock is not held.
 */
static inline void rtcp_view(const struct alg_flow *f, struct ccatune_view *view)
{
	const struct rtcp_client *c = alg_client(f);

	view->mode = rtcp_mode(c, &f->core.state.flow);
	view->min_rtt_us = READ_ONCE(c->min_rtt_us);
}

static inline void rtcp_show(struct seq_file *m, const struct alg_flow *f)
{
	struct rtcp_client c = data_race(*alg_client(f));
	struct rtcp_flow own = data_race(f->core.state.flow);

	rtcp_show_flow(m, &c, &own, alg_set(f), !rtcp_member_is_own(&f->member));
	seq_printf(m, " limited_segments=%u limited_retransmitted=%u",
		   data_race(f->member.tally.now.limited_segments),
		   data_race(f->member.tally.now.limited_retransmitted));
}

#endif

#endif /* CCATUNE_RTCP_FLOW_H */
