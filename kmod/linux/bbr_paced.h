/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Both versions of BBR (kmod/core/bbr1.h, bbr3.h) as control_ops.h requires an algorithm. The
 * includer has defined:
 *
 *   BBR(name)           the name of a function or a struct of the core for this version
 *   bbr_modes           the names of its modes
 *   ALG_SINGLE_BELOW    optional: rate below which it sends single packets
 *   ALG_LEARNS_FROM_LOSSES    optional: it has BBR(flow_on_loss)
 */
#ifndef CCATUNE_BBR_PACED_H
#define CCATUNE_BBR_PACED_H

#include "no_client.h"
#include "sent_log.h"

#define ALG_WINDOW 0
#define ALG_LOOKS_WITH_ACKS
#define ALG_SNDBUF_WINDOWS 3u		/* BBR may double its window even in recovery */
#define alg_params BBR(params)

struct alg_flow {
	struct ccatune_flow head;
	struct BBR(flow) core;
	struct cca_decision decision;
	u32 queueing_delay_us;
	u8 seen_state;			/* the kernel's state at the last ACK or timeout */
#ifdef ALG_LEARNS_FROM_LOSSES
	struct cca_sent_log sent;
#endif
};

#define alg_ens(f) (&(f)->core.ens)
#define alg_set(f) (&(f)->core.params)

static inline void alg_init(struct alg_flow *f, const struct alg_params *defaults,
			    const struct cca_start *start, u8 delay_class)
{
	BBR(flow_init)(&f->core, defaults, start, delay_class, f->head.hash, &f->decision);
}

static inline void alg_on_ack(struct alg_flow *f, const struct alg_params *defaults,
			      const struct ens_table *table, const struct cca_ack *ack,
			      struct cca_decision *d)
{
	BBR(flow_on_ack)(&f->core, defaults, table, ack, d);
}

static inline void alg_on_event(struct alg_flow *f, const struct cca_event *ev)
{
	BBR(flow_on_event)(&f->core, ev, &f->decision);
}

#ifdef ALG_LEARNS_FROM_LOSSES
static inline void alg_on_loss(struct alg_flow *f, const struct cca_loss *loss)
{
	BBR(flow_on_loss)(&f->core, loss);
}
#endif

static inline void alg_recall(struct alg_flow *f, const struct alg_params *defaults,
			      const struct ens_table *table, u64 now_us)
{
	BBR(flow_recall)(&f->core, defaults, table, now_us);
}

static inline u32 alg_queueing_delay_us(const struct alg_flow *f, u32 rtt_us)
{
	return ens_queueing_delay_us(f->core.min_rtt_us, rtt_us);
}

static inline void alg_put_outcome(struct rec_record *r, const struct alg_flow *f)
{
	BBR(put_outcome)(r, &f->core, &f->decision);
}

#ifdef CCATUNE_SHOW_H

static inline void alg_view(const struct alg_flow *f, struct ccatune_view *view)
{
	view->mode = ccatune_name(CCATUNE_NAMES(bbr_modes), READ_ONCE(f->core.bbr.mode));
	view->pacing_bytes_per_s = READ_ONCE(f->decision.pacing_bytes_per_s);
	view->min_rtt_us = READ_ONCE(f->core.min_rtt_us);
}

#define alg_show(m, f) do { } while (0)

#endif

#endif /* CCATUNE_BBR_PACED_H */
