/* SPDX-License-Identifier: MIT */
/* CUBIC ACK by ACK, for tests, without losses of its own. */
#ifndef TESTS_CUBIC_FLOW_H
#define TESTS_CUBIC_FLOW_H

#define ONLY_ID CUBIC_ALONE
#include "path.h"

static struct flow f;

static inline void open_cubic(u32 cwnd_pkts, u32 ssthresh_pkts)
{
	struct cca_start start = { SECOND, 0, cwnd_pkts, 0, MSS };

	open_flow(&f, CUBIC_ALONE, &start, 0);
	f.w.ssthresh_pkts = ssthresh_pkts;
}

/* A window's worth of ACKs, spread over the round trip. */
static inline void take_window(u32 rtt_us)
{
	u32 acks = cca_max_u32(f.w.cwnd_pkts, 1), i;

	for (i = 0; i < acks; i++)
		take_ack(&f, rtt_us * (i + 1) / acks - rtt_us * i / acks, 1, rtt_us);
}

static inline void lose(void)
{
	f.w.cwnd_pkts = f.w.ssthresh_pkts = flow_ssthresh(&f);
}

#endif /* TESTS_CUBIC_FLOW_H */
