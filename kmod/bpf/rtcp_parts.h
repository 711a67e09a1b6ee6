/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the R-TCP algorithms in BPF have in common: the core's large functions as functions that the
 * verifier checks once (ccatune.h), and a flow's client. Each function is defined before the core's
 * next file, which then calls it instead.
 */
#ifndef CCATUNE_BPF_RTCP_PARTS_H
#define CCATUNE_BPF_RTCP_PARTS_H

#include "rtcp_fit.h"

noinline int rtcp_bpf_fit_on_ack(struct rtcp_fit *fit, u64 acked_bytes, u64 q20s)
{
	if (fit)
		rtcp_fit_on_ack(fit, acked_bytes, q20s);
	return 0;
}

#define rtcp_fit_on_ack rtcp_bpf_fit_on_ack

#include "rtcp_cap.h"

noinline int rtcp_bpf_flow_step(struct rtcp_flow *f, struct rtcp_client *c, struct rtcp_params *p,
				bool lost)
{
	if (f && c && p)
		rtcp_flow_step(f, c, p, lost);
	return 0;
}

/* RTCP_NO_CAP_PKTS where an argument is missing. */
noinline u32 rtcp_bpf_cap_pkts(struct rtcp_flow *f, struct rtcp_client *c, struct rtcp_params *p)
{
	return f && c && p ? rtcp_cap_pkts(f, c, p) : RTCP_NO_CAP_PKTS;
}

#define rtcp_flow_step(f, c, p, lost) rtcp_bpf_flow_step(f, c, (struct rtcp_params *)(p), lost)
#define rtcp_cap_pkts(f, c, p) \
	rtcp_bpf_cap_pkts((struct rtcp_flow *)(f), (struct rtcp_client *)(c), \
			  (struct rtcp_params *)(p))

#ifdef RTCP_PARTS_PACED
noinline u64 rtcp_bpf_capped_rate(struct rtcp_flow *f, struct rtcp_client *c, struct rtcp_params *p, u64 bytes_per_s)
{
	return f && c && p ? rtcp_capped_rate(f, c, p, bytes_per_s) : bytes_per_s;
}

#define rtcp_capped_rate(f, c, p, bytes_per_s) rtcp_bpf_capped_rate((struct rtcp_flow *)(f), (struct rtcp_client *)(c), (struct rtcp_params *)(p), bytes_per_s)

#endif

#include "rtcp_member.h"

noinline int rtcp_bpf_update_share(struct rtcp_flow *f, struct rtcp_client *c, u64 waiting_bytes)
{
	if (f && c)
		rtcp_flow_update_share(f, c, waiting_bytes);
	return 0;
}

#define rtcp_flow_update_share rtcp_bpf_update_share

#ifdef RTCP_PARTS_PACED
noinline int rtcp_bpf_on_ack(struct rtcp_flow *f, struct rtcp_client *c, struct rtcp_params *p,
			     struct cca_ack *ack)
{
	if (f && c && p && ack)
		rtcp_on_ack(f, c, p, ack);
	return 0;
}

#define rtcp_on_ack(f, c, p, ack) \
	rtcp_bpf_on_ack(f, c, (struct rtcp_params *)(p), (struct cca_ack *)(ack))

#include "ensemble_flow.h"

noinline int ens_bpf_flow_turn(struct ens_flow *f, struct ccatune_config *config, u64 now_us,
			       struct ens_values *values, struct rtcp_params *params)
{
	if (f && values && params)
		ens_flow_end_epoch(f, config ? &config->table.ens : NULL, now_us, values, params);
	return 0;
}

#define ens_flow_end_epoch(f, table, now_us, values, params) \
	ens_bpf_flow_turn(f, (struct ccatune_config *)(table), now_us, \
			  (struct ens_values *)(values), params)

noinline bool ens_bpf_flow_on_ack(struct ens_flow *f, struct cca_ack *ack, u32 queueing_delay_us, bool in_slow_start)
{
	return f && ack ? ens_flow_on_ack(f, ack, queueing_delay_us, in_slow_start) : false;
}

#define ens_flow_on_ack(f, ack, queueing_delay_us, in_slow_start) ens_bpf_flow_on_ack((struct ens_flow *)(f), (struct cca_ack *)(ack), queueing_delay_us, in_slow_start)

#include "bbr1_model.h"

noinline u32 bbr1_bpf_inflight_pkts(struct bbr1_state *s, u64 bytes_per_s, u32 gain_permille)
{
	return s ? bbr1_inflight_pkts(s, bytes_per_s, gain_permille) : 0;
}

#define bbr1_inflight_pkts(s, bytes_per_s, gain_permille) bbr1_bpf_inflight_pkts((struct bbr1_state *)(s), bytes_per_s, gain_permille)

noinline int bbr1_bpf_update_bandwidth(struct bbr1_state *s, struct bbr1_params *p, struct cca_ack *ack)
{
	if (s && p && ack)
		bbr1_update_bandwidth(s, p, ack);
	return 0;
}

#define bbr1_update_bandwidth(s, p, ack) bbr1_bpf_update_bandwidth((struct bbr1_state *)(s), (struct bbr1_params *)(p), (struct cca_ack *)(ack))

noinline int bbr1_bpf_update_aggregation(struct bbr1_state *s, struct cca_ack *ack)
{
	if (s && ack)
		bbr1_update_aggregation(s, ack);
	return 0;
}

