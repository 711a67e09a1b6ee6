/* SPDX-License-Identifier: GPL-2.0 */
/* How an R-TCP flow finds its client in BPF: each flow has a client of its own. */
#ifndef CCATUNE_BPF_RTCP_MEMBER_H
#define CCATUNE_BPF_RTCP_MEMBER_H

#include "rtcp_flows.h"

struct rtcp_member {
	struct rtcp_client own;
};

#endif /* CCATUNE_BPF_RTCP_MEMBER_H */
