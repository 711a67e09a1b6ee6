/* SPDX-License-Identifier: GPL-2.0 */
/* Makes an R-TCP flow follow a recall of rows (kmod/core/ensemble_flow.h). */
#ifndef CCATUNE_TCP_RTCP_RECALL_H
#define CCATUNE_TCP_RTCP_RECALL_H

#include "recall.h"
#include "tcp_rtcp.h"

/*
 * Call this with the client's lock held and under rcu_read_lock(). set: the flow's parameters,
 * which this updates.
 */
static inline void rtcp_kflow_follow_recall(struct rtcp_kflow *f, struct rtcp_ens *ens,
					    const struct rtcp_flow *flow,
					    const struct rtcp_client *c,
					    struct rtcp_params *set, u64 now_us)
{
	struct ccatune_recording *recording;
	const struct ccatune_params *params;
	struct ccatune_table *table;
	struct rec_record r;

	if (likely(!ccatune_is_recalled(&f->head)))
		return;
	table = ccatune_flow_table(&f->head);
	params = ccatune_flow_params(&f->head);
	ens_flow_set_class(&ens->flow, ccatune_flow_class(&f->head, f->head.sk, table));
	rtcp_ens_recall(ens, c, (const struct rtcp_params *)params->value,
			table ? &table->ens : NULL, now_us, set);
	if (ens->flow.turn == ENS_WAITED)
		return;
	ccatune_flow_epoch_ended(&f->head, f->head.sk, &ens->flow, table, now_us);
	recording = ccatune_recording(&f->head);
	if (!recording)
		return;
	ccatune_begin_recall(recording, &r, &f->head, &ens->flow, table, params,
			     f->head.cca->algorithm->id, now_us);
	rtcp_put_outcome(&r, ens, set, c, flow, f->head.cca->algorithm->id);
	rtcp_kflow_record(f, flow, c, recording, &r);
}

/* The same before a transmission. This locks the client, if there was a recall. */
static inline void rtcp_kflow_before_sending(struct rtcp_kflow *f, struct rtcp_ens *ens,
					     const struct rtcp_flow *flow,
					     struct rtcp_params *set)
{
	struct rtcp_client *c;

	if (likely(ccatune_recalls(f->head.cca) == f->head.recalls))
		return;
	rcu_read_lock();
	c = rtcp_member_lock(&f->member, ccatune_recording(&f->head), false);
	rtcp_kflow_follow_recall(f, ens, flow, c, set, tcp_sk(f->head.sk)->tcp_mstamp);
	rtcp_member_unlock(&f->member);
	rcu_read_unlock();
}

#endif /* CCATUNE_TCP_RTCP_RECALL_H */
