// SPDX-License-Identifier: MIT
// Whether a loss episode (a recovery, or a timeout and those that follow it)
// was spurious. Any of three tells:
//
//   timestamps  an ACK advances and echoes a segment sent before the episode's
//               first retransmission: the original arrived (Eifel, RFC 3522;
//               the response is RFC 4015's)
//   F-RTO       behind a timeout, a segment arrives that was sent before it and
//               never again (RFC 5682 section 3.1, step 3b)
//   DSACK       each retransmission of the episode is reported as a duplicate
//               (RFC 3708); also when the episode is over
//
// F-RTO is not asked when the timeout came within a recovery: what arrives then
// may have nothing to do with the retransmission that was lost.
#pragma once

#include <cstdint>

#include "common/packet.hpp"

namespace ccatune {

class Undo {
public:
    // An episode begins; next: what is sent from here on is none of it. again_tx: the oldest retransmission that
    // an earlier episode left in flight, or kNoNumber: its echo is no sign of an original.
    void begin(std::uint32_t una, std::uint32_t next, std::uint32_t again_tx) {
        first_ = una;
        end_ = next;
        first_tx_ = again_tx;
        timeout_tx_ = kNoNumber;
        again_pkts_ = repeated_pkts_ = 0;
        may_ = true;
    }
    void end() { may_ = false; }
    void timed_out(std::uint32_t next_tx, bool is_first) {
        if (is_first) timeout_tx_ = next_tx;
    }
    void left() { timeout_tx_ = kNoNumber; }

    void sent_again(std::uint32_t tx) {
        if (!may_) return;
        if (first_tx_ == kNoNumber) first_tx_ = tx;
        ++again_pkts_;
    }

    // Only of what arrived now and was never sent again.
    bool shows_forward(std::uint32_t tx) const { return may_ && tx < timeout_tx_ && timeout_tx_ != kNoNumber; }

    bool shows_original(std::uint32_t echo_tx) const { return may_ && first_tx_ != kNoNumber && echo_tx < first_tx_; }

    bool take_duplicate(std::uint32_t seq) {
        if (!may_ || seq < first_ || seq >= end_) return false;
        return again_pkts_ != 0 && ++repeated_pkts_ >= again_pkts_;
    }

private:
    std::uint32_t first_ = 0, end_ = 0;
    std::uint32_t first_tx_ = kNoNumber;    // the episode's first retransmission
    std::uint32_t timeout_tx_ = kNoNumber;  // what was sent from its timeout on
    std::uint32_t again_pkts_ = 0, repeated_pkts_ = 0;
    bool may_ = false;
};

}  // namespace ccatune
