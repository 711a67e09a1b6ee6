// SPDX-License-Identifier: MIT
// The packets of the simulation: segments towards the receiver, ACKs back.
//
// Sequence numbers and transmission numbers count segments from 0 and do not wrap:
// a flow may send 2^32 - 2 segments (6 TB).
// Packets carry times as the low 32 bits of microseconds.
// These wrap after 71 minutes, so only differences of less than half of that are used.
#pragma once

#include <array>
#include <cstdint>

#include "common/time.hpp"

namespace ccatune {

inline constexpr std::uint32_t kWireBytes = 1500;
inline constexpr std::uint32_t kMssBytes = 1448;    // without the headers of IPv4 and TCP with timestamps
inline constexpr std::uint32_t kAckWireBytes = 52;  // IPv4 and TCP with timestamps
inline constexpr std::uint32_t kNoNumber = UINT32_MAX;

inline std::uint32_t low_us(Instant at) { return static_cast<std::uint32_t>(at.us()); }

// One full segment.
// The last segment of a transfer is shorter, but counts as full too.
// tx counts a flow's transmissions, and sent_us is the time of this one.
// Together they replace a timestamp option (RFC 7323), but have no coarse ticks.
struct Packet {
    Instant sent_at;
    std::uint32_t seq;
    std::uint32_t tx;
    std::uint32_t flow : 31, ends_transfer : 1;
    std::uint32_t sent_us;
    Instant queued_at{};  // set by each queue that the packet enters
};

struct SeqRange {
    std::uint32_t first, last;  // [first, last)
};

// Beside timestamps, the TCP options have room for three blocks (RFC 2018 section 3).
inline constexpr std::uint32_t kMaxSackBlocks = 3;

struct Ack {
    Instant arrives_at;
    std::uint32_t cumulative;   // all segments below this number have arrived
    std::uint32_t window_pkts;  // segments that may be sent beyond it
    std::uint32_t echo_tx;      // tx of the segment that is echoed (RFC 7323 section 4.3)
    std::uint32_t echo_us;      // the time at which that segment was sent
    std::array<SeqRange, kMaxSackBlocks> blocks;  // the block with the newest segment comes first
    std::uint32_t duplicate;    // the segment that arrived again (DSACK, RFC 2883); kNoNumber: none
    std::uint8_t block_count;
};

}  // namespace ccatune
