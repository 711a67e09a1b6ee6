/* SPDX-License-Identifier: GPL-2.0 */
/*
 * R-TCP over BBR version 3 (kmod/core/rtcp.h) as control_ops.h requires an algorithm. The flow
 * keeps its own log of the packets in flight when a packet was sent.
 */
#ifndef CCATUNE_RTCP_BBR3_HOST_H
#define CCATUNE_RTCP_BBR3_HOST_H

#define RTCP_OVER(name) rtcp_bbr3_##name
#define ALG_LEARNS_FROM_LOSSES
#define rtcp_base_modes bbr3_modes

#include "rtcp_paced.h"

#endif /* CCATUNE_RTCP_BBR3_HOST_H */
