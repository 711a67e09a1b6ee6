// SPDX-License-Identifier: MIT
// Tail-loss probe (RFC 8985 section 7): when nothing comes back for two round
// trips a segment is sent, a new one if there is one, else the last one again,
// so that its SACK shows what is missing.
//
//   PTO      2 SRTT, and 200 ms more for the delayed ACK where a single segment
//            is in flight; never behind the timeout
//   verdict  what the probe repaired by itself was a loss, and is answered as
//            one: the ACK goes beyond it and no DSACK said that it was needless
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

    // next: one beyond the highest number sent, the probe included.
    void sent(std::uint32_t next, bool is_again) {
        end_ = next;
        is_again_ = is_again;
    }

    // True: the probe has repaired a loss.
    bool take_ack(const Ack& ack, bool told_anything) {
        if (!is_out() || ack.cumulative < end_) return false;
        if (!is_again_ || ack.duplicate == end_ - 1) {
            forget();
            return false;
        }
        if (ack.cumulative > end_) {
            forget();
            return true;
        }
        // A plain duplicate ACK: what the probe doubled has arrived before.
        if (!told_anything) forget();
        return false;
    }

private:
    static constexpr Duration kDelayedAck = Duration::from_ms(200);

    std::uint32_t end_ = kNoNumber;
    bool is_again_ = false;
};

}  // namespace ccatune
