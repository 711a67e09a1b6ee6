// SPDX-License-Identifier: GPL-2.0
/* tcp_roccet.ko: ROCCET (kmod/core/roccet.h) as a congestion control of Linux. */
#define CCATUNE_ALGORITHM roccet

#include "ccatune.h"
#include "show.h"
#include "roccet_host.h"
#include "module.h"

MODULE_DESCRIPTION("TCP ROCCET: CUBIC that takes round trips that grow for congestion too");
