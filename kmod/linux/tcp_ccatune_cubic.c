// SPDX-License-Identifier: GPL-2.0
/* tcp_ccatune_cubic.ko: CUBIC (kmod/core/cubic.h) as a congestion control of Linux. */
#define CCATUNE_ALGORITHM cubic

#include "ccatune.h"
#include "show.h"
#include "cubic_host.h"
#include "module.h"

MODULE_DESCRIPTION("TCP CUBIC whose parameters follow the network state");
