/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Converts the state of a socket into the events of kmod/core/cca.h, and applies a decision to
 * the socket. All decisions are taken in the core. The includer has included its ccatune.h.
 */
#ifndef CCATUNE_SOCK_H
#define CCATUNE_SOCK_H

static inline u32 ccatune_rtt_us(long rtt_us)
{
	return rtt_us > 0 ? (u32)min_t(long, rtt_us, CCA_MAX_RTT_US) : 0;
}

static inline void ccatune_read_start(const struct sock *sk, struct cca_start *start)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 min_rtt_us = tcp_min_rtt(tp);

	/*
	 * tp->tcp_mstamp is the time of the socket's last packet. That is long ago if an idle
	 * socket changes its algorithm, and it is not set in a socket that TCP_REPAIR made.
	 * Therefore this reads the clock.
	 */
	start->now_us = tcp_clock_us();
	/*
	 * Without a sample, tcp_min_rtt() has all bits set. A connected socket that changes its
	 * algorithm has samples.
	 */
	start->rtt_us = min_rtt_us != U32_MAX ? min(min_rtt_us, CCA_MAX_RTT_US) : 0;
	start->cwnd_pkts = tcp_snd_cwnd(tp);
	start->delivered_pkts = tp->delivered;
	start->mss_bytes = tp->mss_cache;
}

/*
 * Whether the sample measures the application and not the path. The kernel marks the first flight
 * of a connection as application-limited, because the socket was empty before. For that flight,
 * and for an ACK without a sample, the present state of the socket decides.
 */
static inline bool ccatune_is_app_limited(const struct ccatune_flow *flow,
					  const struct tcp_sock *tp, const struct rate_sample *rs)
{
	if (!rs->prior_mstamp || rs->prior_delivered == flow->start_delivered)
		return tp->app_limited != 0;
	return rs->is_app_limited;
}

/*
 * Returns false if the ACK neither delivered a packet nor showed a loss. It is then no event for
 * the core.
 */
static inline bool ccatune_read_ack(const struct ccatune_flow *flow, const struct sock *sk,
				    const struct rate_sample *rs, struct cca_ack *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!rs->acked_sacked && rs->losses <= 0)
		return false;
	ack->now_us = tp->tcp_mstamp;
	ack->rtt_us = ccatune_rtt_us(rs->rtt_us);
	ack->acked_pkts = rs->acked_sacked;
	ack->lost_pkts = (u32)max(rs->losses, 0);
	ack->inflight_pkts = tcp_packets_in_flight(tp);
	ack->delivered_pkts = tp->delivered;
	ack->rate_pkts = 0;
	ack->rate_interval_us = 0;
	if (rs->delivered > 0 && rs->interval_us > 0) {
		ack->rate_pkts = (u32)rs->delivered;
		ack->rate_interval_us = ccatune_rtt_us(rs->interval_us);
	}
	ack->cwnd_pkts = tcp_snd_cwnd(tp);
	ack->mss_bytes = tp->mss_cache;
	/*
	 * The kernel stores neither value with its packets. An algorithm that needs them keeps a
	 * log (sent_log.h).
	 */
	ack->tx_inflight_pkts = 0;
	ack->lost_since_pkts = 0;
	ack->app_limited = ccatune_is_app_limited(flow, tp, rs);
	ack->cwnd_limited = ccatune_cwnd_limited(tp);
	return true;
}

static inline void ccatune_read_event(const struct sock *sk, enum cca_event_kind kind,
				      struct cca_event *ev)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ev->kind = kind;
	ev->now_us = tp->tcp_mstamp;
	ev->inflight_pkts = tcp_packets_in_flight(tp);
	ev->cwnd_pkts = tcp_snd_cwnd(tp);
	ev->mss_bytes = tp->mss_cache;
}

/*
 * For control mode. With an unpaced decision only the socket's own limit applies to its pacing
 * rate.
 */
static inline void ccatune_apply(struct sock *sk, const struct cca_decision *d)
{
	struct tcp_sock *tp = tcp_sk(sk);
	unsigned long limit = READ_ONCE(sk->sk_max_pacing_rate);

	tcp_snd_cwnd_set(tp, clamp_t(u32, d->cwnd_pkts, 1, tp->snd_cwnd_clamp));
	WRITE_ONCE(sk->sk_pacing_rate,
		   d->pacing_bytes_per_s ? min_t(u64, d->pacing_bytes_per_s, limit) : limit);
}

/*
 * The kernel also enters the state Loss without a timeout, when the path MTU has shrunk. It then
 * retransmits the packets that are now too large, although there was no congestion. In contrast
 * to a timeout this sets no undo state (prior_ssthresh and undo_marker are 0). An episode of ECN
 * (CWR) sets no undo state either. Therefore Loss after CWR always counts as a timeout.
 */
static inline bool ccatune_is_smaller_mtu(const struct sock *sk, u8 old_state)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return old_state != TCP_CA_Loss && old_state != TCP_CA_CWR &&
	       !tp->prior_ssthresh && !tp->undo_marker;
}

/* Whether a change of the kernel's congestion state is an event for the core, and which one. */
static inline bool ccatune_read_state(const struct sock *sk, u8 new_state,
				      enum cca_event_kind *kind)
{
	u8 old_state = ccatune_ca_state(sk);

	if (new_state == TCP_CA_Loss && ccatune_is_smaller_mtu(sk, old_state))
		return false;
	if (new_state == TCP_CA_Loss)
		*kind = CCA_TIMEOUT;
	else if (new_state == TCP_CA_Recovery && old_state != TCP_CA_Recovery)
		*kind = CCA_RECOVERY_ENTERED;
	else if (new_state <= TCP_CA_Disorder && old_state >= TCP_CA_Recovery)
		*kind = CCA_RECOVERY_LEFT;
	else
		return false;
	return true;
}

/*
 * The kernel calls CCATUNE_TX_START_OP before each data packet that it sends with nothing in
 * flight. A new packet is not yet counted in packets_out, so packets_out is 0 when a transfer
 * starts. Otherwise all outstanding packets count as lost or as selectively acknowledged. Then
 * the packet belongs to the running transfer: it is the retransmission of a timeout, or new data
 * after it.
 */
static inline bool ccatune_is_tx_start(const struct sock *sk)
{
	return !tcp_sk(sk)->packets_out;
}

/*
 * Whether a transmission with nothing in flight is an event, and which one. It is no event unless
 * the application had run out of data (tp->app_limited). After a silence of at least one RTO it
 * is an idle restart, otherwise the start of a transfer.
 */
static inline bool ccatune_read_tx_start(const struct sock *sk, enum cca_event_kind *kind)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!ccatune_is_tx_start(sk) || !tp->app_limited)
		return false;
	*kind = (s32)(tcp_jiffies32 - tp->lsndtime) >= (s32)inet_csk(sk)->icsk_rto ?
		CCA_IDLE_RESTART : CCA_TRANSFER_STARTED;
	return true;
}

#endif /* CCATUNE_SOCK_H */
