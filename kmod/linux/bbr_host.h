/* SPDX-License-Identifier: GPL-2.0 */
/* BBR version 1 (kmod/core/bbr1.h) as control_ops.h requires an algorithm. */
#ifndef CCATUNE_BBR_HOST_H
#define CCATUNE_BBR_HOST_H

#ifdef CCATUNE_BPF_H
#include "../bpf/bbr_parts.h"
#endif

#include "bbr_ensemble.h"

#define BBR(name) bbr1_##name
#define ALG_SINGLE_BELOW 150000u	/* bytes/s, 1.2 Mbit/s; keeps slow pacing even */

static const char *const bbr_modes[] __attribute__((unused)) = {
	[BBR1_STARTUP] = "startup",
	[BBR1_DRAIN] = "drain",
	[BBR1_PROBE_BW] = "probe_bw",
	[BBR1_PROBE_RTT] = "probe_rtt",
};

#include "bbr_paced.h"

#endif /* CCATUNE_BBR_HOST_H */
