/* SPDX-License-Identifier: GPL-2.0 */
/* ROCCET (kmod/core/roccet.h) as window_ops.h requires an algorithm. */
#ifndef CCATUNE_ROCCET_HOST_H
#define CCATUNE_ROCCET_HOST_H

#include "no_client.h"
#include "roccet_recording.h"

#define ALG_WINDOW 1
#define alg_params roccet_params

struct alg_flow {
	struct ccatune_flow head;
	struct roccet_flow core;
	struct ccatune_last_ack last_ack;
	u32 queueing_delay_us;
};

#define alg_ens(f) (&(f)->core.ens)
#define alg_set(f) (&(f)->core.params)

static inline void alg_init(struct alg_flow *f, const struct roccet_params *defaults,
			    const struct cca_start *start, u8 delay_class)
{
	roccet_flow_init(&f->core, defaults, start, delay_class, f->head.hash);
}

static inline void alg_on_ack(struct alg_flow *f, const struct roccet_params *defaults,
			      const struct ens_table *table, const struct cca_ack *ack,
			      struct cca_window *w)
{
	roccet_flow_on_ack(&f->core, defaults, table, ack, w);
}

static inline void alg_grow(struct alg_flow *f, struct cca_window *w, u32 acked_pkts)
{
	roccet_flow_grow(&f->core, w, acked_pkts);
}

static inline u32 alg_ssthresh(struct alg_flow *f, struct cca_window *w)
{
	return roccet_flow_ssthresh(&f->core, w);
}

static inline u32 alg_undo(struct alg_flow *f, const struct cca_window *w)
{
	return roccet_flow_undo(&f->core, w);
}

static inline void alg_on_event(struct alg_flow *f, const struct cca_event *ev)
{
	roccet_flow_on_event(&f->core, ev);
}

static inline void alg_recall(struct alg_flow *f, const struct roccet_params *defaults,
			      const struct ens_table *table, u64 now_us)
{
	roccet_flow_recall(&f->core, defaults, table, now_us);
}

static inline u32 alg_queueing_delay_us(const struct alg_flow *f, u32 rtt_us)
{
	return roccet_queueing_delay_us(&f->core.roccet, rtt_us);
}

static inline void alg_put_outcome(struct rec_record *r, const struct alg_flow *f)
{
	roccet_put_outcome(r, &f->core);
}

#ifdef CCATUNE_SHOW_H

static inline const char *roccet_mode(const struct roccet_state *s)
{
	static const char *const phases[] = {
		[ROCCET_NO_PHASE] = "waiting",
		[ROCCET_LAUNCH] = "launch",
		[ROCCET_ORBITER] = "orbiter",
	};

	if (READ_ONCE(s->in_recovery))
		return "recovery";
	if (READ_ONCE(s->drains))
		return "drain";
	return ccatune_name(CCATUNE_NAMES(phases), READ_ONCE(s->phase));
}

static inline void alg_view(const struct alg_flow *f, struct ccatune_view *view)
{
	view->mode = roccet_mode(&f->core.roccet);
	view->min_rtt_us = READ_ONCE(f->core.roccet.min_rtt_us);
}

/*
 * srrtt_q16 is at most 2^28, so the product fits into 64 bits. The sums are those of the current
 * interval, up to the end of its last round trip.
 */
static inline void alg_show(struct seq_file *m, const struct alg_flow *f)
{
	const struct roccet_state *s = &f->core.roccet;

	seq_printf(m, " srrtt_permille=%llu jitter_us=%u",
		   (unsigned long long)READ_ONCE(s->srrtt_q16) * 1000 >> 16,
		   READ_ONCE(s->jitter_us_q4) >> 4);
	seq_printf(m, " interval_acked_pkts=%llu interval_windows_pkts=%llu launches=%u events=%u",
		   (unsigned long long)READ_ONCE(s->acked_q8) >> 8,
		   (unsigned long long)READ_ONCE(s->windows_q8) >> 8, READ_ONCE(s->launches),
		   READ_ONCE(s->events));
}

#endif

#endif /* CCATUNE_ROCCET_HOST_H */
