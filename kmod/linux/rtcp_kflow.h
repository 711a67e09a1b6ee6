/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a host in the kernel keeps for an R-TCP flow (as kflow.h). The includer has defined struct
 * ccatune_flow, and struct rtcp_member: how the flow finds its client.
 */
#ifndef CCATUNE_RTCP_KFLOW_H
#define CCATUNE_RTCP_KFLOW_H

#include "kflow.h"
#include "rtcp_ensemble.h"
#include "sent_log.h"

struct rtcp_kflow {
	struct ccatune_flow head;
	struct rtcp_member member;
	u32 queueing_delay_us;
};

struct rtcp_cubic_kflow {
	struct rtcp_kflow shared;
	struct rtcp_cubic_flow cubic;
	struct ccatune_last_ack last_ack;
};

struct rtcp_bbr1_kflow {
	struct rtcp_kflow shared;
	struct rtcp_bbr1_flow bbr;
	struct cca_decision decision;
	u8 seen_state;			/* the kernel's state at the last ACK or timeout */
};

struct rtcp_bbr3_kflow {
	struct rtcp_kflow shared;
	struct rtcp_bbr3_flow bbr;
	struct cca_decision decision;
	u8 seen_state;
	struct cca_sent_log sent;
};

#endif /* CCATUNE_RTCP_KFLOW_H */
