// SPDX-License-Identifier: MIT
// Decides whether cwnd limited the sender, so that cwnd may grow.
// It follows Linux and looks at one window of data (RFC 7661 states the problem; its section 4.1 has a similar test).
//
//   limited     the window was full at some time in the last round trip
//   slow start  also limited if cwnd is below twice the maximum outstanding in that round trip:
//               bursts that end below cwnd must not stop its doubling
//
// In congestion avoidance a window that was never filled does not grow.
// ROCCET 2025, section III, calls such a window frozen.
#pragma once

#include <cstdint>

namespace ccatune {

class CwndUsage {
public:
    // Call after a segment was sent, or when the full window prevented that.
    void note(std::uint32_t una, std::uint32_t next, bool is_full) {
        const std::uint32_t out_pkts = next - una;
        if (una < round_end_ && !is_full && (limited_ || out_pkts <= most_out_pkts_)) return;
        limited_ = is_full;
        most_out_pkts_ = out_pkts;
        round_end_ = next;
    }

    bool is_limited(std::uint32_t cwnd_pkts, bool in_slow_start) const {
        return limited_ || (in_slow_start && cwnd_pkts < 2 * static_cast<std::uint64_t>(most_out_pkts_));
    }

private:
    std::uint32_t round_end_ = 0;
    std::uint32_t most_out_pkts_ = 0;
    bool limited_ = false;
};

}  // namespace ccatune
