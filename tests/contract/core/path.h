/* SPDX-License-Identifier: MIT */
/*
 * A flow for tests: ACK by ACK, as a row of a table wants them, or on a path that answers what it
 * sends, in window mode and in control mode.
 *
 * The path is a bottleneck of fixed rate with a buffer, and a policer in front of it. Packets are
 * acknowledged one by one. The host knows of a dropped packet with the next that was not dropped,
 * and does not retransmit it: a bulk flow has other data.
 *
 * Delivery-rate samples: draft-cheng-iccrg-delivery-rate-estimation-00.
 */
#ifndef TESTS_PATH_H
#define TESTS_PATH_H

#include "../flow.h"

#include "check.h"

/* --- ACK by ACK ----------------------------------------------------------------- */

/*
 * The state holds garbage before: an algorithm must not leave any of it to be read. Of R-TCP the
 * client is there already.
 */
static inline void open_flow(struct flow *f, u32 id, const struct cca_start *start, u32 hash)
{
	struct rtcp_client *client = f->client;

	memset(f, 0xa5, sizeof(*f));
	f->client = client;
	memset(&f->ack, 0, sizeof(f->ack));
	f->id = id;
	f->table = NULL;
	cca_params_init(&f->p, id & 0xff);
	f->ack.now_us = start->now_us;
	f->ack.delivered_pkts = start->delivered_pkts;
	f->ack.mss_bytes = start->mss_bytes;
	f->ack.cwnd_limited = is_window_mode(id);
	f->w.cwnd_pkts = start->cwnd_pkts;
	f->w.ssthresh_pkts = NO_SSTHRESH;
	f->w.credit_pkts = 0;
	flow_init(f, start, 0, hash);
}

/* What a host does with an ACK. A window that does not limit the sender does not grow. */
static inline void take_ack(struct flow *f, u32 gap_us, u32 pkts, u32 rtt_us)
{
	bool has_window = is_window_mode(FLOW_ID(f));

	f->ack.now_us += gap_us;
	f->ack.rtt_us = rtt_us;
	f->ack.acked_pkts = pkts;
	f->ack.delivered_pkts += pkts;
	f->ack.cwnd_pkts = has_window ? f->w.cwnd_pkts : f->d.cwnd_pkts;
	if (has_window)
		f->ack.inflight_pkts = f->w.cwnd_pkts;
	flow_on_ack(f, &f->ack);
	if (f->ack.cwnd_limited && !(FLOW_ID(f) == ROCCET_ALONE && f->roccet_alone.in_recovery))
		flow_grow(f, pkts);
	f->ack.lost_pkts = 0;
}

static inline void take_acks(struct flow *f, u32 count, u32 gap_us, u32 rtt_us)
{
	while (count--)
		take_ack(f, gap_us, 1, rtt_us);
}

/* One ACK for a whole round trip, whose sample is pkts in rtt_us. */
static inline void take_round(struct flow *f, u32 pkts, u32 rtt_us)
{
	f->ack.rate_pkts = pkts;
	f->ack.rate_interval_us = rtt_us;
	take_ack(f, rtt_us, pkts, rtt_us);
}

static inline void take_event(struct flow *f, enum cca_event_kind kind, u32 gap_us, u32 inflight_pkts)
{
	struct cca_event ev = { kind, f->ack.now_us + gap_us, inflight_pkts, f->d.cwnd_pkts, MSS };

	f->ack.now_us += gap_us;
	flow_on_event(f, &ev);
}

/* --- on a path ------------------------------------------------------------------ */

#define PATH_RING (1u << 15)		/* more than any window here */

struct path_packet {
	u64 sent_us, ack_us;
	u64 delivered_us, first_sent_us;	/* of the connection, when it was sent */
	u32 delivered_pkts, tx_inflight_pkts, lost_pkts;
	bool dropped, app_limited;
};

