// SPDX-License-Identifier: MIT
// The window that a receiver offers, in segments.
// It is fixed, or autotuned as Linux does by default (sysctl tcp_moderate_rcvbuf).
// Source: Fisk, Feng, "Dynamic Right-Sizing", 2001.
// Autotuning computes once per round trip:
//
//   window = 2 x segments that the application took in it + 16, if that number grew
//
// The round trip is the shortest time in which a whole window arrived.
// The application takes data as it arrives, so the buffer holds only data that is out of order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/time.hpp"

namespace ccatune {

class ReceiveWindow {
public:
    explicit ReceiveWindow(std::uint32_t most_pkts, bool autotune)
        : window_pkts_(autotune ? std::min(kFirstPkts, most_pkts) : most_pkts), most_pkts_(most_pkts) {}

    std::uint32_t pkts() const { return window_pkts_; }

    // All segments below `next` have arrived.
    void take(Instant now, std::uint32_t next) {
        if (window_pkts_ >= most_pkts_) return;
        if (!started_) {
            started_ = true;
            begin_window(now, next);
            begin_round(now, next);
        }
        if (next >= window_end_) {
            rtt_ = std::min(rtt_, now - window_at_);
            begin_window(now, next);
        }
        if (now - round_at_ < rtt_) return;
        const std::uint32_t taken_pkts = next - round_first_;
        if (taken_pkts > taken_pkts_) {
            taken_pkts_ = taken_pkts;
            // 64 bits: the sum can exceed 2^32.
            const std::uint64_t wanted_pkts = 2ull * taken_pkts + kSlackPkts;
            window_pkts_ = static_cast<std::uint32_t>(
                std::clamp<std::uint64_t>(wanted_pkts, window_pkts_, most_pkts_));
        }
        begin_round(now, next);
    }

private:
    static constexpr std::uint32_t kFirstPkts = 45;  // 64 KiB
    static constexpr std::uint32_t kSlackPkts = 16;

    void begin_window(Instant now, std::uint32_t next) {
        window_at_ = now;
        window_end_ = next + window_pkts_;
    }
    void begin_round(Instant now, std::uint32_t next) {
        round_at_ = now;
        round_first_ = next;
    }

    std::uint32_t window_pkts_, most_pkts_;
    std::uint32_t window_end_ = 0, round_first_ = 0, taken_pkts_ = 0;
    Instant window_at_{}, round_at_{};
    Duration rtt_ = Duration::from_ms(3'600'000);
    bool started_ = false;
};

}  // namespace ccatune
