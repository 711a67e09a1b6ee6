/* SPDX-License-Identifier: MIT */
/*
 * Two ways to put GR on a path, for tests: ACK by ACK, as a row wants them, and
 * in a closed loop, where a bottleneck of fixed rate answers what GR sends.
 */
#ifndef TESTS_GR_PATH_H
#define TESTS_GR_PATH_H

#include "gr.h"

#include "check.h"

#define MSS 1448u
#define MS 1000u
#define SECOND 1000000u

/* --- ACK by ACK ------------------------------------------------------------ */

struct path {
	struct gr_state s;
	struct gr_params p;
	struct cca_ack ack;		/* the last one; a test may preset fields */
	struct cca_decision d;
};

/* The state holds garbage before: gr_init must not leave any of it to be read. */
static inline void open_path(struct path *f, u64 now_us, u32 delivered_pkts, u32 rtt_us)
{
	struct cca_start start = { now_us, rtt_us, 10, delivered_pkts, MSS };

	memset(&f->s, 0xa5, sizeof(f->s));
	memset(&f->ack, 0, sizeof(f->ack));
	cca_params_init(&f->p, CCA_ID_gr);
	f->p.bandwidth_window_us = 20 * MS;
	f->ack.now_us = now_us;
	f->ack.delivered_pkts = delivered_pkts;
	f->ack.mss_bytes = MSS;
	f->ack.inflight_pkts = 10;
	gr_init(&f->s, &f->p, &start, &f->d);
}

static inline void take_ack(struct path *f, u32 gap_us, u32 pkts, u32 rtt_us)
{
	f->ack.now_us += gap_us;
	f->ack.delivered_pkts += pkts;
	f->ack.acked_pkts = pkts;
	f->ack.rtt_us = rtt_us;
	f->ack.cwnd_pkts = f->d.cwnd_pkts;
	gr_on_ack(&f->s, &f->p, &f->ack, &f->d);
	f->ack.lost_pkts = 0;
}

static inline void take_acks(struct path *f, u32 count, u32 gap_us, u32 rtt_us)
{
	while (count--)
		take_ack(f, gap_us, 1, rtt_us);
}

static inline void take_event(struct path *f, enum cca_event_kind kind, u32 gap_us)
{
	struct cca_event ev = { kind, f->ack.now_us + gap_us, 0, f->d.cwnd_pkts, MSS };

	f->ack.now_us += gap_us;
	gr_on_event(&f->s, &f->p, &ev, &f->d);
}

/* A packet a millisecond at this RTT, slow start left by a loss: B is 1448000 bytes/s. */
#define CRUISE_BYTES_PER_S 1448000u

static inline void open_cruise(struct path *f, u32 rtt_us)
{
	open_path(f, SECOND, 0, rtt_us);
	take_acks(f, 50, MS, rtt_us);
	f->ack.lost_pkts = 1;
	take_ack(f, MS, 1, rtt_us);
	CHECK_EQ(f->s.mode, GR_CRUISE);
	CHECK_EQ(f->d.pacing_bytes_per_s, CRUISE_BYTES_PER_S);
}

/* --- closed loop ----------------------------------------------------------- */

#define LOOP_RING (1u << 15)		/* more than any window here */

/* A bottleneck with an endless buffer. Packets are acknowledged one by one. */
struct loop {
	struct path f;
	u64 ack_at_us[LOOP_RING];
	u64 sent_at_us[LOOP_RING];
	u64 now_us, link_free_us, send_at_us;
	u32 sent_pkts, acked_pkts;	/* of ours, so what is between is in flight */
	u32 pkt_time_us, base_rtt_us;
	u32 least_delay_us, largest_delay_us;	/* queueing, since a test last reset them */
	u32 counted_pkts;
};

static inline void loop_open(struct loop *l, u32 pkt_time_us, u32 base_rtt_us)
{
	open_path(&l->f, SECOND, 0, base_rtt_us);
	l->now_us = l->link_free_us = l->send_at_us = SECOND;
	l->sent_pkts = l->acked_pkts = 0;
	l->pkt_time_us = pkt_time_us;
	l->base_rtt_us = base_rtt_us;
}

static inline void loop_count_anew(struct loop *l)
{
	l->least_delay_us = 0xffffffffu;
	l->largest_delay_us = 0;
	l->counted_pkts = 0;
}

static inline void loop_send(struct loop *l)
{
	u32 slot = l->sent_pkts++ % LOOP_RING;
	u64 rate = l->f.d.pacing_bytes_per_s;

	l->now_us = cca_max_u64(l->now_us, l->send_at_us);
	l->link_free_us = cca_max_u64(l->link_free_us, l->now_us) + l->pkt_time_us;
	l->sent_at_us[slot] = l->now_us;
	l->ack_at_us[slot] = l->link_free_us - l->pkt_time_us + l->base_rtt_us;
	l->send_at_us = l->now_us + (rate ? (u64)MSS * SECOND / rate : 0);
}

static inline void loop_receive(struct loop *l)
{
	u32 slot = l->acked_pkts++ % LOOP_RING;
	u32 rtt_us, delay_us;

	l->now_us = l->ack_at_us[slot];
	rtt_us = (u32)(l->now_us - l->sent_at_us[slot]);
	delay_us = rtt_us - l->base_rtt_us;
	l->least_delay_us = cca_min_u32(l->least_delay_us, delay_us);
	l->largest_delay_us = cca_max_u32(l->largest_delay_us, delay_us);
	l->counted_pkts++;
	l->f.ack.inflight_pkts = l->sent_pkts - l->acked_pkts;
	take_ack(&l->f, (u32)(l->now_us - l->f.ack.now_us), 1, rtt_us);
}

static inline void loop_run(struct loop *l, u32 duration_us)
{
	u64 end_us = l->now_us + duration_us;

	while (l->now_us < end_us) {
		u32 inflight_pkts = l->sent_pkts - l->acked_pkts;
		bool may_send = inflight_pkts < cca_min_u32(l->f.d.cwnd_pkts, LOOP_RING - 1);

		if (may_send && (!inflight_pkts ||
				 l->send_at_us <= l->ack_at_us[l->acked_pkts % LOOP_RING]))
			loop_send(l);
		else
			loop_receive(l);
	}
}

#endif /* TESTS_GR_PATH_H */
