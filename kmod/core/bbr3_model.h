/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BBRv3's model of the path (bbr3.h): draft-ietf-ccwg-bbr-06, section 5.5.
 *
 *   max_bw     largest delivery rate of this and the last ProbeBW cycle
 *   bw         min(max_bw, bw_short)
 *   RTTmin     minimum RTT of 10 s; PROBE_RTT measures it every 5 s
 *   bw_short, inflight_short   bounds of this cycle. After a round trip with a loss
 *              (except while probing) they are reduced to what it delivered, but not
 *              below beta of their last value.
 *   inflight_long              packets in flight without too much loss, as measured by
 *              the last probes for bandwidth
 *   extra      packets ACKed in excess of bw, maximum of 10 round trips
 *
 * bw is in bytes of payload per second (at most 2^37). Gains are in permille. Amounts in
 * flight are in packets.
 */
#ifndef CCA_BBR3_MODEL_H
#define CCA_BBR3_MODEL_H

#include "params.h"
#include "window_max.h"

#define BBR3_MIN_CWND_PKTS 4u
#define BBR3_UNIT 1000u			/* of gains */
#define BBR3_FULL_ROUNDS 3u
#define BBR3_FULL_GROWTH 1250u
#define BBR3_EXTRA_ROUNDS 10u
#define BBR3_NO_RTT_US 1000u
#define BBR3_QUANTUM_BYTES 65536u
#define BBR3_NO_LIMIT_PKTS 0xffffffffu
#define BBR3_NO_LIMIT_BYTES_PER_S (~0ull)

enum bbr3_mode {
	BBR3_STARTUP,
	BBR3_DRAIN,
	BBR3_DOWN,
	BBR3_CRUISE,
	BBR3_REFILL,
	BBR3_UP,
	BBR3_PROBE_RTT,
	BBR3_NO_MODE,		/* nothing to undo */
};

/* The part of a probe for bandwidth that the current ACKs are for. */
enum bbr3_feedback {
	BBR3_QUIET,
	BBR3_REFILLING,
	BBR3_STARTING,		/* UP has begun, but these packets were sent before it */
	BBR3_PROBED,		/* these packets were sent in UP */
	BBR3_STOPPING,		/* UP is over; these are the last packets that were sent in it */
};

struct bbr3_params {
#define CCA_ONLY CCA_ID_bbr3
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) u32 name;
#include "params.def"
};

/* A newly delivered or newly lost packet. It shows whether too much was in flight. */
struct bbr3_sample {
	u32 tx_inflight_pkts;
	u32 lost_pkts;
	bool app_limited;
};

struct bbr3_state {
	struct cca_window_max extra;	/* packets by round trips */
	u64 cycle_bytes_per_s[2];	/* largest of the last cycle and of this one */
	u64 short_bytes_per_s;
	u64 latest_bytes_per_s;		/* largest of this round trip */
	u64 full_bytes_per_s;		/* rate that must grow by 25 %, or the pipe is full */
	u64 pacing_bytes_per_s;
	u64 undo_short_bytes_per_s;
	u64 min_rtt_at_us;
	u64 probe_rtt_at_us;		/* time of probe_min_rtt_us */
	u64 probe_rtt_end_us;		/* 0: too many packets are still in flight */
	u64 train_start_us;		/* ACK aggregation: start of the train of ACKs */
	u64 cycle_start_us;
	u64 probe_wait_us;
	u32 train_pkts;			/* packets ACKed in the train */
	u32 short_pkts, long_pkts, latest_pkts;
	u32 undo_short_pkts, undo_long_pkts;
	u32 min_rtt_us, probe_min_rtt_us;	/* 0: unknown */
	u32 rounds;
	u32 rounds_since_probe;
	u32 drain_start_round;
	u32 round_end_pkts;		/* delivered counts that end the round trip */
	u32 loss_round_end_pkts;
	u32 round_loss_events;		/* ACKs with losses, in this round trip of losses */
	u32 limited_from_pkts;		/* PROBE_RTT limits the samples of packets that were ... */
	u32 limited_to_pkts;		/* ... sent between these two delivered counts */
	u32 up_acked_pkts, up_acked_per_pkt;
	u32 up_rounds;
	u32 cwnd_pkts, prior_cwnd_pkts, initial_cwnd_pkts;
	u32 start_delivered_pkts;
	u32 inflight_pkts, delivered_pkts;
	u32 mss_bytes;
	u32 random;
	u8 mode, undo_mode;		/* enum bbr3_mode */
	u8 feedback;			/* enum bbr3_feedback */
	u8 full_rounds;
	bool full;			/* the pipe has been full */
	bool full_now;			/* the pipe is full in the current probe */
	bool round_started, loss_round_started;
	bool lost_in_round;
	bool probing_sample;		/* the current losses may be due to a probe */
	bool probe_too_high;		/* the last probe ended with too much loss */
	bool probe_cut_short;		/* the probe ended early, to avoid too much loss */
	bool probe_rtt_round_done, probe_rtt_due;
	bool idle_restart;
	bool in_recovery;
	bool limited;
};

