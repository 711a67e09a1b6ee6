/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The part of a record that a ROCCET flow fills after its input: the phase, srRTT, epoch
 * and parameter set after it. An ACK's record has the window before and after the ACK.
 * Hosts of window mode do not know the two numbers of the sampled packet (tx_inflight_pkts,
 * lost_since_pkts), so the window uses their words.
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

CCA_FN void roccet_put_windows(struct rec_record *r, const struct cca_window *before,
			       const struct cca_window *after)
{
	rec_put_window(r, before);
	rec_put_window_after(r, after);
}

CCA_FN void roccet_get_ack(const struct rec_record *r, struct cca_ack *ack, struct cca_window *w)
{
	rec_get_ack(r, ack);
	rec_get_window(r, w);
	ack->tx_inflight_pkts = 0;
	ack->lost_since_pkts = 0;
}

#endif /* CCA_ROCCET_RECORDING_H */
