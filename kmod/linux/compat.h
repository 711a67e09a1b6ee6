/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every difference between kernel versions that the modules know of, and no
 * other file asks for a version. The lines that CCATUNE_TESTED names are those
 * that the modules are built and run on (emulation/vm/kernel-lines.json).
 */
#ifndef CCATUNE_COMPAT_H
#define CCATUNE_COMPAT_H

#include <linux/version.h>
#include <net/tcp.h>

#define CCATUNE_LINE(major, minor) \
	(LINUX_VERSION_CODE >> 8 == KERNEL_VERSION(major, minor, 0) >> 8)
#define CCATUNE_TESTED (CCATUNE_LINE(6, 1) || CCATUNE_LINE(6, 12) || CCATUNE_LINE(7, 3))

#if !CCATUNE_TESTED
#error "ccatune is tested on Linux 6.1, 6.12 and 7.3 alone; boot one of these lines"
#endif

/* 6.10 hands the ACK's number and flags to cong_control too. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define CCATUNE_CONG_CONTROL(name) \
	static void name(struct sock *sk, u32 ack_seq, int ack_flag, const struct rate_sample *rs)
#else
#define CCATUNE_CONG_CONTROL(name) \
	static void name(struct sock *sk, const struct rate_sample *rs)
#endif

/*
 * CCATUNE_TX_START(name) opens the function that is called with sk when a flow
 * that has nothing in flight sends; `.CCATUNE_TX_START_OP = name` registers it.
 * 7.1 has a callback for it. Before, it is one of the events of cwnd_event.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 1, 0)
#define CCATUNE_TX_START_OP cwnd_event_tx_start
#define CCATUNE_TX_START(name) static void name(struct sock *sk)
#else
#define CCATUNE_TX_START_OP cwnd_event
#define CCATUNE_TX_START(name) \
	static void name##_event(struct sock *sk); \
	static void name(struct sock *sk, enum tcp_ca_event event) \
	{ \
		if (event == CA_EVENT_TX_START) \
			name##_event(sk); \
	} \
	static void name##_event(struct sock *sk)
#endif

#endif /* CCATUNE_COMPAT_H */
