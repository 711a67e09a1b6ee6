// SPDX-License-Identifier: MIT
// How well a token bucket {R, B} explains, after the fact, which packets of a client were lost.
//
//   e     tokens before a packet: min(B, e + R dt); a packet that passed takes its bytes      (R-TCP 2026, 18 to 20)
//   y     (e - bytes) / resolution of a lost packet, and the negative of that of one that passed
//   cost  sum over the packets of min(max(0, y, ln 2 + y / 2), most)
//
// The cost is about -ln of the probability of what was observed, if a packet is lost with the logistic probability
// 1 / (1 + exp((e - bytes) / resolution)). `most` bounds the weight of a packet, because some losses have other causes.
// The resolution covers clocks, the bytes that the bucket counts, and queues in front of it. It is the same for all rates,
// because a wider one costs less.
//
// After a loss e is at most a packet, because the bucket had no tokens for one. After a packet that passed e is at least
// minus a packet. So errors of e do not add up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace ccatune {

struct SentPacket {
    std::uint64_t time_us = 0;  // ascending
    std::uint32_t bytes = 0;    // as the bucket counts them
    bool lost = false;
};

struct ReplayNoise {
    double resolution_bytes = 600, most_cost = 4.6;
};

class PolicerReplay {
public:
    // rate: in bytes per second, above 0.
    PolicerReplay(double rate_bytes_per_s, double bucket_bytes, ReplayNoise noise)
        : bytes_per_us_(rate_bytes_per_s / 1e6), bucket_(bucket_bytes), tokens_(bucket_bytes),
          per_resolution_(1 / noise.resolution_bytes), most_cost_(noise.most_cost) {}

    // Returns e before the packet.
    double on_packet(const SentPacket& packet) {
        const double before = std::min(bucket_, tokens_ + bytes_per_us_ * static_cast<double>(packet.time_us - last_us_));
        const double bytes = packet.bytes;
        const double y = (packet.lost ? before - bytes : bytes - before) * per_resolution_;
        last_us_ = packet.time_us;
        cost_ += std::min(std::max({0.0, y, kLn2 + y / 2}), most_cost_);
        tokens_ = packet.lost ? std::min(before, bytes) : std::max(before - bytes, -bytes);
        return before;
    }

    double cost() const { return cost_; }

private:
    static constexpr double kLn2 = 0.693147;

    double bytes_per_us_, bucket_, tokens_, per_resolution_, most_cost_;
    double cost_ = 0;
    std::uint64_t last_us_ = 0;
};

inline double replay_cost(std::span<const SentPacket> packets, PolicerReplay replay) {
    for (const SentPacket& packet : packets) replay.on_packet(packet);
    return replay.cost();
}

}  // namespace ccatune
