/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the files of tcp_rtcp.ko share. */
#ifndef CCATUNE_RTCP_INTERNAL_H
#define CCATUNE_RTCP_INTERNAL_H

#include "tcp_rtcp.h"

/* rtcp_table.c */
struct rtcp_table *rtcp_table_get(const struct net *net);
struct rtcp_table *rtcp_table_seen(const struct net *net);
void rtcp_table_put(struct rtcp_table *t);
u32 rtcp_ipv6_prefix_bits(void);

#endif /* CCATUNE_RTCP_INTERNAL_H */
