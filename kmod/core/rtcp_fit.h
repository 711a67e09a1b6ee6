/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * R-TCP: estimates the rate limiter that best fits the acknowledged bytes. Zhu et al. 2026,
 * "R-TCP: A framework to optimize TCP performance over rate-limiting networks", section 4.2
 * and appendices D to F. Equations have the paper's numbers.
 *
 *   C(B, R, t) = B + R t           bytes that a limiter passes since t = 0            (3)
 *   A(t) <= C(B, R, t)             acknowledged bytes of the transfer                 (4)
 *   omega candidates for B:        b_0 = 0, b_j = B_l + j Omega                     (35)
 *     B_max = A(t_h), B_l = (1 - theta) A(t_h), Omega = (B_max - B_l) / (omega - 1)
 *                                                                         (6, 34, 36)
 *   r_j = max((A(t_i) - b_j) / t_i, r_j)       at every ACK                         (10)
 *   p_j = (b_j - b_{j-1}) / (r_{j-1} - r_j)    time at which the two lines meet     (11)
 *   If t_i < 2 p_j, the area between C and A is smaller for b_{j-1} than for b_j
 *                                                                    (5, Theorem 1)
 *   The best fit is the largest j for which that does not hold         (Theorem 2)
 *   If the best fit is the largest candidate, a larger one (by Omega) is added, and the
 *   smallest is dropped                                            (range extension)
 *
 * No history is stored. If the flow always uses the limiter {B, R} fully, then for t >= 2 t_h
 * the error of b is at most Omega, and that of r at most 2 Omega / t. Derivation, with
 * B = b_{j-1} + x Omega: r_{j-1} = R + x Omega / t_h. It is the best fit while
 * t < t_h (1 + x) / x, and its error is then below (1 + x) Omega / t. After that the best fit
 * is r_j = R - (1 - x) Omega / t. Until 2 t_h the best fit is b_0, and a little longer for
 * B < b_1. If the range began too low, it moves up by a few candidates each time that t
 * doubles, because r_j starts with the ACK at which b_j was added.
 *
 * Bounds: A and b below 2^44 bytes; t below 2^40 us (12 days), stored in 2^-20 s below 2^41.
 * Rates saturate at 2^32 - 1 bytes/s, 34 Gbit/s. The smallest t is RTCP_MIN_US.
 *
 * CHOICES: rates are rounded up, so that (4) holds. No bucket is larger than A(t). In the paper
 * B_max = A(t_h) > B, and a bucket that was never emptied explains nothing. An ACK extends the
 * range at most RTCP_EXTENSIONS times. The next ACK may extend it further.
 */
#ifndef CCA_RTCP_FIT_H
#define CCA_RTCP_FIT_H

#include "params.h"

#define RTCP_MAX_CANDIDATES 17u
#define RTCP_MIN_CANDIDATES 3u		/* a range extension drops one, and two must remain */
#define RTCP_EXTENSIONS 4u
#define RTCP_MIN_US 1000u
#define RTCP_MAX_US (1ull << 40)
#define RTCP_MAX_BYTES (1ull << 43)
#define RTCP_MAX_BYTES_PER_S 0xffffffffu

/* A condition that the compiler checks, in all versions of C and C++. */
#define RTCP_ASSERT(name, condition) typedef char rtcp_assert_##name[(condition) ? 1 : -1]

struct rtcp_params {
#define CCA_ONLY CCA_ID_rtcp_cubic
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) u32 name;
#include "params.def"
};

/* The same parameters for the other base algorithms, so that cca_params_init() works for all. */
struct rtcp_bbr1_values {
#define CCA_ONLY CCA_ID_rtcp_bbr
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) u32 name;
#include "params.def"
};

struct rtcp_bbr3_values {
#define CCA_ONLY CCA_ID_rtcp_bbr3
#define CCA_PARAM(algorithm, name, unit, min, default, max, kind, meaning) u32 name;
#include "params.def"
};

RTCP_ASSERT(bbr1_has_the_same_parameters,
	    sizeof(struct rtcp_bbr1_values) == sizeof(struct rtcp_params) &&
	    __builtin_offsetof(struct rtcp_bbr1_values, probe_gain_permille) ==
	    __builtin_offsetof(struct rtcp_params, probe_gain_permille));
