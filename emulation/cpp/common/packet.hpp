// SPDX-License-Identifier: MIT
// What travels: segments towards the receiver, ACKs back.
//
// Sequence numbers and transmission numbers count segments from 0 and do not
// wrap: a flow may send 2^32 - 2 segments (6 TB). Times that travel are the low
// 32 bits of microseconds: they wrap after 71 minutes, and only differences
// of less than half of that are taken.
#pragma once

#include <array>
#include <cstdint>

#include "common/time.hpp"

namespace ccatune {

inline constexpr std::uint32_t kWireBytes = 1500;
inline constexpr std::uint32_t kMssBytes = 1448;    // less IPv4, TCP and its timestamps
inline constexpr std::uint32_t kAckWireBytes = 52;  // IPv4, TCP and its timestamps
inline constexpr std::uint32_t kNoNumber = UINT32_MAX;

inline std::uint32_t low_us(Instant at) { return static_cast<std::uint32_t>(at.us()); }

// One full segment, but for a transfer's last one, which is shorter and counts as full all the same. tx counts a flow's transmissions and sent_us is the time of
// this one: together what a timestamp option tells (RFC 7323), without its ticks.
struct Packet {
    Instant sent_at;
    std::uint32_t seq;
    std::uint32_t tx;
    std::uint32_t flow : 31, ends_transfer : 1;
    std::uint32_t sent_us;
    Instant queued_at{};  // set by each queue that it enters
};

struct SeqRange {
    std::uint32_t first, last;  // [first, last)
};

// Three blocks: what the option holds beside timestamps (RFC 2018 section 3).
inline constexpr std::uint32_t kMaxSackBlocks = 3;

struct Ack {
    Instant arrives_at;
    std::uint32_t cumulative;   // every segment below has arrived
    std::uint32_t window_pkts;  // that may be sent beyond it
    std::uint32_t echo_tx;      // of the segment that RFC 7323 section 4.3 echoes
    std::uint32_t echo_us;      // when that was sent
    std::array<SeqRange, kMaxSackBlocks> blocks;  // the one with the newest segment first
    std::uint32_t duplicate;    // kNoNumber, or the segment that came again (DSACK, RFC 2883)
    std::uint8_t block_count;
};

}  // namespace ccatune
