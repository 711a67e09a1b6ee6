/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a host in the kernel keeps for a flow: its own part (struct ccatune_flow), the core's, and
 * what was decided last. ccatune-bpf reads these from the map of flows. The includer has defined
 * struct ccatune_flow.
 */
#ifndef CCATUNE_KFLOW_H
#define CCATUNE_KFLOW_H

#include "gr_flow.h"
#include "roccet_flow.h"

/* State at the last ACK that was passed to the core. */
struct ccatune_last_ack {
	u32 delivered_pkts;
	u32 lost_pkts;
	u32 limited_pkts;	/* delivered count up to which packets are application-limited */
	bool begun;
};

struct gr_kflow {
	struct ccatune_flow head;
	struct gr_flow gr;
	struct cca_decision decision;
	u32 queueing_delay_us;
};

struct roccet_kflow {
	struct ccatune_flow head;
	struct roccet_flow roccet;
	struct ccatune_last_ack last_ack;
	u32 queueing_delay_us;
};

#endif /* CCATUNE_KFLOW_H */
