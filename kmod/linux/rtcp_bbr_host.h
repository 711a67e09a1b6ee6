/* SPDX-License-Identifier: GPL-2.0 */
/* R-TCP over BBR version 1 (kmod/core/rtcp.h) as control_ops.h requires an algorithm. */
#ifndef CCATUNE_RTCP_BBR_HOST_H
#define CCATUNE_RTCP_BBR_HOST_H

#define RTCP_OVER(name) rtcp_bbr1_##name
#define ALG_SINGLE_BELOW 150000u	/* bytes/s, 1.2 Mbit/s; keeps slow pacing even */
#define rtcp_base_modes bbr1_modes

#include "rtcp_paced.h"

#endif /* CCATUNE_RTCP_BBR_HOST_H */
