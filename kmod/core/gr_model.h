/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * GR's model of the path (gr.h): RTTmin, the mean RTT of the interval, B, round trips
 * counted by packets, outages, and the rates and windows that are derived from them.
 */
#ifndef CCA_GR_MODEL_H
#define CCA_GR_MODEL_H

#include "cca.h"
#include "params.h"

#define GR_MIN_CWND_PKTS 2u
#define GR_DELAYED_ACK_PKTS 2u
#define GR_HYSTART_SAMPLES 8u		/* RFC 9406 N_RTT_SAMPLE */
#define GR_HYSTART_MIN_US 4000u		/* RFC 9406 MIN_RTT_THRESH */
#define GR_HYSTART_MAX_US 16000u	/* RFC 9406 MAX_RTT_THRESH */
#define GR_DRAIN_ROUNDS 2u
#define GR_OUTAGE_US 1000000u
#define GR_OUTAGE_PKTS 4u
#define GR_LOSS_MIN_PKTS 3u		/* with fewer losses their share means nothing */

enum gr_mode {
	GR_SLOW_START,
	GR_CRUISE,
	GR_DRAIN,
};

/* One u32 for each GR parameter in params.def: W, Delta, T and those that are set by hand. */
struct gr_params {
#define CCA_ONLY CCA_ID_gr
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) u32 name;
#include "params.def"
};

struct gr_state {
	struct cca_rate_window bandwidth;
	u64 rate_bytes_per_s;		/* at most 2^37 */
	u64 undo_rate_bytes_per_s;	/* rate before the timeout */
	u64 marked_rate_bytes_per_s;	/* ECN: upper bound in this round trip; 0: no mark */
	u64 min_rtt_at_us;		/* last time that an RTT was within 1/16 of RTTmin */
	u64 interval_start_us;
	u64 interval_rtt_us;		/* sum: at most 2^24 samples of 2^26 us */
	u32 interval_samples;
	u32 min_rtt_us;			/* 0: no sample yet */
	u32 newest_rtt_us;
	u32 outage_end_us;		/* low 32 bits: first ACK after an outage */
	u32 drain_min_rtt_us;
	u32 cwnd_pkts;
	u32 undo_cwnd_pkts;		/* 0: no timeout to undo */
	u32 mss_bytes;
	u32 round_end_pkts;		/* delivered count at which the round trip ends */
	u32 round_delivered_pkts;
	u32 round_lost_pkts;
	u32 round_min_rtt_us;		/* of the first GR_HYSTART_SAMPLES */
	u32 round_samples;
	u8 mode;			/* enum gr_mode */
	u8 undo_mode;
	u8 hold : 1;			/* loss: the rate is at most B in this round trip */
	u8 marked_round : 1;		/* the round trip after the mark has begun */
	u8 outage : 1;			/* no RTT of a packet sent after the outage yet */
	u8 drain_rounds : 2;		/* round trips of DRAIN that have begun */
};

/* --- helpers ------------------------------------------------------------ */

CCA_FN bool gr_knows_rtt(const struct gr_state *s)
{
	return s->min_rtt_us != 0;
}

/* The queueing delay in an RTT sample (RTT - RTTmin); 0 if it has none. */
CCA_FN u32 gr_queueing_delay_us(const struct gr_state *s, u32 rtt_us)
{
	return rtt_us > s->min_rtt_us && gr_knows_rtt(s) ? rtt_us - s->min_rtt_us : 0;
}

CCA_FN u64 gr_floor_bytes_per_s(const struct gr_state *s)
{
	/* At least 1 byte/s, because a rate of 0 means "not paced". */
	return cca_max_u64(cca_rate_bytes_per_s(1, s->mss_bytes, cca_max_u32(s->min_rtt_us, 1)), 1);
}

/* The cwnd for a rate. Overflow: 2^24 packets x a gain of at most 2^10. */
CCA_FN u32 gr_cwnd_for(const struct gr_state *s, const struct gr_params *p, u64 rate)
{
	u64 span_us = (u64)s->min_rtt_us + p->delay_threshold_us;
	u64 pkts = (u64)cca_pkts_at_rate(rate, span_us, s->mss_bytes) * p->cwnd_gain_pct;

	pkts = cca_div(pkts, 100) + GR_DELAYED_ACK_PKTS;
	return (u32)cca_min_u64(cca_max_u64(pkts, GR_MIN_CWND_PKTS), CCA_MAX_PKTS);
}

/* B x target / RTT. Overflow: 2^37 x 2^26. RTT is at least 1. */
CCA_FN u64 gr_scale(u64 bandwidth, u32 target_us, u64 rtt_us)
{
	return cca_div(bandwidth * cca_min_u32(target_us, CCA_MAX_RTT_US),
		       cca_max_u64(rtt_us, 1));
}

/*
 * Twice the window per RTTmin, because slow start doubles the window; 0 (not paced)
 * before an RTT is known.
 */
CCA_FN u64 gr_slow_start_rate(const struct gr_state *s)
{
	if (!gr_knows_rtt(s))
		return 0;
	return cca_max_u64(cca_rate_bytes_per_s(2 * s->cwnd_pkts, s->mss_bytes, s->min_rtt_us),
			   gr_floor_bytes_per_s(s));
}

