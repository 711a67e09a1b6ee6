/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of rtcp_paced_ops.h for an algorithm that learns from single losses. Its functions are
 * empty for other algorithms. A log (sent_log.h) provides the packets in flight when a packet was
 * sent, which Linux does not store. It also provides the losses that ACKs and timers have shown.
 *
 * The kernel counts lost packets in tp->lost. With an ACK it also reports how many of them this
 * ACK has added. Packets that its timers marked as lost appear only in the count.
 */
#ifndef CCATUNE_TCP_RTCP_LOSSES_H
#define CCATUNE_TCP_RTCP_LOSSES_H

#ifdef paced_flow_on_loss

static void paced_begin_log(struct sock *sk, struct paced_kflow *f)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	cca_sent_init(&f->sent, tp->data_segs_out, tp->delivered, tp->lost);
}

static void paced_lose(struct paced_kflow *f, const struct cca_loss *loss)
{
	struct ccatune_recording *recording;
	struct rtcp_client *c;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_recording(&f->shared.head);
	c = rtcp_kflow_lock(&f->shared, recording);
	paced_flow_on_loss(&f->bbr, loss);
	if (recording) {
		rec_init(&r, (enum rec_kind)RTCP_REC_LOSS, f->shared.head.recorded_as,
			 loss->now_us);
		rtcp_put_loss(&r, loss);
		paced_put_outcome(&r, &f->bbr, c, &f->decision);
		paced_record(f, c, recording, &r);
	}
	rtcp_kflow_unlock(&f->shared);
	rcu_read_unlock();
}

/* Notifies the algorithm of losses that it has not been notified of yet. */
static void paced_notify_losses(struct sock *sk, struct paced_kflow *f)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cca_loss loss;

	if (cca_sent_loss(&f->sent, tp->tcp_mstamp, tp->delivered, tp->lost, &loss))
		paced_lose(f, &loss);
}

/* Called with each ACK, before paced_look() reports what the ACK begins or ends. */
static void paced_note_sent(struct sock *sk, struct paced_kflow *f, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cca_sent_note about = {
		.delivered_pkts = tp->delivered - rs->acked_sacked,
		.inflight_pkts = rs->prior_in_flight,
		.lost_pkts = tp->lost - (u32)max(rs->losses, 0),
	};

	cca_sent_note(&f->sent, tp->data_segs_out, &about);
	paced_notify_losses(sk, f);
	if (rs->delivered > 0 && rs->interval_us > 0)
		cca_sent_sample(&f->sent, tp->delivered - (u32)rs->delivered,
				ccatune_is_app_limited(&f->shared.head, tp, rs));
}

/* Adds the values of the log to an ACK that ccatune_read_ack() has filled in. */
static void paced_put_sent(struct sock *sk, struct paced_kflow *f, struct cca_ack *ack)
{
	cca_sent_put(&f->sent, tcp_sk(sk)->lost, ack);
}

/* The path MTU has shrunk. The packets that are retransmitted for this were not lost. */
static void paced_forget_losses(struct sock *sk, struct paced_kflow *f)
{
	cca_sent_forget(&f->sent, tcp_sk(sk)->lost);
}

#else

static void paced_begin_log(struct sock *sk, struct paced_kflow *f)
{
}

static void paced_notify_losses(struct sock *sk, struct paced_kflow *f)
{
}

static void paced_note_sent(struct sock *sk, struct paced_kflow *f, const struct rate_sample *rs)
{
}

static void paced_put_sent(struct sock *sk, struct paced_kflow *f, struct cca_ack *ack)
{
}

static void paced_forget_losses(struct sock *sk, struct paced_kflow *f)
{
}

#endif

#endif /* CCATUNE_TCP_RTCP_LOSSES_H */
