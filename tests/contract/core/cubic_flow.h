/* SPDX-License-Identifier: MIT */
/* CUBIC ACK by ACK, for tests: what a host does, without losses of its own. */
#ifndef TESTS_CUBIC_FLOW_H
#define TESTS_CUBIC_FLOW_H

#include "cubic.h"

#include "check.h"

#define NO_SSTHRESH 0x7fffffffu
#define MS 1000u
#define SECOND 1000000u

struct cubic_flow {
	struct cubic_state s;
	struct cubic_params p;
	struct cca_window w;
	struct cca_ack ack;
};

/* The state holds garbage before: cubic_init must not leave any of it to be read. */
static inline void open_flow(struct cubic_flow *f, u32 cwnd_pkts, u32 ssthresh_pkts)
{
	struct cca_start start = { SECOND, 0, cwnd_pkts, 0, 1448 };

	memset(&f->s, 0xa5, sizeof(f->s));
	memset(&f->ack, 0, sizeof(f->ack));
	cca_params_init(&f->p, CCA_ID_cubic);
	cubic_init(&f->s, &f->p, &start);
	f->w.cwnd_pkts = cwnd_pkts;
	f->w.ssthresh_pkts = ssthresh_pkts;
	f->w.credit_pkts = 0;
	f->ack.now_us = SECOND;
	f->ack.mss_bytes = 1448;
}

static inline void take_ack(struct cubic_flow *f, u32 gap_us, u32 pkts, u32 rtt_us)
{
	f->ack.now_us += gap_us;
	f->ack.rtt_us = rtt_us;
	f->ack.acked_pkts = pkts;
	f->ack.delivered_pkts += pkts;
	f->ack.inflight_pkts = f->w.cwnd_pkts;
	f->ack.cwnd_pkts = f->w.cwnd_pkts;
	cubic_on_ack(&f->s, &f->p, &f->ack, &f->w);
	cubic_grow(&f->s, &f->p, &f->w, pkts);
}

/* A window's worth of ACKs, spread over the round trip. */
static inline void take_round(struct cubic_flow *f, u32 rtt_us)
{
	u32 acks = cca_max_u32(f->w.cwnd_pkts, 1), i;

	for (i = 0; i < acks; i++)
		take_ack(f, rtt_us * (i + 1) / acks - rtt_us * i / acks, 1, rtt_us);
}

static inline void lose(struct cubic_flow *f)
{
	f->w.ssthresh_pkts = cubic_ssthresh(&f->s, &f->p, &f->w);
	f->w.cwnd_pkts = f->w.ssthresh_pkts;
}

static inline void take_event(struct cubic_flow *f, enum cca_event_kind kind, u32 gap_us)
{
	struct cca_event ev = { kind, f->ack.now_us + gap_us, 0, f->w.cwnd_pkts, 1448 };

	f->ack.now_us += gap_us;
	cubic_on_event(&f->s, &ev);
}

#endif /* TESTS_CUBIC_FLOW_H */