RTCP_ASSERT(bbr3_has_the_same_parameters,
	    sizeof(struct rtcp_bbr3_values) == sizeof(struct rtcp_params) &&
	    __builtin_offsetof(struct rtcp_bbr3_values, probe_gain_permille) ==
	    __builtin_offsetof(struct rtcp_params, probe_gain_permille));

struct rtcp_fit {
	u64 low_bytes;		/* b_j = low + j step, ... */
	u64 step_bytes;		/* Omega, at least 1 */
	u32 rate_bytes_per_s[RTCP_MAX_CANDIDATES];	/* r_j */
	u8 count;		/* 0: detection has not been triggered */
	u8 best;		/* index of the best fit */
	bool from_zero;		/* ... except b_0, which is 0 */
};

/* --- time, bytes and rates --------------------------------------------------------- */

/* Converts to 2^-20 s. Overflow: 2^40 us are below 2^21 s; 10^6 x 2^20 < 2^40. */
CCA_FN u64 rtcp_q20s(u64 us)
{
	u64 span_us = cca_min_u64(us, RTCP_MAX_US);
	u64 whole_s = cca_div(span_us, CCA_USEC_PER_SEC);

	return (whole_s << 20) +
	       cca_div((span_us - whole_s * CCA_USEC_PER_SEC) << 20, CCA_USEC_PER_SEC);
}

/* The bytes that a rate carries, rounded down. Overflow: 2^32 x 2^21, and 2^32 x 2^20. */
CCA_FN u64 rtcp_carried(u32 bytes_per_s, u64 q20s)
{
	return bytes_per_s * (q20s >> 20) + (bytes_per_s * (q20s & ((1u << 20) - 1)) >> 20);
}

CCA_FN u64 rtcp_carried_us(u32 bytes_per_s, u64 us)
{
	return rtcp_carried(bytes_per_s, rtcp_q20s(us));
}

/* The smallest rate that carries these bytes: rounded up. Overflow: 2^43 x 2^20 + 2^41 < 2^64. */
CCA_FN u32 rtcp_rate(u64 bytes, u64 q20s)
{
	u64 span = cca_max_u64(q20s, 1);
	u64 rate = cca_div((cca_min_u64(bytes, RTCP_MAX_BYTES) << 20) + span - 1, span);

	return (u32)cca_min_u64(rate, RTCP_MAX_BYTES_PER_S);
}

