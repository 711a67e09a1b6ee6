/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All differences between kernel versions that concern the modules. No other file tests the
 * version. The modules are built and tested on the kernel lines that CCATUNE_TESTED lists
 * (emulation/vm/kernel-lines.json).
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

/* Since 6.10, cong_control also receives the ACK's sequence number and flags. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define CCATUNE_CONG_CONTROL(name) \
	static void name(struct sock *sk, u32 ack_seq, int ack_flag, const struct rate_sample *rs)
#else
#define CCATUNE_CONG_CONTROL(name) \
	static void name(struct sock *sk, const struct rate_sample *rs)
#endif

/*
 * CCATUNE_TX_START(name) is the head of a function with the argument sk. The kernel calls it when
 * a flow sends while nothing is in flight. `.CCATUNE_TX_START_OP = name` registers it. Since 7.1
 * the kernel has a callback for this. Before 7.1 it is one of the events of cwnd_event.
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
