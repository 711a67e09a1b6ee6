// SPDX-License-Identifier: GPL-2.0
/* tcp_ccatune_bbr.ko: BBR version 1 (kmod/core/bbr1.h) as a congestion control of Linux. */
#define CCATUNE_ALGORITHM bbr

#include "ccatune.h"
#include "show.h"
#include "bbr_host.h"
#include "module.h"

MODULE_DESCRIPTION("TCP BBR version 1 whose parameters follow the network state");
