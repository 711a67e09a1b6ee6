// SPDX-License-Identifier: MIT
// Proportional rate reduction (RFC 9937 section 7), in segments.
// It brings a window to ssthresh within the round trip of a recovery.
//
//   in flight > ssthresh   sndcnt = ceil(delivered x ssthresh / RecoverFS) - out
//   otherwise              sndcnt = min(ssthresh - in flight, max(delivered - out, delivered by this ACK) + safe)
//   cwnd = in flight + sndcnt; the first retransmission is always allowed
//
// delivered, out: packets delivered and packets sent since the recovery began.
// safe: 1 if the ACK advances and reports no further loss, otherwise 0.
// RecoverFS: packets in flight when it began, including those that its ACK delivered.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cca.h"

namespace ccatune {

class Prr {
public:
    // sent_pkts: packets that the connection has sent so far.
    void begin(std::uint32_t sent_pkts) {
        flight_pkts_ = delivered_pkts_ = 0;
        sent_before_pkts_ = sent_pkts;
    }

    // Returns the window after an ACK in recovery.
    std::uint32_t window(const cca_ack& ack, std::uint32_t ssthresh_pkts, std::uint32_t sent_pkts, bool advanced) {
        const std::int64_t out = sent_pkts - sent_before_pkts_;
        // Losses that a timer found are reported with the next ACK.
        if (!flight_pkts_)
            flight_pkts_ = std::max<std::int64_t>(
                std::int64_t{ack.inflight_pkts} + ack.acked_pkts + ack.lost_pkts - out, 1);
        delivered_pkts_ += ack.acked_pkts;
        std::int64_t count;
        if (ack.inflight_pkts > ssthresh_pkts) {
            // The product is at most 2^24 x 2^32.
            count = (delivered_pkts_ * ssthresh_pkts + flight_pkts_ - 1) / flight_pkts_ - out;
        } else {
            const bool is_safe = advanced && ack.lost_pkts == 0;
            count = std::max<std::int64_t>(delivered_pkts_ - out, ack.acked_pkts) + is_safe;
            count = std::min<std::int64_t>(ssthresh_pkts - ack.inflight_pkts, count);
        }
        const std::int64_t least = out == 0 ? 1 : 0;
        return ack.inflight_pkts + static_cast<std::uint32_t>(std::max(count, least));
    }

private:
    std::int64_t flight_pkts_ = 0;  // RecoverFS
    std::int64_t delivered_pkts_ = 0;
    std::uint32_t sent_before_pkts_ = 0;
};

}  // namespace ccatune
