/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A CUBIC flow that follows an ensemble. It consists of the algorithm's state, the epoch clock
 * (ensemble_flow.h) and the parameter set in force.
 *
 *   axes    throughput level (PQSA eq. 1), least RTT of the connection
 *   delay   RTT sample - least RTT
 *
 * Epoch 0 is the flow's initial slow start. HyStart of a row therefore only applies to a slow
 * start after a timeout.
 *
 * The cubic function contains C, and K is derived from it. If a row has another C, the growth
 * restarts at the present window, as after a loss: K is computed anew for the new C. Otherwise
 * W_cubic(t) would jump.
 */
#ifndef CCA_CUBIC_ENSEMBLE_H
#define CCA_CUBIC_ENSEMBLE_H

#include "cubic.h"
#include "ensemble_recording.h"

enum cubic_axis {
#define CCA_ONLY CCA_ID_cubic
#define CCA_AXIS(algorithm, name, meaning) CUBIC_AXIS_##name,
#include "params.def"
};

struct cubic_flow {
	struct cubic_state cubic;
	struct ens_flow ens;
	struct cubic_params params;	/* in force */
	u32 min_rtt_us;			/* of the connection; 0: unknown */
	u32 curve_c_permille;		/* C that K was computed with */
};

CCA_FN void cubic_flow_init(struct cubic_flow *f, const struct cubic_params *defaults,
			    const struct cca_start *start, u8 delay_class, u32 hash)
{
	f->params = *defaults;
	f->min_rtt_us = 0;
	f->curve_c_permille = defaults->c_permille;
	ens_note_rtt(&f->min_rtt_us, start->rtt_us);
	ens_flow_init(&f->ens, start, delay_class, hash);
	cubic_init(&f->cubic, &f->params, start);
}

/* The flow's value on the axis with this number in params.def. */
CCA_FN u64 cubic_axis_value(const struct cubic_flow *f, u32 axis)
{
	return axis == CUBIC_AXIS_min_rtt_us ? f->min_rtt_us : f->ens.clock.measured_bytes_per_s;
}

CCA_FN void cubic_flow_took_row(struct cubic_flow *f)
{
	if (f->params.c_permille != f->curve_c_permille)
		f->cubic.in_epoch = false;
	f->curve_c_permille = f->params.c_permille;
}

ENS_FLOW_FUNCTIONS(cubic, cubic_flow_took_row)

/* table, defaults: read only at the end of an epoch. */
CCA_FN void cubic_flow_on_ack(struct cubic_flow *f, const struct cubic_params *defaults,
			      const struct ens_table *table, const struct cca_ack *ack,
			      struct cca_window *w)
{
	bool in_slow_start;

	cubic_on_ack(&f->cubic, &f->params, ack, w);
	in_slow_start = w->cwnd_pkts < w->ssthresh_pkts;
	ens_note_rtt(&f->min_rtt_us, ack->rtt_us);
	if (ens_flow_on_ack(&f->ens, ack, ens_queueing_delay_us(f->min_rtt_us, ack->rtt_us),
			    in_slow_start))
		cubic_flow_end_epoch(f, defaults, table, ack->now_us);
}

CCA_FN void cubic_flow_on_event(struct cubic_flow *f, const struct cca_event *ev)
{
	ens_flow_on_event(&f->ens, ev);
	cubic_on_event(&f->cubic, ev);
}

/* The part of a record after its input: whether growth has begun, W_max, epoch and parameters. */
CCA_FN void cubic_put_outcome(struct rec_record *r, const struct cubic_flow *f)
{
	r->mode = f->cubic.in_epoch;
	r->word[REC_RESULT] = f->cubic.w_max_pkts;
	ens_flow_put_outcome(r, &f->ens, &f->params, CCA_ID_cubic);
}

#endif /* CCA_CUBIC_ENSEMBLE_H */