CCA_FN void gr_start_interval(struct gr_state *s, u64 now_us)
{
	s->interval_start_us = now_us;
	s->interval_rtt_us = 0;
	s->interval_samples = 0;
}

CCA_FN void gr_start_round(struct gr_state *s, u32 delivered_pkts, u32 inflight_pkts)
{
	s->round_end_pkts = delivered_pkts + inflight_pkts;
	s->round_delivered_pkts = 0;
	s->round_lost_pkts = 0;
	s->round_min_rtt_us = 0;
	s->round_samples = 0;
}

CCA_FN void gr_decide(const struct gr_state *s, struct cca_decision *d)
{
	d->cwnd_pkts = s->cwnd_pkts;
	d->pacing_bytes_per_s = s->rate_bytes_per_s;
}

/* --- the model: RTTmin, the interval's RTT, B, the round trip ------------ */

/* Notes an outage. Call this before the ACK is added to the bandwidth. */
CCA_FN void gr_note_outage(struct gr_state *s, const struct gr_params *p,
			   const struct cca_ack *ack)
{
	u64 delay_us = cca_max_u64((u64)s->min_rtt_us + p->delay_threshold_us, s->newest_rtt_us);
	u64 outage_us = cca_max_u64(2 * delay_us, GR_OUTAGE_US);

	if (!gr_knows_rtt(s) || cca_rate_is_closed(&s->bandwidth) ||
	    cca_elapsed_us(ack->now_us, s->bandwidth.newest_us) <= outage_us ||
	    (ack->rtt_us && ack->rtt_us <= outage_us))
		return;
	s->outage = 1;
	s->outage_end_us = (u32)ack->now_us;
	cca_rate_close(&s->bandwidth);
	gr_start_interval(s, ack->now_us);
	gr_start_round(s, ack->delivered_pkts, ack->inflight_pkts);
}

/* The outage is over with the first RTT of a packet that was sent after its end. */
CCA_FN void gr_end_outage(struct gr_state *s, u64 now_us, u32 rtt_us)
{
	if ((u32)now_us - s->outage_end_us >= rtt_us)
		s->outage = 0;
}

CCA_FN void gr_sample_rtt(struct gr_state *s, const struct cca_ack *ack)
{
	u32 rtt_us = cca_min_u32(ack->rtt_us, CCA_MAX_RTT_US);

	if (!rtt_us)
		return;
	gr_end_outage(s, ack->now_us, rtt_us);
	s->newest_rtt_us = rtt_us;
	if (!gr_knows_rtt(s) || rtt_us < s->min_rtt_us)
		s->min_rtt_us = rtt_us;
	if (rtt_us - s->min_rtt_us <= s->min_rtt_us / 16)
		s->min_rtt_at_us = ack->now_us;
	if (s->outage)
		return;
	if (!s->drain_min_rtt_us || rtt_us < s->drain_min_rtt_us)
		s->drain_min_rtt_us = rtt_us;
	if (s->interval_samples < CCA_MAX_PKTS) {
		s->interval_rtt_us += rtt_us;
		s->interval_samples++;
	}
	if (s->round_samples < GR_HYSTART_SAMPLES) {
		if (!s->round_samples || rtt_us < s->round_min_rtt_us)
			s->round_min_rtt_us = rtt_us;
		s->round_samples++;
	}
}

/*
 * Returns true if the round trip has ended and the next one has begun. It ends when
 * the packets in flight at its start are delivered or lost. Without counting the losses
 * it would take ten round trips where a rate limit delivers only a tenth of the packets.
 */
CCA_FN bool gr_count_round(struct gr_state *s, const struct gr_params *p,
			   const struct cca_ack *ack)
{
	u64 lost, sent;

	s->round_delivered_pkts += ack->acked_pkts;
	s->round_lost_pkts += ack->lost_pkts;
	if ((u32)(ack->delivered_pkts + s->round_lost_pkts - s->round_end_pkts) >= 1u << 31)
		return false;
	lost = s->round_lost_pkts;
	sent = lost + s->round_delivered_pkts;
	s->hold = lost >= GR_LOSS_MIN_PKTS && lost * 1000 >= sent * p->loss_hold_permille;
	gr_start_round(s, ack->delivered_pkts, ack->inflight_pkts);
	return true;
}

CCA_FN void gr_update_model(struct gr_state *s, const struct gr_params *p,
			    const struct cca_ack *ack)
{
	s->mss_bytes = cca_clamp_u32(ack->mss_bytes, 1, CCA_MAX_MSS_BYTES);
	if (cca_rate_is_closed(&s->bandwidth))
		gr_start_interval(s, ack->now_us);
	gr_note_outage(s, p, ack);
	cca_rate_add(&s->bandwidth, ack->now_us, ack->delivered_pkts, p->bandwidth_window_us,
		     cca_max_u32(p->bandwidth_window_us, s->min_rtt_us / 4));
	gr_sample_rtt(s, ack);
}

#endif /* CCA_GR_MODEL_H */
