// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_rtcp_bbr3.ko: BBR version 3 with a pacing rate that R-TCP caps behind a rate limiter.
 * tcp_rtcp_paced.h has the functions. The flow keeps its own log of the packets in flight when a
 * packet was sent.
 */
#include "tcp_rtcp.h"

#define PACED_ID CCA_ID_rtcp_bbr3
#define PACED_NAME "rtcp_bbr3"
#define paced_kflow rtcp_bbr3_kflow
#define paced_flow_init rtcp_bbr3_flow_init
#define paced_flow_on_ack rtcp_bbr3_flow_on_ack
#define paced_flow_on_event rtcp_bbr3_flow_on_event
#define paced_flow_on_loss rtcp_bbr3_flow_on_loss
#define paced_put_outcome rtcp_bbr3_put_outcome
#define paced_modes bbr3_modes

#include "tcp_rtcp_paced.h"

module_init(paced_register);
module_exit(paced_unregister);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);
MODULE_DESCRIPTION("TCP R-TCP over BBR version 3: pacing that stays within a client's rate limit");
