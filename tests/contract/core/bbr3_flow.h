/* SPDX-License-Identifier: MIT */
/* BBRv3 for tests: round trip by round trip and on a path. */
#ifndef TESTS_BBR3_FLOW_H
#define TESTS_BBR3_FLOW_H

#define ONLY_ID BBR3_ALONE
#include "path.h"

static struct flow f;
static struct path r;

static inline void open_bbr3(u32 rtt_us)
{
	struct cca_start start = { SECOND, rtt_us, 10, 0, MSS };

	open_flow(&f, BBR3_ALONE, &start, 1);
	f.ack.inflight_pkts = 100;
	f.ack.tx_inflight_pkts = 100;
}

/* The next packet lost of tx_inflight_pkts, lost_since_pkts of which are by now. */
static inline void take_loss(u32 tx_inflight_pkts, u32 lost_since_pkts)
{
	struct cca_loss loss = { f.ack.now_us, f.ack.delivered_pkts, tx_inflight_pkts, lost_since_pkts, 0 };

	bbr3_on_loss(&f.bbr3, &f.p.bbr3, &loss);
	f.ack.lost_pkts++;
}

/* 100 packets in 50 ms (2,896,000 bytes/s), in a state of ProbeBW. */
static inline void open_in(enum bbr3_mode mode)
{
	u32 i;

	open_bbr3(50 * MS);
	f.ack.inflight_pkts = 150;
	/* Four to see a full pipe, four in Drain, which this queue does not end. */
	for (i = 0; i < 8; i++)
		take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_DOWN);
	if (mode == BBR3_DOWN)
		return;
	f.ack.inflight_pkts = 100;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_CRUISE);
	if (mode == BBR3_CRUISE)
		return;
	f.bbr3.probe_wait_us = 0;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_REFILL);
	if (mode == BBR3_REFILL)
		return;
	take_round(&f, 100, 50 * MS);
	CHECK_EQ(f.bbr3.mode, BBR3_UP);
}

/* 0.6 ms a packet: 20 Mbit/s of 1500 bytes. */
static inline void open_run(u32 base_rtt_us, u32 buffer_pkts)
{
	struct cca_start start;

	path_open(&r, 600, base_rtt_us, buffer_pkts);
	start = path_start(&r);
	open_flow(&r.f, BBR3_ALONE, &start, 1);
}

#endif /* TESTS_BBR3_FLOW_H */
