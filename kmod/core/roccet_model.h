/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * ROCCET's measurements of a path (roccet.h): srRTT, the jitter, and the number of ACKed
 * segments compared with the sum of the windows.
 *
 *   x_t     = (RTT_curr - RTT_min) / RTT_min                             (eq. 2)
 *   srRTT_t = alpha x_t + (1 - alpha) srRTT_t-1                          (eq. 2)
 *
 *   interval  |- round trip -|- round trip -|- ...
 *   cum_cwnd  = sum of the windows at the start of its round trips
 *   recv ACKs = segments ACKed in these round trips; an ACK may cover several
 *
 * Units: srRTT in 2^-16 of RTT_min; windows and ACKs in 2^-8 packets.
 */
#ifndef CCA_ROCCET_MODEL_H
#define CCA_ROCCET_MODEL_H

#include "cubic.h"

#define ROCCET_MAX_SHARE_Q16 (1ull << 28)	/* 4096 times RTT_min: above any bound */
#define ROCCET_MAX_SUM_Q8 (1ull << 48)		/* of windows, and of ACKs: 2^40 packets */

/* Which difference between recv ACKs and cum_cwnd counts as congestion. */
enum roccet_ack_sense {
	ROCCET_SHORT,		/* fewer ACKs than cum_cwnd */
	ROCCET_FIGURE,		/* as in Fig. 3: more ACKs in LAUNCH, fewer in ORBITER */
	ROCCET_EITHER,		/* as in the text: any difference */
};

enum roccet_round_rtt {
	ROCCET_MIN_RTT,
	ROCCET_SMOOTHED_RTT,
};

enum roccet_phase {
	ROCCET_NO_PHASE,	/* no interval; the next ACK begins one */
	ROCCET_LAUNCH,
	ROCCET_ORBITER,
};

struct roccet_params {
#define CCA_ONLY CCA_ID_roccet
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) u32 name;
#include "params.def"
};

struct roccet_state {
	struct cubic_state cubic;
	u64 min_rtt_at_us;		/* when RTT_min last changed */
	u64 interval_start_us;
	u64 round_start_us;
	u64 drain_start_us;
	u64 windows_q8;			/* cum_cwnd of the interval, 2^-8 packets, at most 2^48 */
	u64 acked_q8;			/* recv ACKs of the interval, in the same unit and range */
	u32 min_rtt_us;			/* 0: no sample yet */
	u32 srtt_us_q3;			/* smoothed RTT, 2^-3 us, below 2^30 */
	u32 last_rtt_us;		/* 0: none */
	u32 jitter_us_q4;		/* 2^-4 us, below 2^31 */
	u32 srrtt_q16;			/* 2^16 is RTT_min; at most 2^28 */
	u32 round_cwnd_pkts;		/* window at the start of the round trip */
	u32 held_ssthresh_pkts;		/* ssthresh that an ignored loss replaced; 0: none */
	u32 episode_acked_pkts;		/* in the recovery from that loss, at most 2^25 */
	u32 episode_lost_pkts;
	u32 launches;			/* slow starts that LAUNCH has ended */
	u32 events;			/* ROCCET CEs; both may wrap */
	u8 phase;			/* enum roccet_phase, of the interval */
	bool launched;			/* the initial slow start is over */
	bool in_recovery;
	bool ignores;			/* the loss of this episode is ignored */
	bool drains;			/* the drain after a ROCCET CE */
};

/* --- helpers ------------------------------------------------------------------ */

/*
 * One step of an EWMA. It is rounded to nearest, so that it can reach a constant input.
 * Overflow: 2 x 1000 x 2^29.
 */
CCA_FN u32 roccet_mix(u32 weight_permille, u32 newest, u32 before)
{
	u32 weight = cca_min_u32(weight_permille, 1000);
	u64 sum = (u64)newest * weight + (u64)before * (1000 - weight);

	return (u32)cca_div(sum + 500, 1000);
}

/* CUBIC's parameters, taken from ROCCET's. HyStart is off, because LAUNCH ends slow start. */
CCA_FN void roccet_cubic_params(const struct roccet_params *p, struct cubic_params *cubic)
{
	__builtin_memset(cubic, 0, sizeof(*cubic));	/* among others: no HyStart */
	cubic->c_permille = p->c_permille;
	cubic->beta_permille = p->beta_permille;
	cubic->fast_convergence = p->fast_convergence;
	cubic->reno_friendly = p->reno_friendly;
}

/* Whether the flow is in slow start. An ssthresh saved at an ignored loss counts as well. */
CCA_FN bool roccet_in_slow_start(const struct roccet_state *s, const struct cca_window *w)
{
	return w->cwnd_pkts < cca_max_u32(w->ssthresh_pkts, s->held_ssthresh_pkts);
}

CCA_FN u32 roccet_srtt_us(const struct roccet_state *s)
{
	return s->srtt_us_q3 >> 3;
}

/* A time as a share of RTT_min. RTT_min is known here, so not 0. Overflow: 2^35 x 2^8. */
CCA_FN u64 roccet_share_q16(const struct roccet_state *s, u64 time_us_q8)
{
	u64 share = cca_div(time_us_q8 << 8, cca_max_u32(s->min_rtt_us, 1));

	return cca_min_u64(share, ROCCET_MAX_SHARE_Q16);
}

/* --- srRTT, equation 2 ---------------------------------------------------------- */

