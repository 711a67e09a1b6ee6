// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_rtcp_bbr.ko: BBR version 1 with a pacing rate that R-TCP caps behind a rate limiter.
 * tcp_rtcp_paced.h has the functions.
 */
#include "tcp_rtcp.h"

#define PACED_ID CCA_ID_rtcp_bbr
#define PACED_NAME "rtcp_bbr"
#define PACED_SINGLE_BELOW 150000u	/* bytes/s, 1.2 Mbit/s; keeps slow pacing even */
#define paced_kflow rtcp_bbr1_kflow
#define paced_flow_init rtcp_bbr1_flow_init
#define paced_flow_on_ack rtcp_bbr1_flow_on_ack
#define paced_flow_on_event rtcp_bbr1_flow_on_event
#define paced_put_outcome rtcp_bbr1_put_outcome
#define paced_modes bbr1_modes

#include "tcp_rtcp_paced.h"

module_init(paced_register);
module_exit(paced_unregister);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);
MODULE_DESCRIPTION("TCP R-TCP over BBR: pacing that stays within a client's rate limit");
