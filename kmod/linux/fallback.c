// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control of a socket that has no flow, because there was no memory or `max_flows`
 * was reached. It is CUBIC (kmod/core/cubic.h) with its defaults. Its state fits into the socket,
 * so no allocation can fail. There is no table, no epoch and no recording, and `flows` does not
 * show the socket.
 *
 * CUBIC is also the base of ROCCET and of R-TCP over CUBIC. The states of BBR (224 bytes, 280 in
 * version 3) and GR (640 bytes) do not fit into a socket, so sockets of those modules fall back
 * to CUBIC, too. Each module has a copy of the operations (module.h).
 */
#include "ccatune.h"
#include "cubic.h"

#define ALG_WINDOW 1
#define ALG_NO_TABLE

/* The socket's private area. */
struct alg_flow {
	struct cubic_state core;
};

static const struct cubic_params defaults = {
#define CCA_ONLY CCA_ID_cubic
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) .name = default,
#include "params.def"
};

#define alg_params_of(f) (&defaults)
#define alg_init(f, params, start) cubic_init(&(f)->core, params, start)
#define alg_on_ack(f, ack, w) cubic_on_ack(&(f)->core, &defaults, ack, w)
#define alg_grow(f, w, acked_pkts) cubic_grow(&(f)->core, &defaults, w, acked_pkts)
#define alg_ssthresh(f, w) cubic_ssthresh(&(f)->core, &defaults, w)
#define alg_undo(f, w) cubic_undo(&(f)->core, w)
#define alg_on_event(f, ev) cubic_on_event(&(f)->core, ev)
#define alg_copy_info(sk, f) do { } while (0)

static struct alg_flow *alg_flow_of(const struct sock *sk)
{
	return inet_csk_ca(sk);
}

#include "window_ops.h"

void ccatune_fallback_begin(struct sock *sk)
{
	BUILD_BUG_ON(sizeof(struct alg_flow) > ICSK_CA_PRIV_SIZE);
	ops_open(sk, alg_flow_of(sk));
}
EXPORT_SYMBOL_GPL(ccatune_fallback_begin);

const struct tcp_congestion_ops ccatune_fallback_ops = {
	.pkts_acked = ops_pkts_acked,
	.cong_avoid = ops_cong_avoid,
	.ssthresh = ops_ssthresh,
	.undo_cwnd = ops_undo_cwnd,
	.set_state = ops_set_state,
	.CCATUNE_TX_START_OP = ops_tx_start,
};
EXPORT_SYMBOL_GPL(ccatune_fallback_ops);
