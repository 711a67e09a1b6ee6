/* SPDX-License-Identifier: MIT */
/*
 * A client behind a token bucket, ACK by ACK, for tests of R-TCP: what a sender that never
 * lacks data gets through, by closed form, and what it loses once the bucket is empty.
 */
#ifndef TESTS_RTCP_LIMITER_H
#define TESTS_RTCP_LIMITER_H

#include "rtcp_flows.h"

#include "check.h"

#define MSS 1448u
#define MS 1000u
#define SECOND 1000000u

struct limited {
	struct rtcp_client c;
	struct rtcp_params p;
	struct cca_ack ack;
	u64 bucket_bytes, access_bytes_per_s;
	u32 bytes_per_s;
	u64 t_us;		/* of the transfer */
	u64 given_bytes;	/* acknowledged in it */
	u32 step_us;		/* between ACKs */
	u32 loss_us;		/* for so long behind the bucket's end three of four are lost */
	u32 rtt_us;
	bool refuses;		/* behind that, a packet each round trip until the client is capped */
	u64 refused_us;		/* when it last did */
};

static inline void open_limited(struct limited *l, u64 bucket_bytes, u32 bytes_per_s)
{
	memset(l, 0, sizeof(*l));
	memset(&l->c, 0xa5, sizeof(l->c));
	cca_params_init(&l->p, CCA_ID_rtcp_cubic);
	l->bucket_bytes = bucket_bytes;
	l->bytes_per_s = bytes_per_s;
	l->access_bytes_per_s = 6250000;
	l->step_us = 4 * MS;
	l->rtt_us = 36 * MS;
	l->loss_us = 400 * MS;
	l->refuses = true;
	l->ack.now_us = SECOND;
	l->ack.mss_bytes = MSS;
	rtcp_client_init(&l->c, SECOND);
}

/* The limiter is known, its bucket is empty. */
static inline void know_limit(struct rtcp_client *c, u32 bytes_per_s, u32 rtt_us)
{
	c->kind = RTCP_LIMITED;
	c->bytes_per_s = c->reported_rate_bytes_per_s = bytes_per_s;
	c->before_bytes_per_s = 10 * bytes_per_s;
	c->theta_permille = 600;
	c->bucket_bytes = c->token_deficit_bytes = 700000;
	c->mss_bytes = MSS;
	c->min_rtt_us = rtt_us;
}

/* What has come through at t_us. Empty: since when the bucket is. */
static inline u64 limited_bytes(const struct limited *l)
{
	u64 fast = l->access_bytes_per_s * l->t_us / 1000000;
	u64 slow = l->bucket_bytes + (u64)l->bytes_per_s * l->t_us / 1000000;

	return fast < slow ? fast : slow;
}

static inline u64 empty_at_us(const struct limited *l)
{
	return l->access_bytes_per_s > l->bytes_per_s ?
		l->bucket_bytes * 1000000 / (l->access_bytes_per_s - l->bytes_per_s) : ~0ull;
}

static inline void give_ack(struct limited *l, u32 gap_us, u32 acked_pkts, u32 lost_pkts)
{
	l->ack.now_us += gap_us;
	l->ack.rtt_us = l->rtt_us;
	l->ack.acked_pkts = acked_pkts;
	l->ack.lost_pkts = lost_pkts;
	l->ack.delivered_pkts += acked_pkts;
	rtcp_client_on_ack(&l->c, &l->p, &l->ack);
}

/* Of so many that came through. */
static inline u32 lost_beside(struct limited *l, u32 pkts)
{
	if (l->t_us <= empty_at_us(l))
		return 0;
	if (l->t_us < empty_at_us(l) + l->loss_us)
		return 3 * pkts;
	if (!l->refuses || l->c.kind != RTCP_UNKNOWN || l->t_us < l->refused_us + l->rtt_us)
		return 0;
	l->refused_us = l->t_us;
	return 1;
}

/* The transfer goes on for so long. */
static inline void run_limited(struct limited *l, u64 span_us)
{
	u64 end_us = l->t_us + span_us, gap_us = 0;

	while (l->t_us < end_us) {
		u32 pkts, lost;

		l->t_us += l->step_us;
		gap_us += l->step_us;
		pkts = (u32)((limited_bytes(l) - l->given_bytes) / l->ack.mss_bytes);
		if (!pkts)
			continue;
		lost = lost_beside(l, pkts);
		l->given_bytes += (u64)pkts * l->ack.mss_bytes;
		give_ack(l, (u32)gap_us, pkts, lost);
		gap_us = 0;
	}
}

/* Silence, and data again: with so much in the bucket. */
static inline void next_transfer(struct limited *l, u32 idle_us, u64 tokens_bytes)
{
	l->ack.now_us += idle_us;
	l->t_us = 0;
	l->refused_us = 0;
	l->given_bytes = 0;
	l->bucket_bytes = tokens_bytes;
	rtcp_client_on_transfer(&l->c, l->ack.now_us);
}

static inline bool is_within(u64 value, u64 of, u32 percent)
{
	return value * 100 >= of * (100 - percent) && value * 100 <= of * (100 + percent);
}

#endif /* TESTS_RTCP_LIMITER_H */
