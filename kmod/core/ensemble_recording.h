/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The part of a record that a flow with an ensemble fills, for any algorithm. With
 * each ACK it records the input of the end of an epoch, and the state after it.
 */
#ifndef CCA_ENSEMBLE_RECORDING_H
#define CCA_ENSEMBLE_RECORDING_H

#include "ensemble_flow.h"
#include "recording.h"

/*
 * Records an ACK. The flow reads the table and the host's parameters only at the end of an
 * epoch, so only then they are recorded. table: its generation (0: none). params: their
 * version.
 */
CCA_FN void ens_flow_put_ack(struct rec_record *r, const struct ens_flow *f,
			     const struct cca_ack *ack, u64 table, u32 params)
{
	rec_put_ack(r, ack);
	r->delay_class = f->clock.delay_class;
	if (f->epoch_end == ENS_WAITED)
		return;
	r->table = table;
	r->params = params;
}

/* Records a look-up after a recall of rows. table and params: as of ens_flow_put_ack(). */
CCA_FN void ens_flow_put_recall(struct rec_record *r, const struct ens_flow *f, u64 table,
				u32 params)
{
	r->delay_class = f->clock.delay_class;
	r->table = table;
	r->params = params;
}

/* Records the flow's state. set: the parameter set in force. id: CCA_ID_ of the algorithm. */
CCA_FN void ens_flow_put_outcome(struct rec_record *r, const struct ens_flow *f,
				 const void *set, u32 id)
{
	r->epoch_end = f->epoch_end;
	r->held_back = f->held_back;
	r->word[REC_STATE] = f->clock.state;
	r->word[REC_EPOCH] = f->clock.epoch;
	r->word[REC_SET_OUT] = rec_set_sum(set, id);
}

#endif /* CCA_ENSEMBLE_RECORDING_H */
