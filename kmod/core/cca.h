/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The contract between a congestion-control algorithm (CCA) and its host.
 *
 * An algorithm is a set of pure functions. A function receives an event and
 * returns a decision. It keeps all its data in the state that the host passes in.
 * The host (kernel module, simulator, replay) fills in the events and applies
 * the decisions. There are two modes, as in Linux:
 *
 *   window   The host calls these functions:
 *              xx_on_ack()    receives what an ACK delivered and lost
 *              xx_grow()      grows the window by these ACKs
 *              xx_ssthresh()  returns the new ssthresh when a loss episode starts
 *              xx_undo()      returns the window to restore if it was spurious
 *            The host does loss recovery and proportional rate reduction itself.
 *            It calls xx_on_event() after these functions, for example after
 *            xx_ssthresh() when recovery starts.
 *   control  xx_on_ack() sets cwnd and pacing rate on every ACK. xx_on_event()
 *            sets them on everything that is not an ACK. An algorithm that learns
 *            from single losses also has xx_on_loss().
 *
 * The core is written in the common subset of C11 and C++20, and also compiles
 * with clang -target bpf. It uses no libc, floating point, allocation, 128-bit
 * arithmetic, signed division, function pointer in a state, or unbounded loop.
 *
 * Clocks are monotonic, in microseconds, in 64 bits, with any starting point. A
 * packet is one segment of mss_bytes. The host counts packets, and its counters
 * may wrap at 2^32, because only differences are used.
 */
#ifndef CCA_H
#define CCA_H

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/types.h>
#define CCA_EPERM EPERM
#define CCA_EEXIST EEXIST
#define CCA_EINVAL EINVAL
#define CCA_EFBIG EFBIG
#define CCA_ERANGE ERANGE
#define CCA_ESTALE ESTALE
#else
#ifndef __VMLINUX_H__	/* a BPF host's vmlinux.h defines these types and bool itself */
#include <stdbool.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#endif
/* The numbers in asm-generic/errno*.h, which the kernel's ABI fixes. */
#define CCA_EPERM 1
#define CCA_EEXIST 17
#define CCA_EINVAL 22
#define CCA_EFBIG 27
#define CCA_ERANGE 34
#define CCA_ESTALE 116
#endif

#ifndef CCA_FN
#define CCA_FN static inline
#endif

/*
 * An index into an array of `count` elements, which the code keeps below that. A host whose
 * verifier does not see this defines its own: one that says so.
 */
#ifndef CCA_INDEX
#define CCA_INDEX(i, count) (i)
#endif

#define CCA_USEC_PER_SEC 1000000u
#define CCA_USEC_PER_MSEC 1000u

/* The largest values that the arithmetic below allows. Hosts clamp to them. */
#define CCA_MAX_PKTS (1u << 24)		/* in any window or count of packets */
#define CCA_MAX_MSS_BYTES (1u << 16)
#define CCA_MAX_RTT_US (1u << 26)	/* 67 s; RFC 6298 allows 60 s as the largest RTO */
#define CCA_MAX_RATE_BYTES_PER_S (1ull << 37)	/* 1.1 Tbit/s */

/* One ACK that advanced the connection, cumulatively or selectively. */
struct cca_ack {
	u64 now_us;
	u32 rtt_us;		/* RTT sample of the newest packet delivered; 0: none */
	u32 acked_pkts;		/* newly delivered */
	u32 lost_pkts;		/* newly marked lost */
	u32 inflight_pkts;	/* after this ACK */
	u32 delivered_pkts;	/* in the whole connection */
	u32 rate_pkts;		/* delivery-rate sample, as in Linux: rate_pkts ... */
	u32 rate_interval_us;	/* ... were delivered in this time; 0: no sample */
	u32 cwnd_pkts;		/* the window in force */
	u32 mss_bytes;
	u32 tx_inflight_pkts;	/* when the sampled packet was sent, itself included; 0: unknown */
	u32 lost_since_pkts;	/* marked lost since the sampled packet was sent */
	u8 app_limited;		/* the sample was taken while the application had no data */
	u8 cwnd_limited;	/* the window limited the sender, not pacing or missing data */
};