struct path {
	struct flow f;
	/* the path: times per packet, 0 for no policer */
	u32 pkt_time_us, base_rtt_us, buffer_pkts;
	u32 token_time_us, bucket_pkts;
	bool app_limited;
	/* the run */
	struct path_packet packet[PATH_RING];
	u64 now_us, link_free_us, send_us, tokens_us;
	u64 delivered_us, first_sent_us;
	u32 head, tail;			/* packets [head, tail) are not yet judged */
	u32 inflight_pkts, delivered_pkts, lost_pkts, dropped_pkts;
	u32 recovery_end;
	bool in_recovery;
	/* queueing delays and packets since path_count_anew() */
	u32 least_delay_us, largest_delay_us, counted_pkts;
};

static inline void path_count_anew(struct path *l)
{
	l->least_delay_us = 0xffffffffu;
	l->largest_delay_us = 0;
	l->counted_pkts = 0;
}

static inline void path_open(struct path *l, u32 pkt_time_us, u32 base_rtt_us, u32 buffer_pkts)
{
	memset(l, 0, sizeof(*l));
	l->pkt_time_us = pkt_time_us;
	l->base_rtt_us = base_rtt_us;
	l->buffer_pkts = buffer_pkts;
	l->now_us = l->link_free_us = l->send_us = l->tokens_us = SECOND;
	l->delivered_us = l->first_sent_us = SECOND;
	path_count_anew(l);
}

static inline struct cca_start path_start(const struct path *l)
{
	struct cca_start start = { l->now_us, l->base_rtt_us, 10, l->delivered_pkts, MSS };

	return start;
}

static inline u32 path_cwnd(const struct path *l)
{
	return is_window_mode(FLOW_ID(&l->f)) ? l->f.w.cwnd_pkts : l->f.d.cwnd_pkts;
}

/* The bucket as time: full at bucket_pkts tokens before now. */
static inline bool path_polices(struct path *l)
{
	u64 full_us;

	if (!l->token_time_us)
		return false;
	full_us = (u64)l->bucket_pkts * l->token_time_us;
	if (l->now_us - l->tokens_us > full_us)
		l->tokens_us = l->now_us - full_us;
	if (l->now_us - l->tokens_us < l->token_time_us)
		return true;
	l->tokens_us += l->token_time_us;
	return false;
}

static inline void path_send(struct path *l)
{
	struct path_packet *p = &l->packet[l->tail++ % PATH_RING];
	u64 rate = is_window_mode(FLOW_ID(&l->f)) ? 0 : l->f.d.pacing_bytes_per_s;

	l->now_us = cca_max_u64(l->now_us, l->send_us);
	if (!l->inflight_pkts)
		l->first_sent_us = l->delivered_us = l->now_us;
	l->link_free_us = cca_max_u64(l->link_free_us, l->now_us);
	p->dropped = path_polices(l) ||
		     l->link_free_us - l->now_us >= (u64)l->buffer_pkts * l->pkt_time_us;
	p->ack_us = l->link_free_us + l->base_rtt_us;
	if (!p->dropped)
		l->link_free_us += l->pkt_time_us;
	l->dropped_pkts += p->dropped;
	p->sent_us = l->now_us;
	p->delivered_us = l->delivered_us;
	p->first_sent_us = l->first_sent_us;
	p->delivered_pkts = l->delivered_pkts;
	p->tx_inflight_pkts = ++l->inflight_pkts;
	p->lost_pkts = l->lost_pkts;
	p->app_limited = l->app_limited;
	/* A policer is behind the access: a window reaches it at most at the rate of that. */
	l->send_us = l->now_us + (rate ? (u64)MSS * SECOND / rate : l->token_time_us ? l->pkt_time_us : 0);
}

static inline void path_notify(struct path *l, enum cca_event_kind kind)
{
	struct cca_event ev = { kind, l->now_us, l->inflight_pkts, path_cwnd(l), MSS };

	flow_on_event(&l->f, &ev);
}

static inline void path_lose(struct path *l, const struct path_packet *p)
{
	struct cca_loss loss = { l->now_us, l->delivered_pkts, p->tx_inflight_pkts,
				 l->lost_pkts + 1 - p->lost_pkts, p->app_limited };

	l->inflight_pkts--;
	l->lost_pkts++;
	flow_on_loss(&l->f, &loss);
}

