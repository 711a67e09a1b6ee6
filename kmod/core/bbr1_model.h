/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BBRv1's model of the path: round trips, bandwidth, ACK aggregation, and the gains and
 * windows that are derived from them. bbr1.h names the sources.
 *
 *   round trip   ends with the first sample of a packet sent since it began
 *   bw           largest sample of 10 round trips. A sample that the application or
 *                PROBE_RTT limited counts only if it is at least as large as bw.
 *   aggregation  packets ACKed in excess of bw, since the last time that the ACKs were
 *                slower than bw; the maximum of the last 5 to 10 round trips
 *
 * bw is in bytes of payload per second (at most 2^37). Gains are in permille.
 */
#ifndef CCA_BBR1_MODEL_H
#define CCA_BBR1_MODEL_H

#include "bbr1_lt.h"
#include "window_max.h"

#define BBR1_MIN_CWND_PKTS 4u
#define BBR1_UNIT 1000u			/* of gains */
#define BBR1_LEAST_PHASES 3u
#define BBR1_FULL_ROUNDS 3u
#define BBR1_FULL_GROWTH 1250u
#define BBR1_NO_RTT_US 1000u		/* used for the pacing rate before an RTT is known */
#define BBR1_AGGREGATION_ROUNDS 5u	/* in each of two halves of the window */
#define BBR1_AGGREGATION_US 100000u	/* cwnd grows by at most bw x this time */
#define BBR1_QUANTUM_BYTES 65536u
#define BBR1_SLOW_BYTES_PER_S 150000u	/* 1.2 Mbit/s; slower flows may send single packets */

enum bbr1_mode {
	BBR1_STARTUP,
	BBR1_DRAIN,
	BBR1_PROBE_BW,
	BBR1_PROBE_RTT,
};

struct bbr1_state {
	struct cca_window_max bandwidth;	/* bytes/s by round trips */
	struct bbr1_lt lt;
	u64 pacing_bytes_per_s;
	u64 pacing_cap_bytes_per_s;	/* set by another algorithm; 0: none */
	u64 full_bytes_per_s;		/* bw that must grow by 25 %, or the pipe is full */
	u64 min_rtt_at_us;
	u64 phase_start_us;
	u64 probe_rtt_end_us;		/* 0: more than 4 packets are still in flight */
	u64 train_start_us;		/* ACK aggregation: start of the train of ACKs */
	u32 train_pkts;			/* packets ACKed in the train */
	u32 extra_pkts[2];		/* most packets in excess of bw, in each half */
	u32 extra_rounds;		/* round trips of both halves */
	u32 min_rtt_us;			/* 0: unknown */
	u32 rounds;
	u32 round_end_pkts;		/* delivered count that ends the round trip */
	u32 limited_from_pkts;		/* PROBE_RTT limits the samples of packets that were ... */
	u32 limited_to_pkts;		/* ... sent between these two delivered counts */
	u32 cwnd_pkts, prior_cwnd_pkts, initial_cwnd_pkts;
	u32 start_delivered_pkts;
	u32 inflight_pkts;		/* after the last ACK */
	u32 delivered_pkts;
	u32 mss_bytes;
	u32 random;
	u8 mode;			/* enum bbr1_mode */
	u8 phase;			/* of PROBE_BW's cycle */
	u8 full_rounds;
	bool full;			/* the pipe has been full */
	bool round_started;		/* this ACK starts a round trip */
	bool probe_rtt_round_done;
	bool idle_restart;
	bool in_recovery;		/* or after a timeout */
	bool conserve;			/* packet conservation */
	bool limited;			/* the two limited_ counts are valid */
};

/* --- helpers ------------------------------------------------------------------- */

CCA_FN u64 bbr1_bandwidth(const struct bbr1_state *s)
{
	return s->lt.in_use ? s->lt.bytes_per_s : cca_max_of(&s->bandwidth);
}

/* gain x rate x RTTmin; the initial window before an RTT is known. */
CCA_FN u32 bbr1_bdp_pkts(const struct bbr1_state *s, u64 bytes_per_s, u32 gain_permille)
{
	if (!s->min_rtt_us)
		return s->initial_cwnd_pkts;
	return cca_pkts_at_rate(cca_share(bytes_per_s, gain_permille), s->min_rtt_us, s->mss_bytes);
}