/* One packet newly marked lost. It comes before the ACK or timeout that revealed the loss. */
struct cca_loss {
	u64 now_us;
	u32 delivered_pkts;	/* in the whole connection */
	u32 tx_inflight_pkts;	/* when it was sent, itself included; 0: unknown */
	u32 lost_since_pkts;	/* marked lost since it was sent, itself included */
	u8 app_limited;		/* it was sent while the application had no data */
};

enum cca_event_kind {
	CCA_RECOVERY_ENTERED,	/* first loss of an episode */
	CCA_RECOVERY_LEFT,
	CCA_TIMEOUT,		/* RTO: everything in flight counts as lost */
	CCA_UNDO,		/* the episode or timeout proved spurious */
	CCA_TRANSFER_STARTED,	/* the application has data again, after it had none */
	CCA_IDLE_RESTART,	/* the sender restarts after it was idle for at least one RTO */
	CCA_ECN,		/* control mode: the receiver echoed an ECN mark */
};

struct cca_event {
	enum cca_event_kind kind;
	u64 now_us;
	u32 inflight_pkts;
	u32 cwnd_pkts;
	u32 mss_bytes;
};

/* The connection's data when its algorithm is initialised. */
struct cca_start {
	u64 now_us;
	u32 rtt_us;		/* of the handshake; 0: unknown */
	u32 cwnd_pkts;		/* initial window */
	u32 delivered_pkts;	/* in the whole connection so far */
	u32 mss_bytes;
};

/* Control mode: the host applies these values immediately. */
struct cca_decision {
	u64 pacing_bytes_per_s;	/* 0: not paced */
	u32 cwnd_pkts;
};

/* Window mode: the three variables that the algorithm and the host share. */
struct cca_window {
	u32 cwnd_pkts;
	u32 ssthresh_pkts;
	u32 credit_pkts;	/* packets ACKed since the window last grew by one */
};

CCA_FN u64 cca_div(u64 dividend, u64 divisor)
{
	/* Callers exclude a zero divisor. If one passes 0 nevertheless, it gets the dividend. */
	if (!divisor)
		return dividend;
#ifdef __KERNEL__
	return div64_u64(dividend, divisor);
#else
	return dividend / divisor;
#endif
}

CCA_FN u32 cca_min_u32(u32 a, u32 b)
{
	return a < b ? a : b;
}

CCA_FN u32 cca_max_u32(u32 a, u32 b)
{
	return a > b ? a : b;
}

CCA_FN u64 cca_min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

CCA_FN u64 cca_max_u64(u64 a, u64 b)
{
	return a > b ? a : b;
}

CCA_FN u32 cca_clamp_u32(u32 value, u32 low, u32 high)
{
	return value < low ? low : value > high ? high : value;
}

/* Whether counter a is at or after counter b in sequence order. Both may wrap. */
CCA_FN bool cca_reached(u32 a, u32 b)
{
	return (u32)(a - b) < 1u << 31;
}

/* Whether the ACK has a delivery-rate sample; the helpers below need one. */
CCA_FN bool cca_has_rate(const struct cca_ack *ack)
{
	return ack->rate_pkts && ack->rate_interval_us;
}

/* The connection's delivered packets when the sampled packet was sent. */
CCA_FN u32 cca_prior_delivered(const struct cca_ack *ack)
{
	return ack->delivered_pkts - ack->rate_pkts;
}

/* Packets in flight before this ACK. Overflow: three terms of at most 2^24. */
CCA_FN u32 cca_prior_inflight(const struct cca_ack *ack)
{
	return cca_min_u32(ack->inflight_pkts, CCA_MAX_PKTS) +
	       cca_min_u32(ack->acked_pkts, CCA_MAX_PKTS) +
	       cca_min_u32(ack->lost_pkts, CCA_MAX_PKTS);
}

/*
 * Pseudo-random numbers that are the same on every host (Marsaglia 2003,
 * xorshift). A state of 0 would stay 0, so it counts as 1.
 */
CCA_FN u32 cca_draw(u32 *state)
{
	u32 x = *state ? *state : 1;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	*state = x;
	return x;
}

