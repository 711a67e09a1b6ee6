// SPDX-License-Identifier: MIT
// Computes when the next segment may be sent at a pacing rate.
// Like Linux's TSO sizing, it sends bursts of as many segments as the rate carries in 1/1024 s:
//
//   burst = clamp(rate / 1024 s / MSS, least, 44)     44: 64 KiB, the largest TSO packet
//
// `least` is two for most algorithms (tcp_min_tso_segs).
// If a slow flow sent single segments, the delayed ACK of each would make the measured RTT 40 ms too long.
// Up to 35 Mbit/s bursts are pairs.
//
// Linux does not pace the first ten segments of a connection, as the path of a real flow shows (docs/fidelity.md).
//
// Limits: Linux lets bursts grow for round trips below 4 ms (tcp_tso_rtt_log); the pacer does not.
// A burst that the full window interrupted continues when it opens.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/time.hpp"

namespace ccatune {

class Pacer {
public:
    void restart(Instant now) { next_at_ = now; }
    bool may_send(Instant now) const { return left_ != 0 || now >= next_at_; }
    Instant next_at() const { return next_at_; }

    // Call when a segment is sent.
    // bytes_per_s 0: no pacing.
    void sent(Instant now, std::uint64_t bytes_per_s, std::uint32_t least_pkts, std::uint32_t mss_bytes) {
        if (unpaced_pkts_ != 0) --unpaced_pkts_;
        if (!bytes_per_s || unpaced_pkts_ != 0) {
            next_at_ = now;
            left_ = 0;
            return;
        }
        if (bytes_per_s != bytes_per_s_) {
            bytes_per_s_ = bytes_per_s;
            gap_ = Duration{static_cast<std::int64_t>(mss_bytes * 1'000'000'000ull / bytes_per_s)};
            burst_pkts_ = static_cast<std::uint32_t>(std::min<std::uint64_t>((bytes_per_s >> 10) / mss_bytes, kMaxBurstPkts));
        }
        left_ = (left_ == 0 ? std::max(burst_pkts_, least_pkts) : left_) - 1;
        // A timer that fired late, because the window was closed, earns no additional burst.
        next_at_ = std::max(next_at_ + gap_, now);
    }

private:
    static constexpr std::uint32_t kMaxBurstPkts = 44;
    static constexpr std::uint32_t kUnpacedPkts = 10;

    Instant next_at_{};
    std::uint64_t bytes_per_s_ = 0;  // the rate that gap_ and burst_pkts_ belong to
    Duration gap_{};
    std::uint32_t burst_pkts_ = 0;
    std::uint32_t left_ = 0;  // segments of the current burst that may still be sent
    std::uint32_t unpaced_pkts_ = kUnpacedPkts + 1;  // one more than the segments that are still not paced
};

}  // namespace ccatune
