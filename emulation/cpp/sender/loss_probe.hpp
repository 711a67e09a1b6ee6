// SPDX-License-Identifier: MIT
// Tail-loss probe (RFC 8985 section 7).
// If no ACK arrives for two round trips, the sender transmits a new segment.
// If there is no new one, it retransmits the last segment.
// The SACK of this probe shows which segments are missing.
//
//   PTO      2 SRTT, plus 200 ms for the delayed ACK if a single segment is in flight; never later than the RTO
//   verdict  A retransmitted probe repaired a loss if an ACK goes beyond it and no DSACK reports it as a duplicate.
//            The sender answers that loss like any other.
#pragma once

#include <cstdint>

#include "common/packet.hpp"
#include "common/time.hpp"

namespace ccatune {

class LossProbe {
public:
    bool is_out() const { return end_ != kNoNumber; }
    void forget() { end_ = kNoNumber; }

    static Duration timeout(std::uint32_t srtt_us, std::uint32_t in_flight_pkts) {
        return Duration::from_us(2 * std::int64_t{srtt_us}) + (in_flight_pkts == 1 ? kDelayedAck : Duration{});
    }

    // next: one above the highest number sent, including the probe's.
    void sent(std::uint32_t next, bool is_again) {
        end_ = next;
        is_again_ = is_again;
    }

    // Returns true if the probe has repaired a loss.
    bool take_ack(const Ack& ack, bool reports_anything) {
        if (!is_out() || ack.cumulative < end_) return false;
        if (!is_again_ || ack.duplicate == end_ - 1) {
            forget();
            return false;
        }
        if (ack.cumulative > end_) {
            forget();
            return true;
        }
        // A plain duplicate ACK means that the original of the probe had arrived before.
        if (!reports_anything) forget();
        return false;
    }

private:
    static constexpr Duration kDelayedAck = Duration::from_ms(200);

    std::uint32_t end_ = kNoNumber;
    bool is_again_ = false;
};

}  // namespace ccatune