/* --- helpers --------------------------------------------------------------------- */

CCA_FN u64 bbr3_max_bandwidth(const struct bbr3_state *s)
{
	return cca_max_u64(s->cycle_bytes_per_s[0], s->cycle_bytes_per_s[1]);
}

CCA_FN u64 bbr3_bandwidth(const struct bbr3_state *s)
{
	return cca_min_u64(bbr3_max_bandwidth(s), s->short_bytes_per_s);
}

CCA_FN u32 bbr3_bdp_pkts(const struct bbr3_state *s, u64 bytes_per_s, u32 gain_permille)
{
	if (!s->min_rtt_us)
		return s->initial_cwnd_pkts;
	return cca_pkts_at_rate(cca_share(bytes_per_s, gain_permille), s->min_rtt_us, s->mss_bytes);
}

/* The send quantum, section 5.6.3: 1 ms of the pacing rate, at least two packets. */
CCA_FN u32 bbr3_quantum_pkts(const struct bbr3_state *s)
{
	u64 bytes = cca_min_u64(cca_div(s->pacing_bytes_per_s, 1000), BBR3_QUANTUM_BYTES);

	return cca_max_u32((u32)cca_div(bytes, s->mss_bytes), 2);
}

/* Applies the lower bounds of a window. Overflow: 2^25 + 2. */
CCA_FN u32 bbr3_quantized_pkts(const struct bbr3_state *s, u32 pkts)
{
	pkts = cca_max_u32(pkts, 3 * bbr3_quantum_pkts(s));
	return cca_max_u32(pkts, BBR3_MIN_CWND_PKTS) + (s->mode == BBR3_UP ? 2 : 0);
}

CCA_FN u32 bbr3_inflight_pkts(const struct bbr3_state *s, u64 bytes_per_s, u32 gain_permille)
{
	return bbr3_quantized_pkts(s, bbr3_bdp_pkts(s, bytes_per_s, gain_permille));
}

CCA_FN u32 bbr3_target_pkts(const struct bbr3_state *s)
{
	return cca_min_u32(bbr3_bdp_pkts(s, bbr3_bandwidth(s), BBR3_UNIT), s->cwnd_pkts);
}

CCA_FN u32 bbr3_with_headroom_pkts(const struct bbr3_state *s, const struct bbr3_params *p)
{
	u32 headroom_pkts;

	if (s->long_pkts == BBR3_NO_LIMIT_PKTS)
		return BBR3_NO_LIMIT_PKTS;
	headroom_pkts = cca_max_u32(cca_share_pkts(s->long_pkts, p->headroom_permille), 1);
	return s->long_pkts > headroom_pkts + BBR3_MIN_CWND_PKTS ?
		s->long_pkts - headroom_pkts : BBR3_MIN_CWND_PKTS;
}

CCA_FN u32 bbr3_probe_rtt_pkts(const struct bbr3_state *s)
{
	return cca_max_u32(bbr3_bdp_pkts(s, bbr3_bandwidth(s), BBR3_UNIT / 2), BBR3_MIN_CWND_PKTS);
}

CCA_FN bool bbr3_is_probing(const struct bbr3_state *s)
{
	return s->mode == BBR3_STARTUP || s->mode == BBR3_REFILL || s->mode == BBR3_UP;
}

CCA_FN bool bbr3_is_in_probe_bw(const struct bbr3_state *s)
{
	return s->mode >= BBR3_DOWN && s->mode <= BBR3_UP;
}

