// SPDX-License-Identifier: MIT
// Decides whether a loss episode (a recovery, or a timeout and those that follow it) was spurious.
// Any of three signs suffices:
//
//   timestamps  An ACK advances and echoes a segment that was sent before the episode's first retransmission:
//               the original arrived (Eifel, RFC 3522; the response is that of RFC 4015).
//   F-RTO       After a timeout, a segment arrives that was sent before the timeout and never retransmitted
//               (RFC 5682 section 3.1, step 3b).
//   DSACK       Each retransmission of the episode is reported as a duplicate (RFC 3708).
//               This also works after the episode has ended.
//
// F-RTO is not used if the timeout came within a recovery.
// A segment that arrives then may have nothing to do with the lost retransmission.
#pragma once

#include <cstdint>

#include "common/packet.hpp"

namespace ccatune {

class Undo {
public:
    // An episode begins.
    // next: segments from here on do not belong to it.
    // again_tx: the oldest retransmission that an earlier episode left in flight, or kNoNumber.
    // Its echo is no sign that an original arrived.
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

    void retransmitted(std::uint32_t tx) {
        if (!may_) return;
        if (first_tx_ == kNoNumber) first_tx_ = tx;
        ++again_pkts_;
    }

    // Call only for a segment that arrived now and was never retransmitted.
    bool shows_forward(std::uint32_t tx) const { return may_ && tx < timeout_tx_ && timeout_tx_ != kNoNumber; }

    bool shows_original(std::uint32_t echo_tx) const { return may_ && first_tx_ != kNoNumber && echo_tx < first_tx_; }

    bool take_duplicate(std::uint32_t seq) {
        if (!may_ || seq < first_ || seq >= end_) return false;
        return again_pkts_ != 0 && ++repeated_pkts_ >= again_pkts_;
    }

private:
    std::uint32_t first_ = 0, end_ = 0;
    std::uint32_t first_tx_ = kNoNumber;    // oldest retransmission of the episode, or left in flight by an earlier one
    std::uint32_t timeout_tx_ = kNoNumber;  // the first transmission after the timeout
    std::uint32_t again_pkts_ = 0, repeated_pkts_ = 0;
    bool may_ = false;
};

}  // namespace ccatune
