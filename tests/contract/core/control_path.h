/* SPDX-License-Identifier: MIT */
/*
 * A control-mode algorithm on a path, for tests: a bottleneck of fixed rate with
 * a buffer, and a policer in front of it. Packets are acknowledged one by one;
 * one that was dropped is known for lost with the next that was not. What is lost
 * is not sent again: a bulk flow has other data.
 *
 * Delivery-rate samples: draft-cheng-iccrg-delivery-rate-estimation-00.
 */
#ifndef TESTS_CONTROL_PATH_H
#define TESTS_CONTROL_PATH_H

#include "cca.h"

#include "check.h"

#define MSS 1448u
#define MS 1000u
#define SECOND 1000000u
#define PATH_RING (1u << 15)

struct path_packet {
	u64 sent_us, ack_us;
	u64 delivered_us, first_sent_us;	/* of the connection, when it was sent */
	u32 delivered_pkts, tx_inflight_pkts, lost_pkts;
	bool dropped, app_limited;
};

struct path {
	/* the algorithm */
	void *state;
	void (*on_ack)(void *state, const struct cca_ack *ack, struct cca_decision *d);
	void (*on_event)(void *state, const struct cca_event *ev, struct cca_decision *d);
	void (*on_loss)(void *state, const struct cca_loss *loss);	/* or NULL */
	struct cca_decision d;
	/* the path: times a packet, 0 for no policer */
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
	u32 largest_delay_us;
	struct cca_ack ack;		/* the last */
};

static inline void path_open(struct path *l, u32 pkt_time_us, u32 base_rtt_us, u32 buffer_pkts)
{
	memset(l, 0, sizeof(*l));
	l->pkt_time_us = pkt_time_us;
	l->base_rtt_us = base_rtt_us;
	l->buffer_pkts = buffer_pkts;
	l->now_us = l->link_free_us = l->send_us = l->tokens_us = SECOND;
	l->delivered_us = l->first_sent_us = SECOND;
}

static inline struct cca_start path_start(const struct path *l)
{
	struct cca_start start = { l->now_us, l->base_rtt_us, 10, l->delivered_pkts, MSS };

	return start;
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
	u64 rate = l->d.pacing_bytes_per_s;

	l->now_us = cca_max_u64(l->now_us, l->send_us);
	if (!l->inflight_pkts)
		l->first_sent_us = l->delivered_us = l->now_us;
	l->link_free_us = cca_max_u64(l->link_free_us, l->now_us);
	p->dropped = path_polices(l) ||
		     l->link_free_us - l->now_us >= (u64)l->buffer_pkts * l->pkt_time_us;
	if (!p->dropped)
		l->link_free_us += l->pkt_time_us;
	l->dropped_pkts += p->dropped;
	p->sent_us = l->now_us;
	p->ack_us = l->link_free_us + l->base_rtt_us;
	p->delivered_us = l->delivered_us;
	p->first_sent_us = l->first_sent_us;
	p->delivered_pkts = l->delivered_pkts;
	p->tx_inflight_pkts = ++l->inflight_pkts;
	p->lost_pkts = l->lost_pkts;
	p->app_limited = l->app_limited;
	l->send_us = l->now_us + (rate ? (u64)MSS * SECOND / rate : 0);
}

static inline void path_tell(struct path *l, enum cca_event_kind kind)
{
	struct cca_event ev = { kind, l->now_us, l->inflight_pkts, l->d.cwnd_pkts, MSS };

	l->on_event(l->state, &ev, &l->d);
}

static inline void path_lose(struct path *l, const struct path_packet *p)
{
	struct cca_loss loss;

	l->inflight_pkts--;
	l->lost_pkts++;
	memset(&loss, 0, sizeof(loss));
	loss.now_us = l->now_us;
	loss.delivered_pkts = l->delivered_pkts;
	loss.tx_inflight_pkts = p->tx_inflight_pkts;
	loss.lost_since_pkts = l->lost_pkts - p->lost_pkts;
	loss.app_limited = p->app_limited;
	if (l->on_loss)
		l->on_loss(l->state, &loss);
}

static inline void path_sample(struct path *l, const struct path_packet *p)
{
	u64 sending_us = p->sent_us - p->first_sent_us, acking_us = l->now_us - p->delivered_us;
	u64 interval_us = cca_max_u64(sending_us, acking_us);

	l->first_sent_us = p->sent_us;
	l->ack.rtt_us = (u32)(l->now_us - p->sent_us);
	l->ack.app_limited = p->app_limited;
	l->ack.tx_inflight_pkts = p->tx_inflight_pkts;
	l->ack.lost_since_pkts = l->lost_pkts - p->lost_pkts;
	if (interval_us < l->base_rtt_us)
		return;
	l->ack.rate_interval_us = (u32)interval_us;
	l->ack.rate_pkts = l->delivered_pkts - p->delivered_pkts;
}

/* The first packet of [head, tail) that was not dropped; tail if there is none. */
static inline u32 path_next_ack(const struct path *l)
{
	u32 i = l->head;

	while (i != l->tail && l->packet[i % PATH_RING].dropped)
		i++;
	return i;
}

static inline void path_receive(struct path *l)
{
	u32 next = path_next_ack(l);
	const struct path_packet *p = &l->packet[next % PATH_RING];
	bool cwnd_limited = l->inflight_pkts >= l->d.cwnd_pkts;

	memset(&l->ack, 0, sizeof(l->ack));
	l->now_us = p->ack_us;
	l->delivered_pkts++;
	l->inflight_pkts--;
	for (; l->head != next; l->head++, l->ack.lost_pkts++)
		path_lose(l, &l->packet[l->head % PATH_RING]);
	l->head++;
	if (l->in_recovery && cca_reached(next, l->recovery_end)) {
		l->in_recovery = false;
		path_tell(l, CCA_RECOVERY_LEFT);
	}
	if (l->ack.lost_pkts && !l->in_recovery) {
		l->in_recovery = true;
		l->recovery_end = l->tail;
		path_tell(l, CCA_RECOVERY_ENTERED);
	}
	path_sample(l, p);
	l->delivered_us = l->now_us;
	l->ack.now_us = l->now_us;
	l->ack.acked_pkts = 1;
	l->ack.inflight_pkts = l->inflight_pkts;
	l->ack.delivered_pkts = l->delivered_pkts;
	l->ack.cwnd_pkts = l->d.cwnd_pkts;
	l->ack.mss_bytes = MSS;
	l->ack.cwnd_limited = cwnd_limited;
	l->largest_delay_us = cca_max_u32(l->largest_delay_us, l->ack.rtt_us - l->base_rtt_us);
	l->on_ack(l->state, &l->ack, &l->d);
}

/* Until the next ACK has been taken; a flow whose whole window was dropped sends on. */
static inline void path_step(struct path *l)
{
	for (;;) {
		u32 next = path_next_ack(l);
		bool may_send = l->inflight_pkts < cca_min_u32(l->d.cwnd_pkts, PATH_RING - 1);

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

#endif /* TESTS_CONTROL_PATH_H */