/* Saves the last window that neither recovery nor PROBE_RTT had reduced. */
CCA_FN void bbr3_save_cwnd(struct bbr3_state *s)
{
	s->prior_cwnd_pkts = s->in_recovery || s->mode == BBR3_PROBE_RTT ?
		cca_max_u32(s->prior_cwnd_pkts, s->cwnd_pkts) : s->cwnd_pkts;
}

CCA_FN void bbr3_restore_cwnd(struct bbr3_state *s)
{
	s->cwnd_pkts = cca_max_u32(s->cwnd_pkts, s->prior_cwnd_pkts);
}

CCA_FN void bbr3_start_round(struct bbr3_state *s)
{
	s->round_end_pkts = s->delivered_pkts;
}

CCA_FN void bbr3_reset_full(struct bbr3_state *s, u64 bytes_per_s)
{
	s->full_bytes_per_s = bytes_per_s;
	s->full_rounds = 0;
	s->full_now = false;
}

CCA_FN void bbr3_reset_short(struct bbr3_state *s)
{
	s->short_bytes_per_s = BBR3_NO_LIMIT_BYTES_PER_S;
	s->short_pkts = BBR3_NO_LIMIT_PKTS;
}

CCA_FN void bbr3_reset_congestion(struct bbr3_state *s)
{
	s->lost_in_round = false;
	s->latest_bytes_per_s = 0;
	s->latest_pkts = 0;
}

/* --- samples: section 5.5.1 to 5.5.6 ------------------------------------------------ */

/* Whether the application or PROBE_RTT limited the rate that the sample measures. */
CCA_FN bool bbr3_is_limited(const struct bbr3_state *s, const struct cca_ack *ack)
{
	u32 sent_at_pkts = cca_prior_delivered(ack);

	return ack->app_limited ||
	       (s->limited && cca_reached(sent_at_pkts, s->limited_from_pkts) &&
		cca_reached(s->limited_to_pkts, sent_at_pkts));
}

CCA_FN void bbr3_hold_back_samples(struct bbr3_state *s)
{
	if (!s->limited)
		s->limited_from_pkts = s->delivered_pkts;
	s->limited_to_pkts = s->delivered_pkts + s->inflight_pkts;
	s->limited = true;
}

CCA_FN void bbr3_update_latest(struct bbr3_state *s, const struct cca_ack *ack)
{
	s->loss_round_started = false;
	if (!cca_has_rate(ack))
		return;
	s->latest_bytes_per_s = cca_max_u64(s->latest_bytes_per_s, cca_sampled_rate(ack));
	s->latest_pkts = cca_max_u32(s->latest_pkts, cca_min_u32(ack->rate_pkts, CCA_MAX_PKTS));
	if (cca_reached(cca_prior_delivered(ack), s->loss_round_end_pkts)) {
		s->loss_round_end_pkts = ack->delivered_pkts;
		s->loss_round_started = true;
	}
}

CCA_FN void bbr3_advance_latest(struct bbr3_state *s, const struct cca_ack *ack)
{
	if (!s->loss_round_started)
		return;
	s->latest_bytes_per_s = cca_sampled_rate(ack);
	s->latest_pkts = cca_min_u32(ack->rate_pkts, CCA_MAX_PKTS);
}

CCA_FN void bbr3_update_max_bandwidth(struct bbr3_state *s, const struct cca_ack *ack)
{
	u64 bytes_per_s = cca_sampled_rate(ack);

	s->round_started = cca_has_rate(ack) &&
			   cca_reached(cca_prior_delivered(ack), s->round_end_pkts);
	if (s->round_started) {
		bbr3_start_round(s);
		s->rounds++;
		s->rounds_since_probe++;
	}
	if (bytes_per_s >= bbr3_max_bandwidth(s) || !bbr3_is_limited(s, ack))
		s->cycle_bytes_per_s[1] = cca_max_u64(s->cycle_bytes_per_s[1], bytes_per_s);
}

/* Starts a new cycle. If the old one has no sample, the one before it stays. */
CCA_FN void bbr3_advance_max_bandwidth(struct bbr3_state *s)
{
	if (!s->cycle_bytes_per_s[1])
		return;
	s->cycle_bytes_per_s[0] = s->cycle_bytes_per_s[1];
	s->cycle_bytes_per_s[1] = 0;
}

