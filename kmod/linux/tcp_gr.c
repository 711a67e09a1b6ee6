// SPDX-License-Identifier: GPL-2.0
/* tcp_gr.ko: GR (kmod/core/gr.h) as a congestion control of Linux. */
#define CCATUNE_ALGORITHM gr

#include <linux/inet_diag.h>
#include <net/tcp.h>

#include "ccatune.h"
#include "show.h"
#include "gr_host.h"

struct alg_sock {
	void *flow;
	/* Copies for alg_get_info(), which must not follow the pointer. */
	u64 rate_bytes_per_s;
	u32 window_pkts;		/* packets acknowledged ... */
	u32 window_us;			/* ... in this time; their ratio is the bandwidth */
	u32 mss_bytes;
	u32 min_rtt_us;
	u32 cwnd_gain_pct;
};

static void alg_copy_info(struct sock *sk, const struct alg_flow *f)
{
	struct alg_sock *own = inet_csk_ca(sk);
	const struct cca_rate_window *w = &f->core.gr.bandwidth;
	u32 window_us = cca_rate_span_us(w);

	WRITE_ONCE(own->rate_bytes_per_s, f->decision.pacing_bytes_per_s);
	WRITE_ONCE(own->window_us, window_us);
	WRITE_ONCE(own->window_pkts, window_us ? cca_rate_pkts(w) : 0);
	WRITE_ONCE(own->mss_bytes, f->core.gr.mss_bytes);
	WRITE_ONCE(own->min_rtt_us, f->core.gr.min_rtt_us);
	WRITE_ONCE(own->cwnd_gain_pct, f->core.params.cwnd_gain_pct);
}

/*
 * Uses the structure of bbr, because this has a rate. `ss -i` prints the bandwidth, the minimum
 * RTT, the rate divided by the bandwidth, and the gain of cwnd.
 *
 * The kernel calls this without the socket's lock. Meanwhile the socket may change to another
 * algorithm, which then uses the private area. Its content is therefore only read as numbers:
 * pointers are not followed, and divisors are checked.
 */
static size_t alg_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct alg_sock *own = inet_csk_ca(sk);
	u64 bandwidth, gain_q8, rate;

	if (!(ext & (1 << (INET_DIAG_BBRINFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(info, 0, sizeof(*info));
	rate = min_t(u64, READ_ONCE(own->rate_bytes_per_s), CCA_MAX_RATE_BYTES_PER_S);
	bandwidth = cca_rate_bytes_per_s(READ_ONCE(own->window_pkts), READ_ONCE(own->mss_bytes),
					 READ_ONCE(own->window_us));
	/* Overflow: 2^37 x 2^8. Without a bandwidth the gain is 0. */
	gain_q8 = bandwidth ? cca_div(rate << 8, bandwidth) : 0;
	info->bbr.bbr_bw_lo = (u32)bandwidth;
	info->bbr.bbr_bw_hi = (u32)(bandwidth >> 32);
	info->bbr.bbr_min_rtt = READ_ONCE(own->min_rtt_us);
	info->bbr.bbr_pacing_gain = (u32)min_t(u64, gain_q8, U32_MAX);
	info->bbr.bbr_cwnd_gain = (u32)cca_div((u64)READ_ONCE(own->cwnd_gain_pct) << 8, 100);
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}

/* As module.h requires. */
#define alg_get_info alg_get_info

#include "module.h"

MODULE_DESCRIPTION("TCP GR: delay-based rate control whose parameters follow the network state");
