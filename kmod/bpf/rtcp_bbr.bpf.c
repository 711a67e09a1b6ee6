// SPDX-License-Identifier: GPL-2.0
/*
 * R-TCP over BBR version 1 (kmod/core/rtcp.h) as a congestion control of Linux in BPF. Each
 * connection has a client of its own. rtcp_paced.h has the functions.
 */
#define CCATUNE_ID CCA_ID_rtcp_bbr
#define PACED_ID CCATUNE_ID
#define PACED_NAME "rtcp_bbr"
#define PACED_SINGLE_BELOW 150000u	/* bytes/s, 1.2 Mbit/s; keeps slow pacing even */
#define paced_kflow rtcp_bbr1_kflow
#define paced_flow_init rtcp_bbr1_flow_init
#define paced_flow_on_ack rtcp_bbr1_flow_on_ack
#define paced_flow_on_event rtcp_bbr1_flow_on_event
#define paced_put_outcome rtcp_bbr1_put_outcome

#include "rtcp_paced.h"