CCA_FN u64 rtcp_less(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* --- candidates ---------------------------------------------------------------------- */

/* The largest candidate. Call this after the trigger only. */
CCA_FN u32 rtcp_last(const struct rtcp_fit *f)
{
	return CCA_INDEX(f->count - 1u, RTCP_MAX_CANDIDATES);
}

/* r_j */
CCA_FN u32 rtcp_rate_of(const struct rtcp_fit *f, u32 j)
{
	return f->rate_bytes_per_s[CCA_INDEX(j, RTCP_MAX_CANDIDATES)];
}

CCA_FN void rtcp_set_rate_of(struct rtcp_fit *f, u32 j, u32 bytes_per_s)
{
	f->rate_bytes_per_s[CCA_INDEX(j, RTCP_MAX_CANDIDATES)] = bytes_per_s;
}

/* b_j: below 2^43 + 17 x 2^43 / 2. */
CCA_FN u64 rtcp_bucket(const struct rtcp_fit *f, u32 j)
{
	return f->from_zero && !j ? 0 : f->low_bytes + j * f->step_bytes;
}

/* Sets the range at the trigger: equations 6, 34 to 36. acked_bytes: A(t_h). */
CCA_FN void rtcp_fit_begin(struct rtcp_fit *f, const struct rtcp_params *p, u64 acked_bytes)
{
	u64 most_bytes = cca_min_u64(acked_bytes, RTCP_MAX_BYTES);
	u32 theta = cca_clamp_u32(p->reduction_permille, 1, 999), j;

	f->count = (u8)cca_clamp_u32(p->candidates, RTCP_MIN_CANDIDATES, RTCP_MAX_CANDIDATES);
	/* 2^43 x 10^3 < 2^53. The count is at least 3. */
	f->step_bytes = cca_max_u64(cca_div(cca_div(most_bytes * theta, 1000), f->count - 1u), 1);
	f->low_bytes = rtcp_less(most_bytes, f->step_bytes * (f->count - 1u));
	f->from_zero = true;
	f->best = 0;
	for (j = 0; j < RTCP_MAX_CANDIDATES; j++)
		f->rate_bytes_per_s[j] = 0;
}

/* Equation 9, for one candidate. */
CCA_FN u32 rtcp_least_rate(const struct rtcp_fit *f, u32 j, u64 acked_bytes, u64 q20s)
{
	return rtcp_rate(rtcp_less(acked_bytes, rtcp_bucket(f, j)), q20s);
}

/* Equation 10, for all candidates. It divides only if the ACK is above the candidate's line. */
CCA_FN void rtcp_fit_raise(struct rtcp_fit *f, u64 acked_bytes, u64 q20s)
{
	u32 j;

	for (j = 0; j <= rtcp_last(f); j++)
		if (rtcp_bucket(f, j) + rtcp_carried(rtcp_rate_of(f, j), q20s) < acked_bytes)
			rtcp_set_rate_of(f, j, rtcp_least_rate(f, j, acked_bytes, q20s));
}

/*
 * Theorem 1, without its division: t (r_{j-1} - r_j) < 2 (b_j - b_{j-1}). If the smaller bucket
 * has no larger rate, the lines do not meet, and its line is always the lower one.
 */
CCA_FN bool rtcp_smaller_fits(const struct rtcp_fit *f, u32 j, u64 q20s)
{
	u32 smaller = rtcp_rate_of(f, j - 1), larger = rtcp_rate_of(f, j);

	return smaller <= larger || rtcp_carried(smaller - larger, q20s) <
				    2 * (rtcp_bucket(f, j) - rtcp_bucket(f, j - 1));
}

/* Theorem 2: goes down from the largest candidate while the next smaller one fits better. */
CCA_FN void rtcp_fit_choose(struct rtcp_fit *f, u64 q20s)
{
	u32 j = rtcp_last(f);

	while (j && rtcp_smaller_fits(f, j, q20s))
		j--;
	f->best = (u8)j;
}

/* Section 4.2, range compensation: drops the smallest candidate and adds a larger one. */
CCA_FN void rtcp_fit_extend(struct rtcp_fit *f, u64 acked_bytes, u64 q20s)
{
	u32 last = rtcp_last(f), j;

	for (j = 0; j < last; j++)
		rtcp_set_rate_of(f, j, rtcp_rate_of(f, j + 1));
	f->low_bytes += f->step_bytes;
	f->from_zero = false;
	rtcp_set_rate_of(f, last, rtcp_least_rate(f, last, acked_bytes, q20s));
}

/* Updates the fit with an ACK at time t = q20s (in 2^-20 s). Does nothing before the trigger. */
CCA_FN void rtcp_fit_on_ack(struct rtcp_fit *f, u64 acked_bytes, u64 q20s)
{
	u32 i;

	if (!f->count)
		return;
	rtcp_fit_raise(f, acked_bytes, q20s);
	rtcp_fit_choose(f, q20s);
	for (i = 0; i < RTCP_EXTENSIONS; i++) {
		if (f->best != rtcp_last(f) ||
		    rtcp_bucket(f, f->best) + f->step_bytes > acked_bytes)
			break;
		rtcp_fit_extend(f, acked_bytes, q20s);
		rtcp_fit_choose(f, q20s);
	}
}

CCA_FN u64 rtcp_fit_bucket(const struct rtcp_fit *f)
{
	return rtcp_bucket(f, f->best);
}

CCA_FN u32 rtcp_fit_rate(const struct rtcp_fit *f)
{
	return rtcp_rate_of(f, f->best);
}

/* C(B, R, t) of the best fit. Overflow: 2^47 + 2^54. */
CCA_FN u64 rtcp_fit_line(const struct rtcp_fit *f, u64 q20s)
{
	return rtcp_fit_bucket(f) + rtcp_carried(rtcp_fit_rate(f), q20s);
}

#endif /* CCA_RTCP_FIT_H */
