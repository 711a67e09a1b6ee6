/* SPDX-License-Identifier: GPL-2.0 */
/*
 * BBR's core for BPF. Its large functions become parts, which the verifier checks once each
 * (ccatune.h). Each is defined before the core's next file, which then calls the part instead.
 */
#ifndef CCATUNE_BPF_BBR_PARTS_H
#define CCATUNE_BPF_BBR_PARTS_H

/*
 * Defines f_part(), which calls the core's function f(). If a pointer is NULL, it returns
 * `otherwise` instead. PART_VOID is for a function that returns nothing.
 */
#define PART(type, f, parameters, present, otherwise, arguments) \
	noinline type f##_part parameters \
	{ \
		return (present) ? f arguments : otherwise; \
	}
#define PART_VOID(f, parameters, present, arguments) \
	noinline int f##_part parameters \
	{ \
		if (present) \
			f arguments; \
		return 0; \
	}

#include "bbr1_model.h"

PART(u32, bbr1_inflight_pkts, (const struct bbr1_state *s, u64 bytes_per_s, u32 gain_permille),
     s, 0, (s, bytes_per_s, gain_permille))
#define bbr1_inflight_pkts bbr1_inflight_pkts_part

PART_VOID(bbr1_update_bandwidth, (struct bbr1_state *s, const struct bbr1_params *p,
				  const struct cca_ack *ack),
	  s && p && ack, (s, p, ack))
#define bbr1_update_bandwidth bbr1_update_bandwidth_part

PART_VOID(bbr1_update_aggregation, (struct bbr1_state *s, const struct cca_ack *ack),
	  s && ack, (s, ack))
#define bbr1_update_aggregation bbr1_update_aggregation_part

#include "bbr1.h"

PART_VOID(bbr1_on_ack, (struct bbr1_state *s, const struct bbr1_params *p,
			const struct cca_ack *ack, struct cca_decision *d),
	  s && p && ack && d, (s, p, ack, d))
#define bbr1_on_ack bbr1_on_ack_part

#include "bbr3_model.h"

PART(u32, bbr3_bdp_pkts, (const struct bbr3_state *s, u64 bytes_per_s, u32 gain_permille),
     s, 0, (s, bytes_per_s, gain_permille))
#define bbr3_bdp_pkts bbr3_bdp_pkts_part

PART(u32, bbr3_inflight_pkts, (const struct bbr3_state *s, u64 bytes_per_s, u32 gain_permille),
     s, 0, (s, bytes_per_s, gain_permille))
#define bbr3_inflight_pkts bbr3_inflight_pkts_part

PART_VOID(bbr3_update_latest, (struct bbr3_state *s, const struct cca_ack *ack), s && ack,
	  (s, ack))
#define bbr3_update_latest bbr3_update_latest_part

PART_VOID(bbr3_update_congestion, (struct bbr3_state *s, const struct bbr3_params *p,
				   const struct cca_ack *ack),
	  s && p && ack, (s, p, ack))
#define bbr3_update_congestion bbr3_update_congestion_part

PART_VOID(bbr3_update_aggregation, (struct bbr3_state *s, const struct cca_ack *ack),
	  s && ack, (s, ack))
#define bbr3_update_aggregation bbr3_update_aggregation_part

PART_VOID(bbr3_check_full, (struct bbr3_state *s, const struct cca_ack *ack), s && ack, (s, ack))
#define bbr3_check_full bbr3_check_full_part

#include "bbr3_probe.h"

PART_VOID(bbr3_cycle, (struct bbr3_state *s, const struct bbr3_params *p,
		       const struct cca_ack *ack),
	  s && p && ack, (s, p, ack))
#define bbr3_cycle bbr3_cycle_part

#include "bbr3.h"

PART_VOID(bbr3_on_ack, (struct bbr3_state *s, const struct bbr3_params *p,
			const struct cca_ack *ack, struct cca_decision *d),
	  s && p && ack && d, (s, p, ack, d))
#define bbr3_on_ack bbr3_on_ack_part

#endif /* CCATUNE_BPF_BBR_PARTS_H */
