/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What a flow that follows an ensemble puts into a record, whatever its algorithm:
 * with each ACK what its turn read, and behind it what the flow stands on.
 */
#ifndef CCA_ENSEMBLE_RECORDING_H
#define CCA_ENSEMBLE_RECORDING_H

#include "ensemble_flow.h"
#include "recording.h"

/*
 * An ACK and what came of it. table and params are read at a turn alone, and
 * named there: the generation of the table (0: none), the parameters' version.
 */
CCA_FN void ens_flow_put_ack(struct rec_record *r, const struct ens_flow *f,
			     const struct cca_ack *ack, u64 table, u32 params)
{
	rec_put_ack(r, ack);
	r->delay_class = f->clock.delay_class;
	if (f->turn == ENS_WAITED)
		return;
	r->table = table;
	r->params = params;
}

/* Rows are recalled, and the flow looked its row up: what the turn read, as of an ACK. */
CCA_FN void ens_flow_put_recall(struct rec_record *r, const struct ens_flow *f, u64 table,
				u32 params)
{
	r->delay_class = f->clock.delay_class;
	r->table = table;
	r->params = params;
}

/* set: the parameter set in force, of the algorithm with that id. */
CCA_FN void ens_flow_put_outcome(struct rec_record *r, const struct ens_flow *f,
				 const void *set, u32 id)
{
	r->turn = f->turn;
	r->held_back = f->held_back;
	r->word[REC_STATE] = f->clock.state;
	r->word[REC_EPOCH] = f->clock.epoch;
	r->word[REC_SET_OUT] = rec_set_sum(set, id);
}

#endif /* CCA_ENSEMBLE_RECORDING_H */