CCA_FN void bbr3_update_aggregation(struct bbr3_state *s, const struct cca_ack *ack)
{
	u32 expected_pkts = cca_pkts_at_rate(bbr3_bandwidth(s),
					     cca_elapsed_us(ack->now_us, s->train_start_us),
					     s->mss_bytes);

	if (s->train_pkts <= expected_pkts || s->train_pkts > CCA_MAX_PKTS) {
		s->train_pkts = 0;
		s->train_start_us = ack->now_us;
		expected_pkts = 0;
	}
	s->train_pkts += cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS);
	cca_max_add(&s->extra, s->full ? BBR3_EXTRA_ROUNDS : 1, s->rounds,
		    cca_min_u32(s->train_pkts - expected_pkts, s->cwnd_pkts));
}

CCA_FN void bbr3_check_full(struct bbr3_state *s, const struct cca_ack *ack)
{
	u64 bytes_per_s = cca_sampled_rate(ack);

	if (s->full_now || !s->round_started || bbr3_is_limited(s, ack))
		return;
	if (bytes_per_s >= cca_share(s->full_bytes_per_s, BBR3_FULL_GROWTH)) {
		bbr3_reset_full(s, bytes_per_s);
		return;
	}
	s->full_now = ++s->full_rounds >= BBR3_FULL_ROUNDS;
	s->full = s->full || s->full_now;
}

/* --- losses: section 5.5.10 and 5.5.11 ----------------------------------------------- */

/* Overflow: 2^32 x 2^10. */
CCA_FN bool bbr3_is_too_high(const struct bbr3_params *p, const struct bbr3_sample *sample)
{
	return (u64)sample->lost_pkts * 1000 >
	       (u64)sample->tx_inflight_pkts * p->loss_thresh_permille;
}

CCA_FN void bbr3_save_model(struct bbr3_state *s)
{
	bbr3_save_cwnd(s);
	s->undo_mode = BBR3_NO_MODE;
	s->undo_short_bytes_per_s = s->short_bytes_per_s;
	s->undo_short_pkts = s->short_pkts;
	s->undo_long_pkts = s->long_pkts;
}

CCA_FN void bbr3_note_loss(struct bbr3_state *s, u32 delivered_pkts)
{
	if (!s->lost_in_round) {
		s->loss_round_end_pkts = delivered_pkts;
		s->round_loss_events = 0;
		bbr3_save_model(s);
	}
	s->lost_in_round = true;
}

/*
 * The packets in flight when the losses crossed the threshold, which they did with this
 * packet: all in flight before it. The share of this packet is less than one, and is 0.
 */
CCA_FN u32 bbr3_inflight_at_loss(const struct bbr3_sample *sample)
{
	return cca_min_u32(cca_max_u32(sample->tx_inflight_pkts, 1) - 1, CCA_MAX_PKTS);
}

/* Reduces the short-term bounds after a round trip with losses, unless the flow is probing. */
CCA_FN void bbr3_lower_short(struct bbr3_state *s, const struct bbr3_params *p)
{
	if (bbr3_is_probing(s) || !s->lost_in_round)
		return;
	if (s->short_bytes_per_s == BBR3_NO_LIMIT_BYTES_PER_S)
		s->short_bytes_per_s = bbr3_max_bandwidth(s);
	if (s->short_pkts == BBR3_NO_LIMIT_PKTS)
		s->short_pkts = s->cwnd_pkts;
	s->short_bytes_per_s = cca_max_u64(s->latest_bytes_per_s,
					   cca_share(s->short_bytes_per_s, p->beta_permille));
	s->short_pkts = cca_max_u32(s->latest_pkts,
				    cca_share_pkts(s->short_pkts, p->beta_permille));
}

CCA_FN void bbr3_update_congestion(struct bbr3_state *s, const struct bbr3_params *p,
				   const struct cca_ack *ack)
{
	bbr3_update_max_bandwidth(s, ack);
	if (s->loss_round_started) {
		bbr3_lower_short(s, p);
		s->lost_in_round = false;
	}
}

#endif /* CCA_BBR3_MODEL_H */
