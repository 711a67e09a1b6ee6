/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of control_ops.h for an algorithm that learns from single losses. Its functions are
 * empty for other algorithms. A log (sent_log.h) provides the packets in flight when a packet was
 * sent, which Linux does not store. It also provides the losses that ACKs and timers have shown.
 *
 * The kernel counts lost packets in tp->lost. With an ACK it also reports how many of them this
 * ACK has added. Packets that its timers marked as lost appear only in the count.
 */
#ifndef CCATUNE_LOSSES_H
#define CCATUNE_LOSSES_H

#ifdef ALG_LEARNS_FROM_LOSSES

static void ops_begin_log(const struct sock *sk, struct alg_flow *f)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	cca_sent_init(&f->sent, tp->data_segs_out, tp->delivered, tp->lost);
}

static void ops_lose(struct alg_flow *f, const struct cca_loss *loss)
{
	struct ccatune_recording *recording;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	alg_lock(f, recording, false);
	alg_on_loss(f, loss);
	if (recording) {
		rec_init(&r, REC_LOSS, f->head.recorded_as, loss->now_us);
		rec_put_loss(&r, loss);
		alg_put_outcome(&r, f);
		alg_put_states(&r, f);
		ccatune_record(recording, &r);
	}
	alg_unlock(f);
	rcu_read_unlock();
}

/* Notifies the algorithm of losses that it has not been notified of yet. */
static void ops_notify_losses(const struct sock *sk, struct alg_flow *f)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cca_loss loss;

	if (cca_sent_loss(&f->sent, tp->tcp_mstamp, tp->delivered, tp->lost, &loss))
		ops_lose(f, &loss);
}

/* Called with each ACK, before ops_look() reports what the ACK begins or ends. */
static void ops_note_sent(const struct sock *sk, struct alg_flow *f, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cca_sent_note about = {
		.delivered_pkts = tp->delivered - rs->acked_sacked,
		.inflight_pkts = rs->prior_in_flight,
		.lost_pkts = tp->lost - (u32)max(rs->losses, 0),
	};

	cca_sent_note(&f->sent, tp->data_segs_out, &about);
	ops_notify_losses(sk, f);
	if (rs->delivered > 0 && rs->interval_us > 0)
		cca_sent_sample(&f->sent, tp->delivered - (u32)rs->delivered,
				ccatune_is_app_limited(&f->head, tp, rs));
}

/* Adds the values of the log to an ACK that ccatune_read_ack() has filled in. */
static void ops_put_sent(const struct sock *sk, struct alg_flow *f, struct cca_ack *ack)
{
	cca_sent_put(&f->sent, tcp_sk(sk)->lost, ack);
}

/* The path MTU has shrunk. The packets that are retransmitted for this were not lost. */
static void ops_forget_losses(const struct sock *sk, struct alg_flow *f)
{
	cca_sent_forget(&f->sent, tcp_sk(sk)->lost);
}

#else

#define ops_begin_log(sk, f) do { } while (0)
#define ops_notify_losses(sk, f) do { } while (0)
#define ops_note_sent(sk, f, rs) do { } while (0)
#define ops_put_sent(sk, f, ack) do { } while (0)
#define ops_forget_losses(sk, f) do { } while (0)

#endif

#endif /* CCATUNE_LOSSES_H */
