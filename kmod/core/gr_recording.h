/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What a flow under GR puts into a record beside its input: the decision, and
 * what the flow stands on behind it.
 */
#ifndef CCA_GR_RECORDING_H
#define CCA_GR_RECORDING_H

#include "gr_flow.h"
#include "recording.h"

CCA_FN void gr_put_outcome(struct rec_record *r, const struct gr_flow *f,
			   const struct cca_decision *d)
{
	rec_put_decision(r, d);
	r->mode = f->gr.mode;
	r->turn = f->turn;
	r->held_back = f->held_back;
	r->word[REC_STATE] = f->clock.state;
	r->word[REC_EPOCH] = f->clock.epoch;
	r->word[REC_SET_OUT] = rec_set_sum(&f->params, CCA_ID_gr);
}

/*
 * An ACK and what came of it. table and params are read at a turn alone, and
 * named there: the generation of the table (0: none), the parameters' version.
 */
CCA_FN void gr_put_ack(struct rec_record *r, const struct gr_flow *f, const struct cca_ack *ack,
		       u64 table, u32 params)
{
	rec_put_ack(r, ack);
	r->delay_class = f->clock.delay_class;
	if (f->turn == ENS_WAITED)
		return;
	r->table = table;
	r->params = params;
}

#endif /* CCA_GR_RECORDING_H */
