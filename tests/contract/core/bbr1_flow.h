/* SPDX-License-Identifier: MIT */
/* BBRv1 for tests: round trip by round trip and on a path. */
#ifndef TESTS_BBR1_FLOW_H
#define TESTS_BBR1_FLOW_H

#define ONLY_ID BBR_ALONE
#include "path.h"

static struct flow f;
static struct path r;

static inline void open_bbr1(u32 rtt_us, u32 hash)
{
	struct cca_start start = { SECOND, rtt_us, 10, 0, MSS };

	open_flow(&f, BBR_ALONE, &start, hash);
	f.ack.inflight_pkts = 100;
}

/* 100 packets in 50 ms (2,896,000 bytes/s), in PROBE_BW. */
static inline void open_probe_bw(u32 hash)
{
	u32 i;

	open_bbr1(50 * MS, hash);
	for (i = 0; i < 4; i++)
		take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr.mode, BBR1_PROBE_BW);
}

/* 0.6 ms a packet: 20 Mbit/s of 1500 bytes. */
static inline void open_run(u32 base_rtt_us, u32 buffer_pkts, u32 hash)
{
	struct cca_start start;

	path_open(&r, 600, base_rtt_us, buffer_pkts);
	start = path_start(&r);
	open_flow(&r.f, BBR_ALONE, &start, hash);
}

#endif /* TESTS_BBR1_FLOW_H */
