// SPDX-License-Identifier: GPL-2.0
/* The values of an R-TCP flow in `ss -ti`. */
#include <linux/inet_diag.h>
#include <net/tcp.h>

#include "tcp_rtcp.h"

/*
 * Call this with the socket's lock held. The client's lock is not held, so the values of the
 * client may be of different moments.
 */
void rtcp_copy_info(struct sock *sk, const struct rtcp_member *m, const struct rtcp_flow *flow,
		    const struct rtcp_params *params)
{
	struct rtcp_sock *own = inet_csk_ca(sk);
	const struct rtcp_client *c = rtcp_member_client(m);
	u32 gain = 0;

	if (flow->phase == RTCP_CAPPED)
		gain = 1000;
	else if (flow->phase == RTCP_PROBING)
		gain = 1000 + params->probe_gain_permille;
	else if (flow->phase == RTCP_REFILLING)
		gain = 1000 * 1000 / (1000 + params->probe_gain_permille);
	WRITE_ONCE(own->limit_bytes_per_s,
		   READ_ONCE(c->kind) == RTCP_LIMITED ? READ_ONCE(c->bytes_per_s) : 0);
	WRITE_ONCE(own->min_rtt_us, READ_ONCE(c->min_rtt_us));
	WRITE_ONCE(own->gain_permille, gain);
	WRITE_ONCE(own->sharing, READ_ONCE(c->sharing));
}
EXPORT_SYMBOL_GPL(rtcp_copy_info);

/*
 * Uses the structure of bbr, because this has a rate. `ss -i` prints R as the bandwidth (0: no
 * limiter is known) and the minimum RTT. The pacing gain is the gain of the cap (0: no cap). The
 * cwnd gain is the number of flows that share the cap.
 *
 * The kernel calls this without the socket's lock. Meanwhile the socket may change to another
 * algorithm, which then uses the private area. Its content is therefore only read as numbers.
 */
size_t rtcp_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct rtcp_sock *own = inet_csk_ca(sk);

	if (!(ext & (1 << (INET_DIAG_BBRINFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(info, 0, sizeof(*info));
	info->bbr.bbr_bw_lo = READ_ONCE(own->limit_bytes_per_s);
	info->bbr.bbr_min_rtt = READ_ONCE(own->min_rtt_us);
	info->bbr.bbr_pacing_gain = (u32)cca_div((u64)READ_ONCE(own->gain_permille) << 8, 1000);
	info->bbr.bbr_cwnd_gain = READ_ONCE(own->sharing) << 8;
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}
EXPORT_SYMBOL_GPL(rtcp_get_info);