/* Linux's send quantum: 1 ms of the pacing rate, at least two packets, or one for slow flows. */
CCA_FN u32 bbr1_quantum_pkts(const struct bbr1_state *s)
{
	u32 least = s->pacing_bytes_per_s < BBR1_SLOW_BYTES_PER_S ? 1 : 2;
	u64 bytes = cca_min_u64(s->pacing_bytes_per_s >> 10, BBR1_QUANTUM_BYTES);

	return cca_max_u32((u32)cca_div(bytes, s->mss_bytes), least);
}

CCA_FN bool bbr1_is_probing_up(const struct bbr1_state *s)
{
	return s->mode == BBR1_PROBE_BW && s->phase == 0 && !s->lt.in_use;
}

/*
 * Adds three quanta, and makes the number even, so that no ACK is delayed. Overflow: 2^25 +
 * 3 x 2^16 + 3.
 */
CCA_FN u32 bbr1_quantized_pkts(const struct bbr1_state *s, u32 pkts)
{
	pkts = (pkts + 3 * bbr1_quantum_pkts(s) + 1) & ~1u;
	return pkts + (bbr1_is_probing_up(s) ? 2 : 0);
}

CCA_FN u32 bbr1_inflight_pkts(const struct bbr1_state *s, u64 bytes_per_s, u32 gain_permille)
{
	return bbr1_quantized_pkts(s, bbr1_bdp_pkts(s, bytes_per_s, gain_permille));
}

CCA_FN u32 bbr1_pacing_gain(const struct bbr1_state *s, const struct bbr1_params *p)
{
	switch (s->mode) {
	case BBR1_STARTUP:
		return p->startup_gain_permille;
	case BBR1_DRAIN:	/* 10^6 over at least 1000 */
		return BBR1_UNIT * BBR1_UNIT / cca_max_u32(p->startup_gain_permille, BBR1_UNIT);
	case BBR1_PROBE_BW:
		if (s->lt.in_use || s->phase > 1)
			return BBR1_UNIT;
		return s->phase ? p->probe_down_permille : p->probe_up_permille;
	default:
		return BBR1_UNIT;
	}
}

CCA_FN u32 bbr1_cwnd_gain(const struct bbr1_state *s, const struct bbr1_params *p)
{
	if (s->mode == BBR1_PROBE_RTT)
		return BBR1_UNIT;
	return s->mode == BBR1_PROBE_BW ? p->cwnd_gain_permille : p->startup_gain_permille;
}

/* Saves the last window that neither recovery nor PROBE_RTT had reduced. */
CCA_FN void bbr1_save_cwnd(struct bbr1_state *s)
{
	s->prior_cwnd_pkts = s->in_recovery || s->mode == BBR1_PROBE_RTT ?
		cca_max_u32(s->prior_cwnd_pkts, s->cwnd_pkts) : s->cwnd_pkts;
}

CCA_FN void bbr1_restore_cwnd(struct bbr1_state *s)
{
	s->cwnd_pkts = cca_max_u32(s->cwnd_pkts, s->prior_cwnd_pkts);
}

CCA_FN void bbr1_start_round(struct bbr1_state *s)
{
	s->round_end_pkts = s->delivered_pkts;
}

CCA_FN void bbr1_decide(const struct bbr1_state *s, struct cca_decision *d)
{
	d->cwnd_pkts = s->cwnd_pkts;
	d->pacing_bytes_per_s = s->pacing_cap_bytes_per_s ?
		cca_min_u64(s->pacing_bytes_per_s, s->pacing_cap_bytes_per_s) :
		s->pacing_bytes_per_s;
}

/* --- the model: round trips, bandwidth, aggregation ------------------------------ */

/* Whether the application or PROBE_RTT limited the rate that the sample measures. */
CCA_FN bool bbr1_is_limited(const struct bbr1_state *s, const struct cca_ack *ack)
{
	u32 sent_at_pkts = cca_prior_delivered(ack);

	return ack->app_limited ||
	       (s->limited && cca_reached(sent_at_pkts, s->limited_from_pkts) &&
		cca_reached(s->limited_to_pkts, sent_at_pkts));
}