#define bbr1_update_aggregation(s, ack) bbr1_bpf_update_aggregation((struct bbr1_state *)(s), (struct cca_ack *)(ack))

#include "bbr1.h"

noinline int bbr1_bpf_on_ack(struct bbr1_state *s, struct bbr1_params *p, struct cca_ack *ack,
			     struct cca_decision *d)
{
	if (s && p && ack && d)
		bbr1_on_ack(s, p, ack, d);
	return 0;
}

#define bbr1_on_ack(s, p, ack, d) \
	bbr1_bpf_on_ack(s, (struct bbr1_params *)(p), (struct cca_ack *)(ack), d)

#include "bbr3_model.h"

noinline u32 bbr3_bpf_bdp_pkts(struct bbr3_state *s, u64 bytes_per_s, u32 gain_permille)
{
	return s ? bbr3_bdp_pkts(s, bytes_per_s, gain_permille) : 0;
}

#define bbr3_bdp_pkts(s, bytes_per_s, gain_permille) bbr3_bpf_bdp_pkts((struct bbr3_state *)(s), bytes_per_s, gain_permille)

noinline u32 bbr3_bpf_inflight_pkts(struct bbr3_state *s, u64 bytes_per_s, u32 gain_permille)
{
	return s ? bbr3_inflight_pkts(s, bytes_per_s, gain_permille) : 0;
}

#define bbr3_inflight_pkts(s, bytes_per_s, gain_permille) bbr3_bpf_inflight_pkts((struct bbr3_state *)(s), bytes_per_s, gain_permille)

noinline int bbr3_bpf_update_latest(struct bbr3_state *s, struct cca_ack *ack)
{
	if (s && ack)
		bbr3_update_latest(s, ack);
	return 0;
}

#define bbr3_update_latest(s, ack) bbr3_bpf_update_latest((struct bbr3_state *)(s), (struct cca_ack *)(ack))

noinline int bbr3_bpf_update_congestion(struct bbr3_state *s, struct bbr3_params *p, struct cca_ack *ack)
{
	if (s && p && ack)
		bbr3_update_congestion(s, p, ack);
	return 0;
}

#define bbr3_update_congestion(s, p, ack) bbr3_bpf_update_congestion((struct bbr3_state *)(s), (struct bbr3_params *)(p), (struct cca_ack *)(ack))

noinline int bbr3_bpf_update_aggregation(struct bbr3_state *s, struct cca_ack *ack)
{
	if (s && ack)
		bbr3_update_aggregation(s, ack);
	return 0;
}

#define bbr3_update_aggregation(s, ack) bbr3_bpf_update_aggregation((struct bbr3_state *)(s), (struct cca_ack *)(ack))

noinline int bbr3_bpf_check_full(struct bbr3_state *s, struct cca_ack *ack)
{
	if (s && ack)
		bbr3_check_full(s, ack);
	return 0;
}

#define bbr3_check_full(s, ack) bbr3_bpf_check_full((struct bbr3_state *)(s), (struct cca_ack *)(ack))

#include "bbr3_probe.h"

noinline int bbr3_bpf_cycle(struct bbr3_state *s, struct bbr3_params *p, struct cca_ack *ack)
{
	if (s && p && ack)
		bbr3_cycle(s, p, ack);
	return 0;
}

#define bbr3_cycle(s, p, ack) bbr3_bpf_cycle((struct bbr3_state *)(s), (struct bbr3_params *)(p), (struct cca_ack *)(ack))

#include "bbr3.h"

noinline int bbr3_bpf_on_ack(struct bbr3_state *s, struct bbr3_params *p, struct cca_ack *ack,
			     struct cca_decision *d)
{
	if (s && p && ack && d)
		bbr3_on_ack(s, p, ack, d);
	return 0;
}

#define bbr3_on_ack(s, p, ack, d) \
	bbr3_bpf_on_ack(s, (struct bbr3_params *)(p), (struct cca_ack *)(ack), d)
#endif

#include "rtcp_recording.h"

noinline int rtcp_bpf_put_states(struct rec_record *r, struct rtcp_client *c, struct rtcp_flow *f,
				 u32 number)
{
	if (r && c && f)
		rtcp_put_states(r, c, f, number);
	return 0;
}

#define rtcp_put_states(r, c, f, number) \
	rtcp_bpf_put_states(r, (struct rtcp_client *)(c), (struct rtcp_flow *)(f), number)

#include "../linux/rtcp_kflow.h"

#define __acquires(x)
#define __releases(x)

static inline void rtcp_member_join(struct rtcp_member *m, const struct sock *sk, u64 now_us)
{
	rtcp_client_init(&m->own, now_us);
}

static inline struct rtcp_client *rtcp_member_lock(struct rtcp_member *m,
						   struct ccatune_recording *recording, bool anew)
{
	return &m->own;
}

static inline bool rtcp_member_is_own(const struct rtcp_member *m)
{
	return true;
}

static inline u32 rtcp_member_number(const struct rtcp_member *m)
{
	return 0;
}

#define rtcp_member_part(m) do { } while (0)
#define rtcp_member_unlock(m) do { } while (0)
#define rtcp_member_renew(m, recording, now_us) do { } while (0)
#define rtcp_member_on_ack(m, recording, now_us) do { } while (0)

#endif /* CCATUNE_BPF_RTCP_PARTS_H */
