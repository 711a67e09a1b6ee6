/* SPDX-License-Identifier: MIT */
/* ROCCET ACK by ACK, for tests, and on a link with a queue that never overflows. */
#ifndef TESTS_ROCCET_HOST_H
#define TESTS_ROCCET_HOST_H

#define ONLY_ID ROCCET_ALONE
#include "path.h"

#define ONE_Q16 65536u

static struct flow f;

static inline void open_roccet(u32 cwnd_pkts, u32 ssthresh_pkts)
{
	struct cca_start start = { SECOND, 0, cwnd_pkts, 0, MSS };

	open_flow(&f, ROCCET_ALONE, &start, 0);
	f.w.ssthresh_pkts = ssthresh_pkts;
}

/*
 * A link that serves a packet every gap_us on a path of rtt_us, for a time: an
 * ACK for so many packets. most_pkts: what the application or the receiver lets out.
 */
struct link_of { u32 gap_us, rtt_us, pkts_per_ack, most_pkts; };

static inline u32 link_rtt_us(const struct link_of *l)
{
	return cca_max_u32(cca_min_u32(f.w.cwnd_pkts, l->most_pkts) * l->gap_us, l->rtt_us);
}

static inline void run_link(const struct link_of *l, u64 time_us)
{
	u64 end_us = f.ack.now_us + time_us;

	while (f.ack.now_us < end_us) {
		u32 rtt_us = link_rtt_us(l), out_pkts = cca_min_u32(f.w.cwnd_pkts, l->most_pkts);

		f.ack.cwnd_limited = f.w.cwnd_pkts <= l->most_pkts;
		/* As fast as the link, or as the window comes back. */
		take_ack(&f, cca_max_u32(l->gap_us, rtt_us / cca_max_u32(out_pkts, 1)) * l->pkts_per_ack,
			 l->pkts_per_ack, rtt_us);
	}
}

/* A host's recovery: it asks for the threshold, and has the window that follows at its end. */
static inline void begin_recovery(void)
{
	f.w.ssthresh_pkts = flow_ssthresh(&f);
	take_event(&f, CCA_RECOVERY_ENTERED, 0, 0);
}

static inline void end_recovery(void)
{
	f.w.cwnd_pkts = f.w.ssthresh_pkts;
	take_event(&f, CCA_RECOVERY_LEFT, 0, 0);
}

static inline void time_out(void)
{
	f.w.ssthresh_pkts = flow_ssthresh(&f);
	f.w.cwnd_pkts = 1;
	take_event(&f, CCA_TIMEOUT, 0, 0);
}

/* What LAUNCH and ORBITER look at, set by hand: srRTT in percent, windows and ACKs in packets. */
static inline void set_measured(u32 srrtt_pct, u32 windows_pkts, u32 acked_pkts)
{
	struct roccet_state *s = &f.roccet_alone;

	s->phase = roccet_in_slow_start(s, &f.w) ? ROCCET_LAUNCH : ROCCET_ORBITER;
	s->min_rtt_us = 50 * MS;
	s->srtt_us_q3 = 8 * 50 * MS;
	s->srrtt_q16 = (u32)(((u64)srrtt_pct * ONE_Q16 + 99) / 100);
	s->interval_start_us = 0;
	s->windows_q8 = (u64)windows_pkts << 8;
	s->acked_q8 = (u64)acked_pkts << 8;
}

#endif /* TESTS_ROCCET_HOST_H */
