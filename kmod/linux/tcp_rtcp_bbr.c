// SPDX-License-Identifier: GPL-2.0
/* tcp_rtcp_bbr.ko: BBR version 1 with a pacing rate that R-TCP caps (kmod/core/rtcp.h). */
#define CCATUNE_ALGORITHM rtcp_bbr

#include "ccatune.h"
#include "show.h"
#include "rtcp_bbr_host.h"
#include "module.h"

MODULE_DESCRIPTION("TCP R-TCP over BBR: pacing that stays within a client's rate limit");
