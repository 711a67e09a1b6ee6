// SPDX-License-Identifier: GPL-2.0
/* tcp_rtcp_cubic.ko: CUBIC with a window that R-TCP caps (kmod/core/rtcp.h). */
#define CCATUNE_ALGORITHM rtcp_cubic
#define CCATUNE_PLAIN_NAME "rtcp-plain"	/* a name has at most 15 characters */

#include "ccatune.h"
#include "show.h"
#include "rtcp_cubic_host.h"
#include "module.h"

MODULE_DESCRIPTION("TCP R-TCP over CUBIC: a window that stays within a client's rate limit");
