// SPDX-License-Identifier: MIT
// The receiver of a flow: cumulative ACKs, every `ack_every` segments in order
// or after the delayed-ACK time, at once for anything out of order and for
// what fills a hole (RFC 5681 section 4.2).
//
// Propagation is in the ACK path alone (simulation.hpp), so "now" is when the
// segment leaves the bottleneck.
#pragma once

#include <cstdint>

#include "packet.hpp"
#include "ring.hpp"
#include "time.hpp"

namespace ccatune {

class Receiver {
public:
    Receiver(std::uint32_t ack_every, Duration delay) : ack_every_(ack_every), delay_(delay) {}

    Instant timer_at() const { return unacked_ ? deadline_ : Instant::never(); }
    std::uint32_t in_order() const { return next_; }

    // True: send the ACK.
    bool take(Instant now, const Packet& packet, Ack* ack) {
        const bool in_order = packet.seq == next_;
        const bool had_hole = highest_ > next_;
        if (packet.seq >= next_) store(packet.seq);
        if (!unacked_++) deadline_ = now + delay_;
        newest_ = packet.seq;
        newest_tx_ = packet.tx;
        newest_sent_at_ = packet.sent_at;
        return unacked_ >= ack_every_ || !in_order || had_hole ? flush(ack) : false;
    }

    bool flush(Ack* ack) {
        *ack = Ack{Instant{}, newest_sent_at_, next_, newest_, newest_tx_};
        unacked_ = 0;
        return true;
    }

private:
    void store(std::uint32_t seq) {
        arrived_.reserve(next_, seq);
        while (highest_ <= seq) {
            arrived_.reserve(next_, highest_);
            arrived_[highest_++] = 0;
        }
        arrived_[seq] = 1;
        while (next_ < highest_ && arrived_[next_]) ++next_;
    }

    Window<std::uint8_t> arrived_;        // [next_, highest_)
    std::uint32_t ack_every_;
    Duration delay_;
    std::uint32_t next_ = 0;     // every segment below has arrived
    std::uint32_t highest_ = 0;  // no segment from here on has
    std::uint32_t unacked_ = 0;
    std::uint32_t newest_ = 0, newest_tx_ = 0;
    Instant deadline_{}, newest_sent_at_{};
};

}  // namespace ccatune
