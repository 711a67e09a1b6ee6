// SPDX-License-Identifier: MIT
// From the sender into the bottleneck: random loss, then the queue.
#pragma once

#include <cstdint>

#include "link.hpp"
#include "random.hpp"

namespace ccatune {

class Path {
public:
    Path(Link& link, double loss, std::uint64_t seed, std::uint32_t flow)
        : link_(&link), loss_(loss), random_(seed, flow), flow_(flow) {}

    void send(std::uint32_t seq, std::uint32_t tx, Instant now) {
        if (loss_.happens(random_)) {
            ++lost_pkts_;
            return;
        }
        if (!link_->enqueue({now, seq, tx, flow_}, now)) ++dropped_pkts_;
    }

    std::uint32_t lost_pkts() const { return lost_pkts_; }
    std::uint32_t dropped_pkts() const { return dropped_pkts_; }

private:
    Link* link_;
    Chance loss_;
    Random random_;
    std::uint32_t flow_;
    std::uint32_t lost_pkts_ = 0;
    std::uint32_t dropped_pkts_ = 0;
};

}  // namespace ccatune
