// SPDX-License-Identifier: MIT
// Round-trip time and retransmission timeout: RFC 6298, with the variance as in Linux.
// Source for Linux: Sarolahti, Kuznetsov, "Congestion Control in Linux TCP", USENIX 2002, section 3.4.
//
//   SRTT    <- SRTT + (R - SRTT) / 8
//   MDEV    <- MDEV + (|R - SRTT| - MDEV) / 4, or / 32 if R is below SRTT by more than
//              MDEV: a round trip that becomes shorter must not lengthen the timeout
//   RTTVAR   = the largest MDEV of this round trip, at least 50 ms; it rises at once,
//              and falls by a quarter of the difference per round trip
//   RTO      = SRTT + 4 RTTVAR, doubled by each consecutive timeout, at most 120 s
//
// DEVIATION: RFC 6298 demands an RTO of at least 1 s.
// As in Linux, only 4 RTTVAR has a minimum, 200 ms, so that a delayed ACK never looks like a loss.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/time.hpp"

namespace ccatune {

class RtoEstimator {
public:
    // round_over: all that was outstanding when round_over was last true has been acknowledged.
    void sample(std::uint32_t rtt_us, bool round_over) {
        const auto r = static_cast<std::int64_t>(rtt_us);
        if (min_rtt_us_ == UINT32_MAX) {
            srtt_q3_us_ = r * 8;
            mdev_q2_us_ = r * 2;  // R / 2
            rttvar_q2_us_ = mdev_max_q2_us_ = std::max(mdev_q2_us_, kMinVarianceTermUs);
            min_rtt_us_ = rtt_us;
            return;
        }
        const std::int64_t error_us = r - srtt_q3_us_ / 8;
        srtt_q3_us_ += error_us;
        deviate(error_us);
        if (round_over) {
            rttvar_q2_us_ -= (rttvar_q2_us_ - mdev_max_q2_us_) / 4;
            mdev_max_q2_us_ = kMinVarianceTermUs;
        }
        min_rtt_us_ = std::min(min_rtt_us_, rtt_us);
    }
    void timed_out() { backoff_ = std::min(backoff_ + 1, kMaxBackoff); }
    void progressed() { backoff_ = 0; }

    Duration timeout() const { return std::min(base() * (std::int64_t{1} << backoff_), kMax); }
    // Returns the timeout without exponential back-off.
    Duration base() const { return knows() ? Duration::from_us(srtt_q3_us_ / 8 + rttvar_q2_us_) : kInitial; }
    bool knows() const { return min_rtt_us_ != UINT32_MAX; }
    std::uint32_t srtt_us() const { return static_cast<std::uint32_t>(srtt_q3_us_ / 8); }
    std::uint32_t min_rtt_us() const { return min_rtt_us_; }

private:
    static constexpr Duration kInitial = Duration::from_ms(1000);
    static constexpr Duration kMax = Duration::from_ms(120'000);
    static constexpr std::int64_t kMinVarianceTermUs = 200'000;  // minimum of 4 RTTVAR
    static constexpr int kMaxBackoff = 15;

    void deviate(std::int64_t error_us) {
        const bool fell = error_us < 0;
        // mdev_q2 is four times MDEV, so a quarter of the difference becomes the whole difference here.
        std::int64_t change_us = (fell ? -error_us : error_us) - mdev_q2_us_ / 4;
        if (fell && change_us > 0) change_us /= 8;
        mdev_q2_us_ += change_us;
        mdev_max_q2_us_ = std::max(mdev_max_q2_us_, mdev_q2_us_);
        rttvar_q2_us_ = std::max(rttvar_q2_us_, mdev_max_q2_us_);
    }

    std::int64_t srtt_q3_us_ = 0;      // 8 SRTT
    std::int64_t mdev_q2_us_ = 0;      // 4 MDEV
    std::int64_t mdev_max_q2_us_ = 0;  // 4 times the largest MDEV of this round trip
    std::int64_t rttvar_q2_us_ = 0;    // 4 RTTVAR
    std::uint32_t min_rtt_us_ = UINT32_MAX;
    int backoff_ = 0;
};

}  // namespace ccatune
