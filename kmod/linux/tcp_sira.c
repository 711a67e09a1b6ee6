// SPDX-License-Identifier: GPL-2.0
/* tcp_sira.ko: SIRA and SIRA-H (kmod/core/sira.h) as a congestion control of Linux. */
#define CCATUNE_ALGORITHM sira

#include "ccatune.h"
#include "show.h"
#include "sira_host.h"
#include "module.h"

MODULE_DESCRIPTION("TCP SIRA: the rate of the ACKs of a sliding window, less if the delay is high");
