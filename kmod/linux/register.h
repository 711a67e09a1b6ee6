/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Registers the algorithm of a module with TCP, and determines which sockets may choose it. Each
 * module includes this file once, because the module parameter is its own.
 *
 * Only processes with CAP_NET_ADMIN in the user namespace that owns their network namespace may
 * choose a restricted algorithm. `ccatune-agent enable`, or a write to
 * net.ipv4.tcp_allowed_congestion_control, permits it to all others at any time.
 */
#ifndef CCATUNE_REGISTER_H
#define CCATUNE_REGISTER_H

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

#endif /* CCATUNE_REGISTER_H */
