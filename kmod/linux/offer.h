/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How an algorithm module offers its algorithm to the sockets of this machine, and
 * to which of them. Included once a module, for the parameter is the module's own.
 *
 * A restricted algorithm is chosen by processes with CAP_NET_ADMIN in the user
 * namespace that owns their network namespace. `ccatune enable`, or whoever writes
 * net.ipv4.tcp_allowed_congestion_control, opens it to all others at any time.
 */
#ifndef CCATUNE_OFFER_H
#define CCATUNE_OFFER_H

#include <linux/moduleparam.h>
#include <net/tcp.h>

static bool unrestricted;
module_param(unrestricted, bool, 0444);
MODULE_PARM_DESC(unrestricted,
		 "whether programs without CAP_NET_ADMIN may choose the algorithm (default: N)");

static inline int ccatune_offer(struct tcp_congestion_ops *ops)
{
	if (unrestricted)
		ops->flags |= TCP_CONG_NON_RESTRICTED;
	return tcp_register_congestion_control(ops);
}

#endif /* CCATUNE_OFFER_H */
