// SPDX-License-Identifier: MIT
// Holds packets for some time: jitter and reordering.
//
//   jitter      holds each packet for a time drawn uniformly from [0, max].
//               With in_order a packet also waits for the packets before it.
//               Delays then accumulate, as they do after a radio link that delivers in order
//   reordering  holds a share of the packets for a fixed time; the others overtake them
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "common/random.hpp"
#include "path/element.hpp"

namespace ccatune {

struct DelayerConfig {
    double share = 1;    // share of the packets that are held
    Duration least{}, most{};
    bool in_order = true;
};

class Delayer final : public Element {
public:
    Delayer(const DelayerConfig& config, std::uint64_t seed, std::uint64_t stream)
        : config_(config), chance_(config.share), random_(seed, stream) {}

    Instant next_at() const override { return held_.empty() ? Instant::never() : held_.top().release_at; }

    // A delay that all packets have belongs to the RTT of the handshake.
    Duration wait_of_probe(Instant) const override { return config_.share == 1 ? config_.least : Duration{}; }

    std::uint64_t held() const override { return held_.size(); }

    void act(Instant now) override {
        while (!held_.empty() && held_.top().release_at <= now) {
            const Packet packet = held_.top().packet;
            held_.pop();
            pass(now, packet, now - packet.queued_at);
        }
    }

private:
    struct Held {
        Instant release_at;
        std::uint64_t number;  // the order of arrival, which decides between equal times
        Packet packet;

        bool operator>(const Held& other) const {
            return release_at != other.release_at ? release_at > other.release_at : number > other.number;
        }
    };

    void arrive(Instant now, const Packet& packet) override {
        Instant release_at = chance_.happens(random_) ? now + draw() : now;
        if (config_.in_order) release_at = last_ = std::max(release_at, last_);
        if (release_at == now && (held_.empty() || !config_.in_order)) return pass(now, packet, Duration{});
        Packet queued = packet;
        queued.queued_at = now;
        held_.push({release_at, number_++, queued});
    }

    Duration draw() {
        const auto spread_ns = static_cast<double>((config_.most - config_.least).ns);
        return config_.least + Duration{static_cast<std::int64_t>(random_.unit() * spread_ns)};
    }

    DelayerConfig config_;
    Chance chance_;
    Random random_;
    Instant last_{};
    std::uint64_t number_ = 0;
    std::priority_queue<Held, std::vector<Held>, std::greater<>> held_;
};

}  // namespace ccatune
