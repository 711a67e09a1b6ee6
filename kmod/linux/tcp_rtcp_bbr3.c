// SPDX-License-Identifier: GPL-2.0
/* tcp_rtcp_bbr3.ko: BBR version 3 with a pacing rate that R-TCP caps (kmod/core/rtcp.h). */
#define CCATUNE_ALGORITHM rtcp_bbr3

#include "ccatune.h"
#include "show.h"
#include "rtcp_bbr3_host.h"
#include "module.h"

MODULE_DESCRIPTION("TCP R-TCP over BBR version 3: pacing that stays within a client's rate limit");
