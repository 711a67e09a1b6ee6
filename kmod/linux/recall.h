/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What follows the recall of a flow's row (kmod/core/ensemble_flow.h), for both hosts in the
 * kernel. The includer has included its ccatune.h.
 */
#ifndef CCATUNE_RECALL_H
#define CCATUNE_RECALL_H

/*
 * Starts the record of a recall. id: of the algorithm. The caller adds the outcome: the row and
 * the parameters that the flow now uses.
 */
static inline void ccatune_begin_recall(struct ccatune_recording *recording, struct rec_record *r,
					const struct ccatune_flow *flow, const struct ens_flow *ens,
					const struct ccatune_table *table,
					const struct ccatune_params *params, u32 id, u64 now_us)
{
	ccatune_record_table(recording, table);
	ccatune_record_params(recording, params, id);
	rec_init(r, REC_RECALL, flow->recorded_as, now_us);
	ens_flow_put_recall(r, ens, table ? table->ens.generation : 0, params->version);
}

/*
 * Updates the sums of the rows and the recording after a flow has followed a recall. Call this
 * under rcu_read_lock(). set: the flow's parameters after the recall. id: of the algorithm.
 */
static inline void ccatune_flow_recalled(struct ccatune_flow *flow, const struct sock *sk,
					 const struct ens_flow *ens, const void *set,
					 struct ccatune_table *table,
					 const struct ccatune_params *params, u32 id,
					 u64 now_us)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	if (ens->epoch_end == ENS_WAITED)
		return;
	ccatune_flow_epoch_ended(flow, sk, ens, table, now_us);
	recording = ccatune_recording(flow);
	if (!recording)
		return;
	ccatune_begin_recall(recording, &r, flow, ens, table, params, id, now_us);
	ens_flow_put_outcome(&r, ens, set, id);
	ccatune_record(recording, &r);
}

#endif /* CCATUNE_RECALL_H */
