// SPDX-License-Identifier: GPL-2.0
/* tcp_ccatune_bbr3.ko: BBR version 3 (kmod/core/bbr3.h) as a congestion control of Linux. */
#define CCATUNE_ALGORITHM bbr3

#include "ccatune.h"
#include "show.h"
#include "bbr3_host.h"
#include "module.h"

MODULE_DESCRIPTION("TCP BBR version 3 whose parameters follow the network state");
