// SPDX-License-Identifier: GPL-2.0
/*
 * The file `flows`: one line per live socket, `local remote` and then `name=value`.
 *
 * The file is read without a lock while the flows continue. Each number of a line is correct (on
 * a 64-bit machine), and all of them are of about the same moment. The line is left out if the
 * socket is closed, or if its flow ends during the read. The memory of the socket may then belong
 * to another socket, even to one of another namespace.
 */
#include <net/inet_sock.h>
#include <net/ipv6.h>

#include "internal.h"
#include "show.h"

/* The flow with the number *pos, or with the next number in use; NULL after the last flow. */
static struct ccatune_flow *flows_find(struct ccatune_cca *cca, loff_t *pos)
{
	struct ccatune_flow *flow = NULL;
	unsigned long number;

	if (*pos <= U32_MAX) {
		number = (unsigned long)*pos;
		flow = xa_find(&cca->flows, &number, U32_MAX, XA_PRESENT);
	}
	*pos = flow ? (loff_t)number : (loff_t)U32_MAX + 1;
	return flow;
}

static void *flows_start(struct seq_file *m, loff_t *pos)
	__acquires(RCU)
{
	rcu_read_lock();
	return flows_find(pde_data(file_inode(m->file)), pos);
}

static void *flows_next(struct seq_file *m, void *v, loff_t *pos)
{
	struct ccatune_flow *flow = v;

	++*pos;
	return flows_find(flow->cca, pos);
}

static void flows_stop(struct seq_file *m, void *v)
	__releases(RCU)
{
	rcu_read_unlock();
}

static void flows_put_addresses(struct seq_file *m, const struct sock *sk)
{
	const struct inet_sock *inet = inet_sk(sk);
	u16 local = ntohs(inet->inet_sport), remote = ntohs(inet->inet_dport);

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		seq_printf(m, "[%pI6c]:%u [%pI6c]:%u", &sk->sk_v6_rcv_saddr, local,
			   &sk->sk_v6_daddr, remote);
		return;
	}
#endif
	seq_printf(m, "%pI4:%u %pI4:%u", &inet->inet_saddr, local, &inet->inet_daddr, remote);
}

/*
 * Whether the socket was closed or its flow ended during the read. A closed socket loses its
 * addresses before its flow ends. Without `ended`, no other socket had this memory yet.
 */
static bool flows_is_gone(const struct ccatune_flow *flow)
{
	bool closed;

	/* After all other reads of the socket. */
	smp_rmb();
	closed = READ_ONCE(flow->sk->sk_state) == TCP_CLOSE;
	/* Pairs with ccatune_flow_end(). */
	smp_rmb();
	return closed || READ_ONCE(flow->ended);
}

static int flows_show(struct seq_file *m, void *v)
{
	const struct ccatune_flow *flow = v;
	const struct ccatune_algorithm *algorithm = flow->cca->algorithm;
	const struct tcp_sock *tp = tcp_sk(flow->sk);
	struct ccatune_socket s = {
		.now_us = READ_ONCE(tp->tcp_mstamp),
		.bytes_acked = READ_ONCE(tp->bytes_acked),
		.rtt_us = READ_ONCE(tp->srtt_us) >> 3,
		.cwnd_pkts = tcp_snd_cwnd(tp),
		.segments = READ_ONCE(tp->data_segs_out),
		.retransmitted = READ_ONCE(tp->total_retrans),
	};
	struct ccatune_view view = {};

	algorithm->view(flow, &view);
	flows_put_addresses(m, flow->sk);
	ccatune_show_flow(m, flow, &s, &view, algorithm->id, algorithm->show);
	return flows_is_gone(flow) ? SEQ_SKIP : 0;
}

static const struct seq_operations flows_seq_ops = {
	.start = flows_start,
	.next = flows_next,
	.stop = flows_stop,
	.show = flows_show,
};

static int flows_open(struct inode *inode, struct file *file)
{
	return seq_open(file, &flows_seq_ops);
}

const struct proc_ops ccatune_flows_ops = {
	.proc_open = flows_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = seq_release,
};
