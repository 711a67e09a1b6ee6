/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the modules of window mode share: a socket's window and ACKs into the
 * words of kmod/core/cca.h and back, and records of what the kernel asked.
 * Nothing is decided here.
 *
 * Linux tells of an ACK (pkts_acked) before it looks for losses. What comes of the
 * ACK is asked behind it: the threshold of an episode (ssthresh), its event
 * (set_state), growth (cong_avoid). What an ACK shows to be lost is therefore told
 * with the next one, which belongs to the episode that the loss began. What a timeout
 * takes for lost, its event tells by what is left in flight: no ACK tells it again.
 */
#ifndef CCATUNE_WINDOW_H
#define CCATUNE_WINDOW_H

#include "sock.h"

/* Of the ACK that was told last. */
struct ccatune_told {
	u32 delivered_pkts;
	u32 lost_pkts;
	u32 limited_pkts;	/* delivered count of the last packet sent for lack of more data */
	bool begun;
};

static inline void ccatune_told_init(const struct sock *sk, struct ccatune_told *told)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	told->delivered_pkts = tp->delivered;
	told->lost_pkts = tp->lost;
	told->limited_pkts = tp->delivered - 1;
	told->begun = false;
}

/*
 * What a rate sample says of its packet, for hosts that are given none: sent while
 * the application had run out of data. Until everything that was in flight then is
 * delivered, tp->app_limited stands; what is in flight when it falls was sent
 * meanwhile. The kernel takes every first flight for such a one, since the socket
 * was empty before it; here it is none.
 */
static inline bool ccatune_told_is_app_limited(const struct tcp_sock *tp, struct ccatune_told *told)
{
	bool falls = tp->app_limited && after(tp->delivered, tp->app_limited);

	if (falls && told->begun)
		told->limited_pkts = tp->delivered + tcp_packets_in_flight(tp);
	told->begun = true;
	if (!after(tp->delivered, told->limited_pkts))
		return true;
	/* Kept near, so that the order of the two counts stays right when they wrap. */
	told->limited_pkts = tp->delivered - 1;
	return false;
}

/* false: the ACK shows nothing new, and is no event for a core. */
static inline bool ccatune_read_told(const struct sock *sk, struct ccatune_told *told,
				     const struct ack_sample *sample, struct cca_ack *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	memset(ack, 0, sizeof(*ack));
	ack->acked_pkts = tp->delivered - told->delivered_pkts;
	ack->lost_pkts = tp->lost - told->lost_pkts;
	if (!ack->acked_pkts && !ack->lost_pkts)
		return false;
	ack->now_us = tp->tcp_mstamp;
	ack->rtt_us = ccatune_rtt_us(sample->rtt_us);
	ack->inflight_pkts = tcp_packets_in_flight(tp);
	ack->delivered_pkts = tp->delivered;
	ack->cwnd_pkts = tcp_snd_cwnd(tp);
	ack->mss_bytes = tp->mss_cache;
	ack->app_limited = ccatune_told_is_app_limited(tp, told);
	ack->cwnd_limited = tp->is_cwnd_limited;
	told->delivered_pkts = tp->delivered;
	told->lost_pkts = tp->lost;
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

/* The kernel has the window itself: for losses, for marks, and where a queue of its own is full. */
static inline bool ccatune_is_reduced(u8 state)
{
	return state == TCP_CA_CWR || state == TCP_CA_Recovery;
}

/*
 * As ccatune_read_state(); CWR is a recovery too, in which the core leaves the window alone.
 * The kernel has marked its losses before it goes to Loss. Where that is for a smaller MTU,
 * nothing was lost.
 */
static inline bool ccatune_read_window_state(const struct sock *sk, struct ccatune_told *told,
					     u8 new_state, enum cca_event_kind *kind)
{
	u8 old_state = inet_csk(sk)->icsk_ca_state;

	if (new_state == TCP_CA_Loss) {
		told->lost_pkts = tcp_sk(sk)->lost;
		return ccatune_read_state(sk, new_state, kind);
	}
	if (ccatune_is_reduced(new_state) && !ccatune_is_reduced(old_state))
		*kind = CCA_RECOVERY_ENTERED;
	else if (new_state <= TCP_CA_Disorder && old_state >= TCP_CA_CWR)
		*kind = CCA_RECOVERY_LEFT;
	else
		return false;
	return true;
}

/* --- recording ----------------------------------------------------------------- */

/* Under rcu_read_lock(). flow: NULL for a socket that has none. NULL: nothing is recorded of it. */
static inline struct ccatune_recording *ccatune_begin_record(const struct ccatune_flow *flow,
							     struct rec_record *r,
							     enum rec_kind kind)
{
	struct ccatune_recording *recording = flow ? ccatune_recording(flow) : NULL;

	if (recording)
		rec_init(r, kind, flow->recorded_as, tcp_sk(flow->sk)->tcp_mstamp);
	return recording;
}

/*
 * What the kernel asked of the core: REC_GROW, REC_SSTHRESH, REC_UNDO. result: the
 * window that the core returned, 0 where it returns none.
 */
static inline void ccatune_record_asked(const struct ccatune_flow *flow, enum rec_kind kind,
					const struct cca_window *before,
					const struct cca_window *after, u32 acked_pkts, u32 result)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_begin_record(flow, &r, kind);
	if (recording) {
		rec_put_window(&r, before);
		rec_put_window_after(&r, after);
		r.word[REC_ACKED] = acked_pkts;
		r.word[REC_RESULT] = result;
		ccatune_record(recording, &r);
	}
	rcu_read_unlock();
}

#endif /* CCATUNE_WINDOW_H */
