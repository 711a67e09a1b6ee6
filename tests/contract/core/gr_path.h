/* SPDX-License-Identifier: MIT */
/* GR for tests: ACK by ACK and on a path. */
#ifndef TESTS_GR_PATH_H
#define TESTS_GR_PATH_H

#define ONLY_ID GR_ALONE
#include "path.h"

static struct flow f;
static struct path loop;

static inline void open_gr(struct flow *flow, u64 now_us, u32 delivered_pkts, u32 rtt_us)
{
	struct cca_start start = { now_us, rtt_us, 10, delivered_pkts, MSS };

	open_flow(flow, GR_ALONE, &start, 0);
	flow->p.gr.bandwidth_window_us = 20 * MS;
	flow->ack.inflight_pkts = 10;
}

/* A packet a millisecond at this RTT, slow start left by a loss: B is 1448000 bytes/s. */
#define CRUISE_BYTES_PER_S 1448000u

static inline void open_cruise(u32 rtt_us)
{
	open_gr(&f, SECOND, 0, rtt_us);
	take_acks(&f, 50, MS, rtt_us);
	f.ack.lost_pkts = 1;
	take_ack(&f, MS, 1, rtt_us);
	CHECK_EQ(f.gr_alone.mode, GR_CRUISE);
	CHECK_EQ(f.d.pacing_bytes_per_s, CRUISE_BYTES_PER_S);
}

/* The buffer has no end. */
static inline void loop_open(u32 pkt_time_us, u32 base_rtt_us)
{
	path_open(&loop, pkt_time_us, base_rtt_us, 0xffffffffu);
	open_gr(&loop.f, SECOND, 0, base_rtt_us);
}

#endif /* TESTS_GR_PATH_H */