/* The elapsed time; 0 if the clock stepped back. */
CCA_FN u64 cca_elapsed_us(u64 now_us, u64 since_us)
{
	return now_us > since_us ? now_us - since_us : 0;
}

/*
 * The rate of pkts in interval_us. Overflow: 2^24 pkts x 2^16 bytes x
 * 10^6 us/s < 2^60. The interval is at least 1 us.
 */
CCA_FN u64 cca_rate_bytes_per_s(u32 pkts, u32 mss_bytes, u64 interval_us)
{
	u64 bytes = (u64)cca_min_u32(pkts, CCA_MAX_PKTS) *
		    cca_min_u32(mss_bytes, CCA_MAX_MSS_BYTES);

	return cca_min_u64(cca_div(bytes * CCA_USEC_PER_SEC, cca_max_u64(interval_us, 1)),
			   CCA_MAX_RATE_BYTES_PER_S);
}

/*
 * The packets that a rate carries in interval_us (at most 2^26), rounded up.
 * Overflow: 2^37 bytes/s x 2^26 us + 2^36 < 2^64. The divisor is at least 10^6.
 */
CCA_FN u32 cca_pkts_at_rate(u64 bytes_per_s, u64 interval_us, u32 mss_bytes)
{
	u64 rate = cca_min_u64(bytes_per_s, CCA_MAX_RATE_BYTES_PER_S);
	u64 span_us = cca_min_u64(interval_us, CCA_MAX_RTT_US);
	u64 mss = (u64)cca_clamp_u32(mss_bytes, 1, CCA_MAX_MSS_BYTES) * CCA_USEC_PER_SEC;

	return (u32)cca_min_u64(cca_div(rate * span_us + mss - 1, mss), CCA_MAX_PKTS);
}

/* A share of a window or a rate, at most the largest rate. Overflow: 2^37 x 2^16. */
CCA_FN u64 cca_share(u64 whole, u32 permille)
{
	u64 share = cca_div(cca_min_u64(whole, CCA_MAX_RATE_BYTES_PER_S) *
			    cca_min_u32(permille, 1u << 16), 1000);

	return cca_min_u64(share, CCA_MAX_RATE_BYTES_PER_S);
}

CCA_FN u32 cca_share_pkts(u32 whole_pkts, u32 permille)
{
	return (u32)cca_min_u64(cca_share(whole_pkts, permille), CCA_MAX_PKTS);
}

/* The delivery rate of the ACK's sample; 0 without a sample. */
CCA_FN u64 cca_sampled_rate(const struct cca_ack *ack)
{
	return cca_has_rate(ack) ? cca_rate_bytes_per_s(ack->rate_pkts, ack->mss_bytes,
							ack->rate_interval_us) : 0;
}

/*
 * A sliding count of delivered packets, from which the bandwidth over a window W is
 * computed.
 *
 * ACKs arrive in bursts, because the path or the receiver holds them together. A burst
 * is its first ACK and all ACKs up to W / 32 after it. If a gap precedes it, the burst
 * also continues while its ACKs are less than half of the gap apart, for at most the time
 * of the gap, and at most a time that the caller states. Each burst is one sample:
 *
 *   (arrival of its first ACK, packets delivered before that ACK)
 *
 * The bandwidth is measured between the newest sample and the newest sample that is at
 * least W older. So it counts whole bursts, each with the time until the next one
 * begins. How the ACKs are spread within a burst has no effect. A window of fixed length
 * would cut through the gaps, which biases the bandwidth: by a factor of two at 1 Mbit/s
 * and W = 20 ms. A window that cuts through a burst is biased, too: between two pairs of
 * ACKs lies the second one of the first pair only, which is half of the packets.
 *
 * The packets of the newest burst count when the next one begins. The window is at least
 * W long, and at most W, a burst and the longest gap.
 */
#define CCA_RATE_SAMPLES 64u	/* a power of two, > 2 x 32 */
#define CCA_RATE_MERGE 32u

