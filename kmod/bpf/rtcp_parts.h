/* SPDX-License-Identifier: GPL-2.0 */
/*
 * R-TCP's core for BPF. Its large functions become parts, which the verifier checks once each
 * (ccatune.h). Each is defined before the core's next file, which then calls the part instead.
 */
#ifndef CCATUNE_BPF_RTCP_PARTS_H
#define CCATUNE_BPF_RTCP_PARTS_H

#include "bbr_parts.h"

#include "rtcp_fit.h"

PART_VOID(rtcp_fit_on_ack, (struct rtcp_fit *fit, u64 acked_bytes, u64 q20s), fit,
	  (fit, acked_bytes, q20s))
#define rtcp_fit_on_ack rtcp_fit_on_ack_part

#include "rtcp_probing.h"

PART_VOID(rtcp_flow_step, (struct rtcp_flow *f, struct rtcp_client *c,
			   const struct rtcp_params *p, bool lost),
	  f && c && p, (f, c, p, lost))
#define rtcp_flow_step rtcp_flow_step_part

PART(u32, rtcp_cap_pkts, (const struct rtcp_flow *f, const struct rtcp_client *c,
			  const struct rtcp_params *p),
     f && c && p, RTCP_NO_CAP_PKTS, (f, c, p))
#define rtcp_cap_pkts rtcp_cap_pkts_part

PART(u64, rtcp_capped_rate, (const struct rtcp_flow *f, const struct rtcp_client *c,
			     const struct rtcp_params *p, u64 bytes_per_s),
     f && c && p, bytes_per_s, (f, c, p, bytes_per_s))
#define rtcp_capped_rate rtcp_capped_rate_part

#include "rtcp_member.h"

PART_VOID(rtcp_flow_update_share, (struct rtcp_flow *f, struct rtcp_client *c, u64 waiting_bytes),
	  f && c, (f, c, waiting_bytes))
#define rtcp_flow_update_share rtcp_flow_update_share_part

#ifdef RTCP_OVER	/* over CUBIC the verifier follows both within the ACK, which is faster */

PART_VOID(rtcp_on_ack, (struct rtcp_flow *f, struct rtcp_client *c, const struct rtcp_params *p,
			const struct cca_ack *ack),
	  f && c && p && ack, (f, c, p, ack))
#define rtcp_on_ack rtcp_on_ack_part

#include "ensemble_flow.h"

PART(bool, ens_flow_on_ack, (struct ens_flow *f, const struct cca_ack *ack, u32 queueing_delay_us,
			     bool in_slow_start),
     f && ack, false, (f, ack, queueing_delay_us, in_slow_start))
#define ens_flow_on_ack ens_flow_on_ack_part

#endif

#include "rtcp_recording.h"

PART_VOID(rtcp_put_states, (struct rec_record *r, const struct rtcp_client *c,
			    const struct rtcp_flow *f, u32 number),
	  r && c && f, (r, c, f, number))
#define rtcp_put_states rtcp_put_states_part

#define __acquires(x)
#define __releases(x)

#endif /* CCATUNE_BPF_RTCP_PARTS_H */
