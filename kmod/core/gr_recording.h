/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The part of a record that a GR flow fills after its input: the decision, and the
 * mode, epoch and parameter set after it.
 */
#ifndef CCA_GR_RECORDING_H
#define CCA_GR_RECORDING_H

#include "ensemble_recording.h"
#include "gr_flow.h"

CCA_FN void gr_put_outcome(struct rec_record *r, const struct gr_flow *f,
			   const struct cca_decision *d)
{
	rec_put_decision(r, d);
	r->mode = f->gr.mode;
	ens_flow_put_outcome(r, &f->ens, &f->params, CCA_ID_gr);
}

#endif /* CCA_GR_RECORDING_H */
