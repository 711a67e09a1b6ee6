// SPDX-License-Identifier: GPL-2.0
/*
 * R-TCP over BBR version 3 (kmod/core/rtcp.h) as a congestion control of Linux in BPF. Each
 * connection has a client of its own. rtcp_paced.h has the functions.
 */
#define CCATUNE_ID CCA_ID_rtcp_bbr3
#define PACED_ID CCATUNE_ID
#define PACED_NAME "rtcp_bbr3"
#define paced_flow_on_loss rtcp_bbr3_flow_on_loss
#define paced_kflow rtcp_bbr3_kflow
#define paced_flow_init rtcp_bbr3_flow_init
#define paced_flow_on_ack rtcp_bbr3_flow_on_ack
#define paced_flow_on_event rtcp_bbr3_flow_on_event
#define paced_put_outcome rtcp_bbr3_put_outcome

#include "rtcp_paced.h"
