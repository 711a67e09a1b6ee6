// SPDX-License-Identifier: MIT
// Retransmission timeout (RFC 6298):
//
//   SRTT    <- 7/8 SRTT + 1/8 R        RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R|
//   RTO      = SRTT + max(4 RTTVAR, 200 ms), doubled by each timeout in a row
//
// DEVIATION: the RFC bounds the sum by 1 s below. As in Linux, 200 ms bound the
// variance's term: a delayed ACK never looks like a loss.
#pragma once

#include <algorithm>
#include <cstdint>

#include "time.hpp"

namespace ccatune {

class RtoEstimator {
public:
    void sample(Duration rtt) {
        if (!has_sample_) {
            has_sample_ = true;
            srtt_ns_ = rtt.ns;
            rttvar_ns_ = rtt.ns / 2;
        } else {
            const std::int64_t error_ns = rtt.ns - srtt_ns_;
            rttvar_ns_ += ((error_ns < 0 ? -error_ns : error_ns) - rttvar_ns_) / 4;
            srtt_ns_ += error_ns / 8;
        }
        min_rtt_ = std::min(min_rtt_, rtt);
    }
    void timed_out() { backoff_ = std::min(backoff_ + 1, kMaxBackoff); }
    void progressed() { backoff_ = 0; }

    Duration timeout() const {
        const Duration plain = has_sample_ ? Duration{srtt_ns_ + std::max(4 * rttvar_ns_, kMinVarianceTerm.ns)} : kInitial;
        return std::min(plain * (std::int64_t{1} << backoff_), kMax);
    }
    Duration min_rtt() const { return min_rtt_; }

private:
    static constexpr Duration kInitial = Duration::from_ms(1000);
    static constexpr Duration kMinVarianceTerm = Duration::from_ms(200);
    static constexpr Duration kMax = Duration::from_ms(120'000);
    static constexpr int kMaxBackoff = 15;

    bool has_sample_ = false;
    int backoff_ = 0;
    std::int64_t srtt_ns_ = 0;
    std::int64_t rttvar_ns_ = 0;
    Duration min_rtt_ = Duration::from_ms(3'600'000);
};

}  // namespace ccatune
