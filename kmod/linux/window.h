/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Converts a socket's window and ACKs into the structures of kmod/core/cca.h and back, for window
 * mode. All decisions are taken in the core.
 *
 * For each ACK, Linux calls pkts_acked before it looks for losses. Afterwards it calls ssthresh
 * (an episode begins), set_state (the event) and cong_avoid (growth). Therefore the core receives
 * the losses that an ACK shows with the next ACK, which belongs to the episode that they began.
 * The event of a timeout shows its losses by the number of packets that are left in flight. No
 * ACK reports these losses again.
 */
#ifndef CCATUNE_WINDOW_H
#define CCATUNE_WINDOW_H

#include "sock.h"

static inline void ccatune_last_ack_init(const struct sock *sk, struct ccatune_last_ack *last)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	last->delivered_pkts = tp->delivered;
	last->lost_pkts = tp->lost;
	last->limited_pkts = tp->delivered - 1;
	last->begun = false;
}

/*
 * Whether the delivered packet was sent while the application had no data. A rate sample would
 * say so, but pkts_acked receives none. The kernel keeps tp->app_limited set until everything
 * that was in flight at that moment is delivered. The packets that are in flight when it is reset
 * were sent meanwhile, and so are application-limited. The kernel also marks the first flight as
 * application-limited, because the socket was empty before. This function ignores that mark.
 */
static inline bool ccatune_last_ack_is_app_limited(const struct tcp_sock *tp,
						   struct ccatune_last_ack *last)
{
	bool falls = tp->app_limited && after(tp->delivered, tp->app_limited);

	if (falls && last->begun)
		last->limited_pkts = tp->delivered + tcp_packets_in_flight(tp);
	last->begun = true;
	if (!after(tp->delivered, last->limited_pkts))
		return true;
	/* Keep it close to tp->delivered, so that after() is still correct when the counts wrap. */
	last->limited_pkts = tp->delivered - 1;
	return false;
}

/*
 * Returns false if the ACK shows neither a delivery nor a loss. It is then no event for the core.
 */
static inline bool ccatune_read_window_ack(const struct sock *sk, struct ccatune_last_ack *last,
					   const struct ack_sample *sample, struct cca_ack *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	memset(ack, 0, sizeof(*ack));
	ack->acked_pkts = tp->delivered - last->delivered_pkts;
	ack->lost_pkts = tp->lost - last->lost_pkts;
	if (!ack->acked_pkts && !ack->lost_pkts)
		return false;
	ack->now_us = tp->tcp_mstamp;
	ack->rtt_us = ccatune_rtt_us(sample->rtt_us);
	ack->inflight_pkts = tcp_packets_in_flight(tp);
	ack->delivered_pkts = tp->delivered;
	ack->cwnd_pkts = tcp_snd_cwnd(tp);
	ack->mss_bytes = tp->mss_cache;
	ack->app_limited = ccatune_last_ack_is_app_limited(tp, last);
	ack->cwnd_limited = ccatune_cwnd_limited(tp);
	last->delivered_pkts = tp->delivered;
	last->lost_pkts = tp->lost;
	return true;
}

static inline void ccatune_read_window(const struct sock *sk, struct cca_window *w)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	w->cwnd_pkts = tcp_snd_cwnd(tp);
	w->ssthresh_pkts = tp->snd_ssthresh;
	w->credit_pkts = tp->snd_cwnd_cnt;
}

static inline void ccatune_write_window(struct sock *sk, const struct cca_window *w)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, clamp_t(u32, w->cwnd_pkts, 1, tp->snd_cwnd_clamp));
	tp->snd_ssthresh = w->ssthresh_pkts;
	tp->snd_cwnd_cnt = w->credit_pkts;
}

/*
 * Whether the kernel controls the window: after a loss, after an ECN mark, or after a local queue
 * was full.
 */
static inline bool ccatune_is_reduced(u8 state)
{
	return state == TCP_CA_CWR || state == TCP_CA_Recovery;
}

/*
 * As ccatune_read_state(), but CWR is a recovery, too: the core does not change the window in it.
 */
static inline bool ccatune_read_window_state(const struct sock *sk, u8 new_state,
					     enum cca_event_kind *kind)
{
	u8 old_state = ccatune_ca_state(sk);

	if (new_state == TCP_CA_Loss)
		return ccatune_read_state(sk, new_state, kind);
	if (ccatune_is_reduced(new_state) && !ccatune_is_reduced(old_state))
		*kind = CCA_RECOVERY_ENTERED;
	else if (new_state <= TCP_CA_Disorder && old_state >= TCP_CA_CWR)
		*kind = CCA_RECOVERY_LEFT;
	else
		return false;
	return true;
}

#endif /* CCATUNE_WINDOW_H */
