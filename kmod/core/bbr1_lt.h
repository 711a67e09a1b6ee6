/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BBRv1's long-term bandwidth sampler. It detects the rate of a token-bucket policer.
 *
 * A policer passes a burst and then drops the packets that exceed its rate. So the
 * largest delivery rate is far above the rate that the policer sustains. The sampler
 * measures over intervals that begin and end at a loss, when the bucket is empty:
 *
 *   interval   4 to 16 round trips. The lost packets are at least
 *              long_term_loss_permille of the delivered ones. An interval that gets
 *              longer is discarded.
 *   agreement  The rates of two intervals in a row differ by at most 1/8 or 4 kbit/s.
 *              BBR then paces at their mean, for long_term_rounds round trips of
 *              PROBE_BW.
 *
 *   IDLE --loss--> SAMPLING --two agree--> IN USE --48 rounds--> IDLE
 *     ^               |
 *     +--- app-limited, more than 16 rounds
 *
 * Source: Flach et al. 2016, "An Internet-wide analysis of traffic policing", for
 * the policer; Cardwell et al., presentations on BBR at IETF 97 to 99, for the
 * sampler. Limits: a path that loses a fifth of the packets for other reasons also
 * counts as a policer. So does a path with a steady rate that drops packets without a
 * queue.
 */
#ifndef CCA_BBR1_LT_H
#define CCA_BBR1_LT_H

#include "params.h"

#define BBR1_LT_MIN_ROUNDS 4u
#define BBR1_LT_MAX_ROUNDS 16u
#define BBR1_LT_AGREE_SHARE 8u
#define BBR1_LT_AGREE_BYTES_PER_S 500u	/* 4 kbit/s */
#define BBR1_LT_MIN_US 1000u		/* shorter intervals give no usable rate */

struct bbr1_params {
#define CCA_ONLY CCA_ID_bbr
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) u32 name;
#include "params.def"
};

struct bbr1_lt {
	u64 start_us;
	u64 bytes_per_s;		/* rate of the last interval, or in use; 0: none */
	u32 start_delivered_pkts;
	u32 start_lost_pkts;
	u32 lost_pkts;			/* in the whole connection */
	u32 rounds;			/* in the interval, or since the rate is in use */
	bool sampling, in_use;
	bool off;			/* another algorithm has switched the sampler off */
};

CCA_FN void bbr1_lt_start_interval(struct bbr1_lt *lt, u64 now_us, u32 delivered_pkts)
{
	lt->start_us = now_us;
	lt->start_delivered_pkts = delivered_pkts;
	lt->start_lost_pkts = lt->lost_pkts;
	lt->rounds = 0;
}

CCA_FN void bbr1_lt_reset(struct bbr1_lt *lt)
{
	lt->bytes_per_s = 0;
	lt->rounds = 0;
	lt->sampling = false;
	lt->in_use = false;
}

CCA_FN void bbr1_lt_init(struct bbr1_lt *lt, const struct cca_start *start)
{
	bbr1_lt_reset(lt);
	lt->off = false;
	lt->lost_pkts = 0;
	bbr1_lt_start_interval(lt, start->now_us, start->delivered_pkts);
}

CCA_FN bool bbr1_lt_agrees(u64 a, u64 b)
{
	u64 apart = a > b ? a - b : b - a;

	return apart <= b / BBR1_LT_AGREE_SHARE || apart <= BBR1_LT_AGREE_BYTES_PER_S;
}

/* Ends an interval. Overflow: the sum of two rates of at most 2^37. */
CCA_FN void bbr1_lt_end_interval(struct bbr1_lt *lt, const struct cca_ack *ack, u64 bytes_per_s)
{
	if (lt->bytes_per_s && bbr1_lt_agrees(bytes_per_s, lt->bytes_per_s)) {
		lt->bytes_per_s = (bytes_per_s + lt->bytes_per_s) / 2;
		lt->in_use = true;
		lt->rounds = 0;
		return;
	}
	lt->bytes_per_s = bytes_per_s;
	bbr1_lt_start_interval(lt, ack->now_us, ack->delivered_pkts);
}

/* Whether enough packets were lost since the interval began. Overflow: 2^32 x 2^10. */
CCA_FN bool bbr1_lt_lost_enough(const struct bbr1_lt *lt, const struct bbr1_params *p,
				u32 delivered_pkts)
{
	return delivered_pkts && (u64)(lt->lost_pkts - lt->start_lost_pkts) * 1000 >=
				 (u64)delivered_pkts * p->long_term_loss_permille;
}

CCA_FN void bbr1_lt_sample(struct bbr1_lt *lt, const struct bbr1_params *p,
			   const struct cca_ack *ack, bool round_started, bool lost)
{
	u32 delivered_pkts = ack->delivered_pkts - lt->start_delivered_pkts;
	u64 span_us = cca_elapsed_us(ack->now_us, lt->start_us);

	if (!lt->sampling) {
		if (!lost)
			return;
		bbr1_lt_start_interval(lt, ack->now_us, ack->delivered_pkts);
		lt->sampling = true;
		return;
	}
	lt->rounds += round_started;
	if (ack->app_limited || lt->rounds > BBR1_LT_MAX_ROUNDS) {
		bbr1_lt_reset(lt);
		return;
	}
	/* The interval ends at a loss, as it began: the bucket is empty both times. */
	if (lt->rounds < BBR1_LT_MIN_ROUNDS || !lost || span_us < BBR1_LT_MIN_US ||
	    !bbr1_lt_lost_enough(lt, p, delivered_pkts))
		return;
	bbr1_lt_end_interval(lt, ack,
			     cca_rate_bytes_per_s(delivered_pkts, ack->mss_bytes, span_us));
}

/*
 * probing: the flow is in PROBE_BW. Returns true if the rate has been in use for
 * long_term_rounds, and is discarded.
 */
CCA_FN bool bbr1_lt_on_ack(struct bbr1_lt *lt, const struct bbr1_params *p,
			   const struct cca_ack *ack, bool round_started, bool probing)
{
	lt->lost_pkts += ack->lost_pkts;
	if (lt->off || !p->long_term)
		return false;
	if (!lt->in_use) {
		bbr1_lt_sample(lt, p, ack, round_started, ack->lost_pkts != 0);
		return false;
	}
	if (!probing || !round_started || ++lt->rounds < p->long_term_rounds)
		return false;
	bbr1_lt_reset(lt);
	return true;
}

/* A timeout counts as the loss of all packets in flight. */
CCA_FN void bbr1_lt_on_timeout(struct bbr1_lt *lt, u64 now_us, u32 delivered_pkts, u32 lost_pkts)
{
	lt->lost_pkts += lost_pkts;
	if (lt->in_use || lt->sampling)
		return;
	bbr1_lt_start_interval(lt, now_us, delivered_pkts);
	lt->sampling = true;
}

#endif /* CCA_BBR1_LT_H */
