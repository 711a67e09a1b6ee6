// SPDX-License-Identifier: MIT
// What travels: segments towards the receiver, ACKs back.
//
// Sequence numbers and transmission numbers count from 0 and do not wrap: a
// flow may send 2^32 - 1 segments (6 TB), which the sender enforces.
#pragma once

#include <cstdint>

#include "time.hpp"

namespace ccatune {

inline constexpr std::uint32_t kWireBytes = 1500;
inline constexpr std::uint32_t kMssBytes = 1448;     // less IPv4, TCP and its timestamps
inline constexpr std::uint32_t kAckWireBytes = 52;   // IPv4, TCP and its timestamps

// One full segment. tx counts a flow's transmissions, so that an original and
// its retransmission can be told apart, as timestamps do in TCP (RFC 7323).
struct Packet {
    Instant sent_at;
    std::uint32_t seq;
    std::uint32_t tx;
    std::uint32_t flow;
    Instant queued_at{};  // set by each queue that it enters
};

// No ACK is lost and each segment out of order is acknowledged at once, so the
// one segment that an ACK answers is all its SACK blocks could tell.
struct Ack {
    Instant arrives_at;
    Instant newest_sent_at;
    std::uint32_t cumulative;  // every segment below has arrived
    std::uint32_t newest;      // the segment that this ACK answers
    std::uint32_t newest_tx;
};

}  // namespace ccatune
