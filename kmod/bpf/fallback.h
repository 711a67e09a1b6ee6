/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reno (kmod/core/reno.h) for a socket that has no flow and could not be given to another algorithm
 * of the kernel (ccatune_fall_back() in ccatune.h): a route has fixed its algorithm. It keeps no
 * state.
 */
#ifndef CCATUNE_BPF_FALLBACK_H
#define CCATUNE_BPF_FALLBACK_H

#include "reno.h"
#include "window.h"

static inline void ccatune_plain_grow(struct sock *sk, u32 acked_pkts)
{
	struct reno_state none;
	struct cca_window w;

	if (ccatune_is_reduced(ccatune_ca_state(sk)) || !tcp_is_cwnd_limited(sk))
		return;
	ccatune_read_window(sk, &w);
	reno_grow(&none, &w, acked_pkts);
	ccatune_write_window(sk, &w);
}

/* In control mode the kernel leaves the window alone, also where a recovery begins. */
static inline void ccatune_plain_set_state(struct sock *sk, u8 new_state)
{
	if (ccatune_is_reduced(new_state) && !ccatune_is_reduced(ccatune_ca_state(sk)))
		tcp_snd_cwnd_set(tcp_sk(sk), tcp_reno_ssthresh(sk));
}

#endif /* CCATUNE_BPF_FALLBACK_H */