static inline void path_sample(struct path *l, const struct path_packet *p, struct cca_ack *ack)
{
	u64 sending_us = p->sent_us - p->first_sent_us, acking_us = l->now_us - p->delivered_us;
	u64 interval_us = cca_max_u64(sending_us, acking_us);

	l->first_sent_us = p->sent_us;
	ack->rtt_us = (u32)(l->now_us - p->sent_us);
	ack->app_limited = p->app_limited;
	ack->tx_inflight_pkts = p->tx_inflight_pkts;
	ack->lost_since_pkts = l->lost_pkts - p->lost_pkts;
	if (interval_us < l->base_rtt_us)
		return;
	ack->rate_interval_us = (u32)interval_us;
	ack->rate_pkts = l->delivered_pkts - p->delivered_pkts;
}

/* The first packet of [head, tail) that was not dropped; tail if there is none. */
static inline u32 path_next_ack(const struct path *l)
{
	u32 i = l->head;

	while (i != l->tail && l->packet[i % PATH_RING].dropped)
		i++;
	return i;
}

/* A host's recovery: from the first loss until what was then in flight is judged. */
static inline void path_recover(struct path *l, u32 next, u32 lost_pkts)
{
	if (l->in_recovery && cca_reached(next, l->recovery_end)) {
		l->in_recovery = false;
		path_notify(l, CCA_RECOVERY_LEFT);
	}
	if (!lost_pkts || l->in_recovery)
		return;
	l->in_recovery = true;
	l->recovery_end = l->tail;
	if (is_window_mode(FLOW_ID(&l->f)))
		l->f.w.cwnd_pkts = l->f.w.ssthresh_pkts = flow_ssthresh(&l->f);
	path_notify(l, CCA_RECOVERY_ENTERED);
}

static inline void path_receive(struct path *l)
{
	u32 next = path_next_ack(l), delay_us;
	const struct path_packet *p = &l->packet[next % PATH_RING];
	struct cca_ack *ack = &l->f.ack;
	bool cwnd_limited = l->inflight_pkts >= path_cwnd(l);

	memset(ack, 0, sizeof(*ack));
	l->now_us = p->ack_us;
	l->delivered_pkts++;
	l->inflight_pkts--;
	for (; l->head != next; l->head++, ack->lost_pkts++)
		path_lose(l, &l->packet[l->head % PATH_RING]);
	l->head++;
	path_recover(l, next, ack->lost_pkts);
	path_sample(l, p, ack);
	l->delivered_us = l->now_us;
	ack->now_us = l->now_us;
	ack->acked_pkts = 1;
	ack->inflight_pkts = l->inflight_pkts;
	ack->delivered_pkts = l->delivered_pkts;
	ack->cwnd_pkts = path_cwnd(l);
	ack->mss_bytes = MSS;
	ack->cwnd_limited = cwnd_limited;
	delay_us = ack->rtt_us - l->base_rtt_us;
	l->least_delay_us = cca_min_u32(l->least_delay_us, delay_us);
	l->largest_delay_us = cca_max_u32(l->largest_delay_us, delay_us);
	l->counted_pkts++;
	flow_on_ack(&l->f, ack);
	if (cwnd_limited && !l->in_recovery)
		flow_grow(&l->f, 1);
}

/* Until the next ACK has been taken; a flow whose whole window was dropped sends on. */
static inline void path_step(struct path *l)
{
	for (;;) {
		u32 next = path_next_ack(l);
		bool may_send = l->inflight_pkts < cca_min_u32(path_cwnd(l), PATH_RING - 1);

		if (next != l->tail && (!may_send ||
					l->send_us > l->packet[next % PATH_RING].ack_us))
			break;
		path_send(l);
	}
	path_receive(l);
}

static inline void path_run(struct path *l, u32 duration_us)
{
	u64 end_us = l->now_us + duration_us;

	while (l->now_us < end_us)
		path_step(l);
}

#endif /* TESTS_PATH_H */
