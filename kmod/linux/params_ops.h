/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Passes the events of a socket to an algorithm that follows no table, in window mode. The flow
 * keeps the parameters that it began with, and is not recorded. Compare table_ops.h.
 */
#ifndef CCATUNE_PARAMS_OPS_H
#define CCATUNE_PARAMS_OPS_H

struct ops_windows {
	struct cca_window before, after;
};

#define ops_before_sending(f, sk) do { } while (0)
#define ops_read_tx_start(sk, f, kind) ccatune_read_tx_start(sk, kind)
#define ops_forget_losses(sk, f) do { } while (0)

/* Only what such an algorithm reads. Each ACK is an event for it. */
static inline bool ops_read_ack(struct alg_flow *f, const struct sock *sk,
				const struct ack_sample *sample, struct cca_ack *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	memset(ack, 0, sizeof(*ack));
	ack->now_us = tp->tcp_mstamp;
	ack->rtt_us = ccatune_rtt_us(sample->rtt_us);
	ack->inflight_pkts = tcp_packets_in_flight(tp);
	ack->delivered_pkts = tp->delivered;
	return true;
}

static inline void ops_on_ack(struct alg_flow *f, const struct sock *sk, const struct cca_ack *ack,
			      struct ops_windows *w)
{
	alg_on_ack(f, ack, &w->after);
}

static inline u32 ops_call(struct alg_flow *f, const struct sock *sk, enum rec_kind kind,
			   struct ops_windows *w, u32 acked_pkts)
{
	if (kind == REC_SSTHRESH)
		return alg_ssthresh(f, &w->after);
	if (kind == REC_UNDO)
		return alg_undo(f, &w->after);
	alg_grow(f, &w->after, acked_pkts);
	return 0;
}

static void ops_on_event(struct alg_flow *f, const struct sock *sk, enum cca_event_kind kind)
{
	struct cca_event ev;

	ccatune_read_event(sk, kind, &ev);
	alg_on_event(f, &ev);
}

#ifndef alg_params_of
#define alg_params_of(f) ((const struct alg_params *)ccatune_flow_params(&(f)->head)->value)
#endif

static void ops_begin(struct alg_flow *f, const struct sock *sk, struct ops_windows *w)
{
	struct cca_start start;

	ccatune_read_start(sk, &start);
	alg_init(f, alg_params_of(f), &start);
}

#endif /* CCATUNE_PARAMS_OPS_H */
