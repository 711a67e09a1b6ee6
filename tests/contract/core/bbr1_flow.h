/* SPDX-License-Identifier: MIT */
/* BBRv1 for tests: round trip by round trip, as a row wants it, and on a path. */
#ifndef TESTS_BBR1_FLOW_H
#define TESTS_BBR1_FLOW_H

#include "bbr1.h"

#include "control_path.h"

struct bbr1_flow {
	struct bbr1_state s;
	struct bbr1_params p;
	struct cca_ack ack;		/* the last one; a test may preset fields */
	struct cca_decision d;
};

/* The state holds garbage before: bbr1_init must not leave any of it to be read. */
static inline void open_bbr1(struct bbr1_flow *f, u32 rtt_us, u32 hash)
{
	struct cca_start start = { SECOND, rtt_us, 10, 0, MSS };

	memset(&f->s, 0xa5, sizeof(f->s));
	memset(&f->ack, 0, sizeof(f->ack));
	cca_params_init(&f->p, CCA_ID_bbr);
	f->ack.now_us = SECOND;
	f->ack.mss_bytes = MSS;
	f->ack.inflight_pkts = 100;
	bbr1_init(&f->s, &f->p, &start, hash, &f->d);
}

/* One ACK for a whole round trip, whose sample says pkts in rtt_us. */
static inline void take_round(struct bbr1_flow *f, u32 pkts, u32 rtt_us)
{
	f->ack.now_us += rtt_us;
	f->ack.rtt_us = rtt_us;
	f->ack.acked_pkts = pkts;
	f->ack.delivered_pkts += pkts;
	f->ack.rate_pkts = pkts;
	f->ack.rate_interval_us = rtt_us;
	bbr1_on_ack(&f->s, &f->p, &f->ack, &f->d);
	f->ack.lost_pkts = 0;
}

static inline void take_event(struct bbr1_flow *f, enum cca_event_kind kind, u32 inflight_pkts)
{
	struct cca_event ev = { kind, f->ack.now_us, inflight_pkts, f->d.cwnd_pkts, MSS };

	bbr1_on_event(&f->s, &f->p, &ev, &f->d);
}

/* 100 packets in 50 ms (2,896,000 bytes/s), in PROBE_BW. */
static inline void open_probe_bw(struct bbr1_flow *f, u32 hash)
{
	u32 i;

	open_bbr1(f, 50 * MS, hash);
	for (i = 0; i < 4; i++)
		take_round(f, 100, 50 * MS);
	CHECK_EQ(f->s.mode, BBR1_PROBE_BW);
}

/* --- on a path --------------------------------------------------------------- */

struct bbr1_run {
	struct bbr1_state s;
	struct bbr1_params p;
	struct path path;
};

static inline void bbr1_run_ack(void *run, const struct cca_ack *ack, struct cca_decision *d)
{
	struct bbr1_run *r = (struct bbr1_run *)run;

	bbr1_on_ack(&r->s, &r->p, ack, d);
}

static inline void bbr1_run_event(void *run, const struct cca_event *ev, struct cca_decision *d)
{
	struct bbr1_run *r = (struct bbr1_run *)run;

	bbr1_on_event(&r->s, &r->p, ev, d);
}

/* 0.6 ms a packet: 20 Mbit/s of 1500 bytes. */
static inline void open_run(struct bbr1_run *r, u32 base_rtt_us, u32 buffer_pkts, u32 hash)
{
	struct cca_start start;

	path_open(&r->path, 600, base_rtt_us, buffer_pkts);
	r->path.state = r;
	r->path.on_ack = bbr1_run_ack;
	r->path.on_event = bbr1_run_event;
	cca_params_init(&r->p, CCA_ID_bbr);
	start = path_start(&r->path);
	bbr1_init(&r->s, &r->p, &start, hash, &r->path.d);
}

#endif /* TESTS_BBR1_FLOW_H */
