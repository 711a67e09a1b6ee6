/* SPDX-License-Identifier: MIT */
/* ROCCET ACK by ACK, for tests: what a host does, and a link with a queue that never overflows. */
#ifndef TESTS_ROCCET_HOST_H
#define TESTS_ROCCET_HOST_H

#include "roccet.h"

#include "check.h"

#define NO_SSTHRESH 0x7fffffffu
#define MS 1000u
#define SECOND 1000000u
#define ONE_Q16 65536u

struct roccet_host {
	struct roccet_state s;
	struct roccet_params p;
	struct cca_window w;
	struct cca_ack ack;
};

/* The state holds garbage before: roccet_init must not leave any of it to be read. */
static inline void open_flow(struct roccet_host *f, u32 cwnd_pkts, u32 ssthresh_pkts)
{
	struct cca_start start = { SECOND, 0, cwnd_pkts, 0, 1448 };

	memset(&f->s, 0xa5, sizeof(f->s));
	memset(&f->ack, 0, sizeof(f->ack));
	cca_params_init(&f->p, CCA_ID_roccet);
	roccet_init(&f->s, &f->p, &start);
	f->w.cwnd_pkts = cwnd_pkts;
	f->w.ssthresh_pkts = ssthresh_pkts;
	f->w.credit_pkts = 0;
	f->ack.now_us = SECOND;
	f->ack.mss_bytes = 1448;
	f->ack.cwnd_limited = true;
}

static inline void take_ack(struct roccet_host *f, u32 gap_us, u32 pkts, u32 rtt_us)
{
	f->ack.now_us += gap_us;
	f->ack.rtt_us = rtt_us;
	f->ack.acked_pkts = pkts;
	f->ack.delivered_pkts += pkts;
	f->ack.inflight_pkts = f->w.cwnd_pkts;
	f->ack.cwnd_pkts = f->w.cwnd_pkts;
	roccet_on_ack(&f->s, &f->p, &f->ack, &f->w);
	if (f->ack.cwnd_limited && !f->s.in_recovery)
		roccet_grow(&f->s, &f->p, &f->w, pkts);
	f->ack.lost_pkts = 0;
}

/*
 * A link that serves a packet every gap_us behind a path of rtt_us, for a time: an
 * ACK for so many packets. most_pkts: what the application or the receiver lets out.
 */
struct link_of { u32 gap_us, rtt_us, pkts_per_ack, most_pkts; };

static inline u32 link_rtt_us(const struct roccet_host *f, const struct link_of *l)
{
	return cca_max_u32(cca_min_u32(f->w.cwnd_pkts, l->most_pkts) * l->gap_us, l->rtt_us);
}

static inline void run_link(struct roccet_host *f, const struct link_of *l, u64 time_us)
{
	u64 end_us = f->ack.now_us + time_us;

	while (f->ack.now_us < end_us) {
		u32 rtt_us = link_rtt_us(f, l), out_pkts = cca_min_u32(f->w.cwnd_pkts, l->most_pkts);

		f->ack.cwnd_limited = f->w.cwnd_pkts <= l->most_pkts;
		/* As fast as the link, or as the window comes back. */
		take_ack(f, cca_max_u32(l->gap_us, rtt_us / cca_max_u32(out_pkts, 1)) * l->pkts_per_ack,
			 l->pkts_per_ack, rtt_us);
	}
}

static inline void take_event(struct roccet_host *f, enum cca_event_kind kind, u32 gap_us)
{
	struct cca_event ev = { kind, f->ack.now_us + gap_us, 0, f->w.cwnd_pkts, 1448 };

	f->ack.now_us += gap_us;
	roccet_on_event(&f->s, &ev);
}

/* A host's recovery: asked for the threshold, told, and the window is that behind it. */
static inline void begin_recovery(struct roccet_host *f)
{
	f->w.ssthresh_pkts = roccet_ssthresh(&f->s, &f->p, &f->w);
	take_event(f, CCA_RECOVERY_ENTERED, 0);
}

static inline void end_recovery(struct roccet_host *f)
{
	f->w.cwnd_pkts = f->w.ssthresh_pkts;
	take_event(f, CCA_RECOVERY_LEFT, 0);
}

static inline void time_out(struct roccet_host *f)
{
	f->w.ssthresh_pkts = roccet_ssthresh(&f->s, &f->p, &f->w);
	f->w.cwnd_pkts = 1;
	take_event(f, CCA_TIMEOUT, 0);
}

/* What LAUNCH and ORBITER look at, set by hand: srRTT in percent, windows and ACKs in packets. */
static inline void set_measured(struct roccet_host *f, u32 srrtt_pct, u32 windows_pkts,
				u32 acked_pkts)
{
	f->s.phase = roccet_in_slow_start(&f->s, &f->w) ? ROCCET_LAUNCH : ROCCET_ORBITER;
	f->s.min_rtt_us = 50 * MS;
	f->s.srtt_us_q3 = 8 * 50 * MS;
	f->s.srrtt_q16 = (u32)(((u64)srrtt_pct * ONE_Q16 + 99) / 100);
	f->s.interval_start_us = 0;
	f->s.windows_q8 = (u64)windows_pkts << 8;
	f->s.acked_q8 = (u64)acked_pkts << 8;
}

#endif /* TESTS_ROCCET_HOST_H */