/* RFC 3550 section 6.4.1: J += (|D| - J) / 16. At most 16 x 2^26 + 2^26. */
CCA_FN void roccet_sample_jitter(struct roccet_state *s, u32 rtt_us)
{
	u32 change_us = rtt_us > s->last_rtt_us ? rtt_us - s->last_rtt_us : s->last_rtt_us - rtt_us;

	if (s->last_rtt_us)
		s->jitter_us_q4 += change_us - ((s->jitter_us_q4 + 8) >> 4);
	s->last_rtt_us = rtt_us;
}

/*
 * Updates RTT_min. As in section XI, a minimum that has not changed for min_rtt_age_ms moves
 * towards the smoothed RTT.
 */
CCA_FN void roccet_sample_min_rtt(struct roccet_state *s, const struct roccet_params *p,
				  u64 now_us, u32 rtt_us)
{
	u64 age_us = (u64)p->min_rtt_age_ms * CCA_USEC_PER_MSEC;

	if (!s->min_rtt_us || rtt_us < s->min_rtt_us)
		s->min_rtt_us = rtt_us;
	else if (age_us && cca_elapsed_us(now_us, s->min_rtt_at_us) > age_us)
		s->min_rtt_us = roccet_mix(p->alpha_permille, roccet_srtt_us(s), s->min_rtt_us);
	else
		return;
	s->min_rtt_at_us = now_us;
}

CCA_FN void roccet_sample_rtt(struct roccet_state *s, const struct roccet_params *p, u64 now_us,
			      u32 sample_us)
{
	u32 rtt_us = cca_min_u32(sample_us, CCA_MAX_RTT_US), above_us_q3;

	if (!rtt_us)
		return;
	roccet_sample_jitter(s, rtt_us);
	/* RFC 6298 section 2: 8 srtt = 7/8 (8 srtt) + rtt. The first sample sets srtt. */
	s->srtt_us_q3 = s->srtt_us_q3 ? s->srtt_us_q3 - (s->srtt_us_q3 >> 3) + rtt_us : rtt_us << 3;
	roccet_sample_min_rtt(s, p, now_us, rtt_us);
	above_us_q3 = s->srtt_us_q3 > s->min_rtt_us << 3 ? s->srtt_us_q3 - (s->min_rtt_us << 3) : 0;
	s->srrtt_q16 = roccet_mix(p->alpha_permille,
				  (u32)roccet_share_q16(s, (u64)above_us_q3 << 5), s->srrtt_q16);
}

/* Whether srRTT has reached its bound. Both terms of the bound are at most 2^28. */
CCA_FN bool roccet_rtt_rose(const struct roccet_state *s, const struct roccet_params *p,
			    bool with_jitter)
{
	u64 bound_q16 = cca_div((u64)p->srrtt_bound_pct << 16, 100);

	if (with_jitter)
		bound_q16 += roccet_share_q16(s, (u64)s->jitter_us_q4 << 4);
	return s->srrtt_q16 >= bound_q16;
}

/* --- recv ACKs and cum_cwnd ------------------------------------------------------- */

CCA_FN void roccet_start_round(struct roccet_state *s, u64 now_us, u32 cwnd_pkts)
{
	s->round_start_us = now_us;
	s->round_cwnd_pkts = cca_min_u32(cwnd_pkts, CCA_MAX_PKTS);
}

CCA_FN void roccet_start_interval(struct roccet_state *s, u64 now_us, const struct cca_window *w)
{
	s->phase = roccet_in_slow_start(s, w) ? ROCCET_LAUNCH : ROCCET_ORBITER;
	s->interval_start_us = now_us;
	s->windows_q8 = 0;
	s->acked_q8 = 0;
	roccet_start_round(s, now_us, w->cwnd_pkts);
}

/*
 * Adds an ACK to the interval. Returns true if a round trip has ended. A round trip ends
 * with an ACK. If that comes late, the window counts for the longer time in proportion.
 * Overflow: 2^24 x 2^26 x 2^8; sums saturate at 2^48.
 */
CCA_FN bool roccet_count(struct roccet_state *s, const struct roccet_params *p,
			 const struct cca_ack *ack, u32 cwnd_pkts)
{
	u64 took_us = cca_min_u64(cca_elapsed_us(ack->now_us, s->round_start_us), CCA_MAX_RTT_US);
	u32 round_us = p->round_rtt == ROCCET_SMOOTHED_RTT ? roccet_srtt_us(s) : s->min_rtt_us;
	u64 windows_q8;

	s->acked_q8 = cca_min_u64(s->acked_q8 + ((u64)ack->acked_pkts << 8), ROCCET_MAX_SUM_Q8);
	if (!round_us || took_us < round_us)
		return false;
	windows_q8 = cca_div(((u64)s->round_cwnd_pkts * took_us) << 8, round_us);
	s->windows_q8 = cca_min_u64(s->windows_q8 + windows_q8, ROCCET_MAX_SUM_Q8);
	roccet_start_round(s, ack->now_us, cwnd_pkts);
	return true;
}

/* The difference between recv ACKs and cum_cwnd; 0 if it has the sign that does not count. */
CCA_FN u64 roccet_difference_q8(const struct roccet_state *s, const struct roccet_params *p)
{
	bool is_short = s->windows_q8 > s->acked_q8;
	bool beyond_counts = p->ack_sense == ROCCET_FIGURE && s->phase == ROCCET_LAUNCH;

	if (p->ack_sense != ROCCET_EITHER && is_short == beyond_counts)
		return 0;
	return is_short ? s->windows_q8 - s->acked_q8 : s->acked_q8 - s->windows_q8;
}

#endif /* CCA_ROCCET_MODEL_H */
