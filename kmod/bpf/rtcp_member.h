/* SPDX-License-Identifier: GPL-2.0 */
/* How an R-TCP flow finds its client in BPF: each flow has a client of its own. */
#ifndef CCATUNE_BPF_RTCP_MEMBER_H
#define CCATUNE_BPF_RTCP_MEMBER_H

#include "rtcp_flows.h"
#include "rtcp_tally.h"

struct rtcp_member {
	struct rtcp_client own;
	struct rtcp_tally tally;
};

static inline struct rtcp_client *rtcp_member_client(const struct rtcp_member *m)
{
	return (struct rtcp_client *)&m->own;
}

#define rtcp_member_is_own(m) true
#define rtcp_member_number(m) 0
#define rtcp_member_join(m, sk, now_us) rtcp_client_init(&(m)->own, now_us)
#define rtcp_member_part(m) do { } while (0)
#define rtcp_member_lock(m, recording, anew) do { } while (0)
#define rtcp_member_unlock(m) do { } while (0)
#define rtcp_member_renew(m, recording, now_us) do { } while (0)
#define rtcp_member_count(m, more) do { (void)(more); } while (0)
#define rtcp_member_on_ack(m, recording, now_us) do { } while (0)

#endif /* CCATUNE_BPF_RTCP_MEMBER_H */