CCA_FN void bbr1_hold_back_samples(struct bbr1_state *s)
{
	if (!s->limited)
		s->limited_from_pkts = s->delivered_pkts;
	s->limited_to_pkts = s->delivered_pkts + s->inflight_pkts;
	s->limited = true;
}

/* The phases of PROBE_BW's cycle. The host may set any number. */
CCA_FN u32 bbr1_phases(const struct bbr1_params *p)
{
	return cca_clamp_u32(p->cycle_phases, BBR1_LEAST_PHASES, CCA_MAX_bbr_cycle_phases);
}

CCA_FN void bbr1_enter_probe_bw(struct bbr1_state *s, const struct bbr1_params *p, u64 now_us)
{
	/* Any phase except 1. */
	u32 phase = cca_draw(&s->random) % (bbr1_phases(p) - 1);

	s->mode = BBR1_PROBE_BW;
	s->phase = (u8)(phase ? phase + 1 : 0);
	s->phase_start_us = now_us;
}

CCA_FN void bbr1_update_bandwidth(struct bbr1_state *s, const struct bbr1_params *p,
				  const struct cca_ack *ack)
{
	u64 bytes_per_s = cca_sampled_rate(ack);

	s->round_started = false;
	if (!cca_has_rate(ack)) {
		s->lt.lost_pkts += ack->lost_pkts;
		return;
	}
	if (cca_reached(cca_prior_delivered(ack), s->round_end_pkts)) {
		bbr1_start_round(s);
		s->rounds++;
		s->round_started = true;
		s->conserve = false;
	}
	if (bbr1_lt_on_ack(&s->lt, p, ack, s->round_started, s->mode == BBR1_PROBE_BW))
		bbr1_enter_probe_bw(s, p, ack->now_us);
	if (!bbr1_is_limited(s, ack) || bytes_per_s >= cca_max_of(&s->bandwidth))
		cca_max_add(&s->bandwidth, p->bandwidth_rounds, s->rounds, bytes_per_s);
}

/* Counts the ACKed packets in excess of bw. A train of ACKs ends when it is no faster than bw. */
CCA_FN void bbr1_update_aggregation(struct bbr1_state *s, const struct cca_ack *ack)
{
	u32 expected_pkts, extra_pkts, half, *most_pkts;

	if (!ack->acked_pkts || !cca_has_rate(ack))
		return;
	s->extra_rounds += s->round_started;
	if (s->extra_rounds >= 2 * BBR1_AGGREGATION_ROUNDS)
		s->extra_rounds = 0;
	half = s->extra_rounds / BBR1_AGGREGATION_ROUNDS;
	if (s->round_started && !(s->extra_rounds % BBR1_AGGREGATION_ROUNDS))
		s->extra_pkts[CCA_INDEX(half, 2)] = 0;
	expected_pkts = cca_pkts_at_rate(bbr1_bandwidth(s),
					 cca_elapsed_us(ack->now_us, s->train_start_us),
					 s->mss_bytes);
	if (s->train_pkts <= expected_pkts || s->train_pkts > CCA_MAX_PKTS) {
		s->train_pkts = 0;
		s->train_start_us = ack->now_us;
		expected_pkts = 0;
	}
	s->train_pkts += cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS);
	extra_pkts = cca_min_u32(s->train_pkts - expected_pkts, s->cwnd_pkts);
	most_pkts = &s->extra_pkts[CCA_INDEX(half, 2)];
	*most_pkts = cca_max_u32(*most_pkts, extra_pkts);
}

CCA_FN u32 bbr1_aggregation_pkts(const struct bbr1_state *s)
{
	if (!s->full)
		return 0;
	return cca_min_u32(cca_max_u32(s->extra_pkts[0], s->extra_pkts[1]),
			   cca_pkts_at_rate(bbr1_bandwidth(s), BBR1_AGGREGATION_US, s->mss_bytes));
}

#endif /* CCA_BBR1_MODEL_H */
