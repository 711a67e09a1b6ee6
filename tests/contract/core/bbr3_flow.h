/* SPDX-License-Identifier: MIT */
/* BBRv3 for tests: round trip by round trip, as a row wants it, and on a path. */
#ifndef TESTS_BBR3_FLOW_H
#define TESTS_BBR3_FLOW_H

#include "bbr3.h"

#include "control_path.h"

struct bbr3_flow {
	struct bbr3_state s;
	struct bbr3_params p;
	struct cca_ack ack;		/* the last one; a test may preset fields */
	struct cca_decision d;
};

/* The state holds garbage before: bbr3_init must not leave any of it to be read. */
static inline void open_bbr3(struct bbr3_flow *f, u32 rtt_us)
{
	struct cca_start start = { SECOND, rtt_us, 10, 0, MSS };

	memset(&f->s, 0xa5, sizeof(f->s));
	memset(&f->ack, 0, sizeof(f->ack));
	cca_params_init(&f->p, CCA_ID_bbr3);
	f->ack.now_us = SECOND;
	f->ack.mss_bytes = MSS;
	f->ack.inflight_pkts = 100;
	f->ack.tx_inflight_pkts = 100;
	bbr3_init(&f->s, &f->p, &start, 1, &f->d);
}

/* One ACK for a whole round trip, whose sample says pkts in rtt_us. */
static inline void take_round(struct bbr3_flow *f, u32 pkts, u32 rtt_us)
{
	f->ack.now_us += rtt_us;
	f->ack.rtt_us = rtt_us;
	f->ack.acked_pkts = pkts;
	f->ack.delivered_pkts += pkts;
	f->ack.rate_pkts = pkts;
	f->ack.rate_interval_us = rtt_us;
	bbr3_on_ack(&f->s, &f->p, &f->ack, &f->d);
	f->ack.lost_pkts = 0;
}

static inline void take_event(struct bbr3_flow *f, enum cca_event_kind kind, u32 inflight_pkts)
{
	struct cca_event ev = { kind, f->ack.now_us, inflight_pkts, f->d.cwnd_pkts, MSS };

	bbr3_on_event(&f->s, &f->p, &ev, &f->d);
}

/* The next packet lost of tx_inflight_pkts, lost_since_pkts of which are by now. */
static inline void take_loss(struct bbr3_flow *f, u32 tx_inflight_pkts, u32 lost_since_pkts)
{
	struct cca_loss loss;

	memset(&loss, 0, sizeof(loss));
	loss.now_us = f->ack.now_us;
	loss.delivered_pkts = f->ack.delivered_pkts;
	loss.tx_inflight_pkts = tx_inflight_pkts;
	loss.lost_since_pkts = lost_since_pkts;
	bbr3_on_loss(&f->s, &f->p, &loss);
	f->ack.lost_pkts++;
}

/* 100 packets in 50 ms (2,896,000 bytes/s), in a state of ProbeBW. */
static inline void open_in(struct bbr3_flow *f, enum bbr3_mode mode)
{
	u32 i;

	open_bbr3(f, 50 * MS);
	f->ack.inflight_pkts = 150;
	/* Four to see a full pipe, four in Drain, which this queue does not end. */
	for (i = 0; i < 8; i++)
		take_round(f, 100, 50 * MS);
	CHECK_EQ(f->s.mode, BBR3_DOWN);
	if (mode == BBR3_DOWN)
		return;
	f->ack.inflight_pkts = 100;
	take_round(f, 100, 50 * MS);
	CHECK_EQ(f->s.mode, BBR3_CRUISE);
	if (mode == BBR3_CRUISE)
		return;
	f->s.probe_wait_us = 0;
	take_round(f, 100, 50 * MS);
	CHECK_EQ(f->s.mode, BBR3_REFILL);
	if (mode == BBR3_REFILL)
		return;
	take_round(f, 100, 50 * MS);
	CHECK_EQ(f->s.mode, BBR3_UP);
}

/* --- on a path --------------------------------------------------------------- */

struct bbr3_run {
	struct bbr3_state s;
	struct bbr3_params p;
	struct path path;
};

static inline void bbr3_run_ack(void *run, const struct cca_ack *ack, struct cca_decision *d)
{
	struct bbr3_run *r = (struct bbr3_run *)run;

	bbr3_on_ack(&r->s, &r->p, ack, d);
}

static inline void bbr3_run_event(void *run, const struct cca_event *ev, struct cca_decision *d)
{
	struct bbr3_run *r = (struct bbr3_run *)run;

	bbr3_on_event(&r->s, &r->p, ev, d);
}

static inline void bbr3_run_loss(void *run, const struct cca_loss *loss)
{
	struct bbr3_run *r = (struct bbr3_run *)run;

	bbr3_on_loss(&r->s, &r->p, loss);
}

/* 0.6 ms a packet: 20 Mbit/s of 1500 bytes. */
static inline void open_run(struct bbr3_run *r, u32 base_rtt_us, u32 buffer_pkts)
{
	struct cca_start start;

	path_open(&r->path, 600, base_rtt_us, buffer_pkts);
	r->path.state = r;
	r->path.on_ack = bbr3_run_ack;
	r->path.on_event = bbr3_run_event;
	r->path.on_loss = bbr3_run_loss;
	cca_params_init(&r->p, CCA_ID_bbr3);
	start = path_start(&r->path);
	bbr3_init(&r->s, &r->p, &start, 1, &r->path.d);
}

#endif /* TESTS_BBR3_FLOW_H */