struct cca_rate_window {
	struct {
		u32 at_us;		/* low 32 bits of the arrival */
		u32 before_pkts;	/* delivered before this ACK */
	} sample[CCA_RATE_SAMPLES];
	u64 newest_us;			/* of the newest ACK */
	u32 delivered_pkts;		/* after the newest ACK */
	u32 oldest, next;		/* samples [oldest, next), free-running; empty: closed */
	u32 burst_us;			/* the gap before the newest burst, bounded */
};

/* Opens the window at an ACK. before_pkts: delivered before that ACK. */
CCA_FN void cca_rate_reset(struct cca_rate_window *w, u64 now_us, u32 before_pkts)
{
	w->sample[0].at_us = (u32)now_us;
	w->sample[0].before_pkts = before_pkts;
	w->newest_us = now_us;
	w->delivered_pkts = before_pkts;
	w->oldest = 0;
	w->next = 1;
	w->burst_us = 0;
}

/* Excludes the time before the next ACK: that ACK opens the window. */
CCA_FN void cca_rate_close(struct cca_rate_window *w)
{
	w->oldest = w->next;
}

CCA_FN bool cca_rate_is_closed(const struct cca_rate_window *w)
{
	return w->oldest == w->next;
}

CCA_FN u32 cca_rate_at_us(const struct cca_rate_window *w, u32 index)
{
	return w->sample[index & (CCA_RATE_SAMPLES - 1)].at_us;
}

/*
 * Adds an ACK. most_burst_us bounds the length of a burst after a gap: B includes the gap
 * for that long, and then for W.
 */
CCA_FN void cca_rate_add(struct cca_rate_window *w, u64 now_us, u32 delivered_pkts,
			 u32 window_us, u32 most_burst_us)
{
	u32 before_pkts = w->delivered_pkts, gap_us, age_us, i;

	/* Restart if closed, if the clock stepped back, or after 2^28 us (4.5 min) without ACK. */
	if (cca_rate_is_closed(w) || now_us < w->newest_us ||
	    now_us - w->newest_us > (1u << 28))
		cca_rate_reset(w, now_us, before_pkts);
	gap_us = (u32)(now_us - w->newest_us);
	w->newest_us = now_us;
	w->delivered_pkts = delivered_pkts;
	/* Does the ACK belong to the newest burst? Times are modulo 2^32 us = 71 min. */
	age_us = (u32)now_us - cca_rate_at_us(w, w->next - 1);
	if (age_us <= window_us / CCA_RATE_MERGE ||
	    (age_us < w->burst_us && gap_us < w->burst_us / 2))
		return;
	w->burst_us = cca_min_u32(gap_us, most_burst_us);
	if (w->next - w->oldest == CCA_RATE_SAMPLES)
		w->oldest++;	/* full, because window_us has grown: drop the oldest */
	i = w->next++ & (CCA_RATE_SAMPLES - 1);
	w->sample[i].at_us = (u32)now_us;
	w->sample[i].before_pkts = before_pkts;
	/* Keep the newest sample that is at least a window old, and drop older ones. */
	for (i = 0; i < CCA_RATE_SAMPLES; i++) {
		if (w->next - w->oldest < 2 ||
		    (u32)now_us - cca_rate_at_us(w, w->oldest + 1) < window_us)
			break;
		w->oldest++;
	}
}

/* The time that the samples cover: at least the window, once that much time has passed. */
CCA_FN u32 cca_rate_span_us(const struct cca_rate_window *w)
{
	return cca_rate_is_closed(w) ? 0 : cca_rate_at_us(w, w->next - 1) -
					   cca_rate_at_us(w, w->oldest);
}

/* The packets delivered in that time. */
CCA_FN u32 cca_rate_pkts(const struct cca_rate_window *w)
{
	return w->sample[(w->next - 1) & (CCA_RATE_SAMPLES - 1)].before_pkts -
	       w->sample[w->oldest & (CCA_RATE_SAMPLES - 1)].before_pkts;
}

/* The bandwidth; 0 before two bursts have begun. */
CCA_FN u64 cca_rate_of(const struct cca_rate_window *w, u32 mss_bytes)
{
	u32 span_us = cca_rate_span_us(w);

	return span_us ? cca_rate_bytes_per_s(cca_rate_pkts(w), mss_bytes, span_us) : 0;
}

#endif /* CCA_H */
