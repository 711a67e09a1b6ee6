/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The part of a record that a ROCCET flow fills after its input: the phase, srRTT, epoch
 * and parameter set after it.
 */
#ifndef CCA_ROCCET_RECORDING_H
#define CCA_ROCCET_RECORDING_H

#include "ensemble_recording.h"
#include "roccet_flow.h"

CCA_FN void roccet_put_outcome(struct rec_record *r, const struct roccet_flow *f)
{
	r->mode = f->roccet.phase;
	r->word[REC_RESULT] = f->roccet.srrtt_q16;
	ens_flow_put_outcome(r, &f->ens, &f->params, CCA_ID_roccet);
}

#endif /* CCA_ROCCET_RECORDING_H */
