/* SPDX-License-Identifier: GPL-2.0 */
/* BBR version 3 (kmod/core/bbr3.h) as control_ops.h requires an algorithm. */
#ifndef CCATUNE_BBR3_HOST_H
#define CCATUNE_BBR3_HOST_H

#ifdef CCATUNE_BPF_H
#include "../bpf/bbr_parts.h"
#endif

#include "bbr_ensemble.h"

#define BBR(name) bbr3_##name
#define ALG_LEARNS_FROM_LOSSES

static const char *const bbr_modes[] __attribute__((unused)) = {
	[BBR3_STARTUP] = "startup",
	[BBR3_DRAIN] = "drain",
	[BBR3_DOWN] = "down",
	[BBR3_CRUISE] = "cruise",
	[BBR3_REFILL] = "refill",
	[BBR3_UP] = "up",
	[BBR3_PROBE_RTT] = "probe_rtt",
};

#include "bbr_paced.h"

#endif /* CCATUNE_BBR3_HOST_H */
