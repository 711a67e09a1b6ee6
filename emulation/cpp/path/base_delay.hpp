// SPDX-License-Identifier: MIT
// Delays packets by a propagation delay that changes over time, in order (delay_steps.hpp).
// It is the direction of the packets.
// The simulation itself delays the ACKs.
#pragma once

#include <cstdint>
#include <memory>

#include "common/delay_steps.hpp"
#include "common/ring.hpp"
#include "path/element.hpp"

namespace ccatune {

struct BaseDelayConfig {
    std::shared_ptr<const DelaySteps> steps;
};

class BaseDelay final : public Element {
public:
    explicit BaseDelay(const BaseDelayConfig& config) : steps_(config.steps) {}

    Instant next_at() const override { return held_.empty() ? Instant::never() : held_.front().leaves_at; }
    Duration wait_of_probe(Instant now) const override { return steps_->at(now); }

    std::uint64_t held() const override { return held_.size(); }

    void act(Instant now) override {
        while (!held_.empty() && held_.front().leaves_at <= now) {
            const Packet packet = held_.front().packet;
            held_.pop();
            pass(now, packet, now - packet.queued_at);
        }
    }

private:
    struct Held {
        Instant leaves_at;
        Packet packet;
    };

    void arrive(Instant now, const Packet& packet) override {
        Packet queued = packet;
        queued.queued_at = now;
        held_.push({order_.leaves_at(now, steps_->at(now)), queued});
    }

    std::shared_ptr<const DelaySteps> steps_;
    Order order_;
    Fifo<Held> held_{64};
};

}  // namespace ccatune
