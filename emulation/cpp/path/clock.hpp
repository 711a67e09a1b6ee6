// SPDX-License-Identifier: MIT
// Holds packets until a clock ticks, and then releases all of them.
// A program that forwards packets and sleeps in between has this effect on a path.
//
//   ticks   The time between ticks is drawn uniformly from [least, most], least above 0.
//           Ticks without a packet have no effect.
//           So the first tick after a long silence comes after a time drawn uniformly from [0, most].
//
// Unlike jitter, a clock produces bursts.
// Packets that arrive between the same two ticks leave together, and the next packet leaves at least one tick later.
#pragma once

#include <cstdint>

#include "common/random.hpp"
#include "common/ring.hpp"
#include "path/element.hpp"

namespace ccatune {

struct ClockConfig {
    Duration least{}, most{};
};

class Clock final : public Element {
public:
    Clock(const ClockConfig& config, std::uint64_t seed, std::uint64_t stream) : config_(config), random_(seed, stream) {}

    Instant next_at() const override { return held_.empty() ? Instant::never() : tick_; }

    std::uint64_t held() const override { return held_.size(); }

    void act(Instant now) override {
        if (held_.empty() || tick_ > now) return;
        // A packet that is passed on comes back as an ACK later, never within this call.
        for (; !held_.empty(); held_.pop()) pass(now, held_.front(), now - held_.front().queued_at);
    }

private:
    void arrive(Instant now, const Packet& packet) override {
        if (held_.empty()) tick_ = next_tick(now);
        Packet queued = packet;
        queued.queued_at = now;
        held_.push(queued);
    }

    // Returns the first tick after `now`, in at most about kFollowed draws.
    Instant next_tick(Instant now) {
        if (now - tick_ > Duration{kFollowed * config_.least.ns}) return now + drawn(Duration{}, config_.most);
        Instant tick = tick_;
        while (tick <= now) tick = tick + drawn(config_.least, config_.most);
        return tick;
    }

    Duration drawn(Duration least, Duration most) {
        return least + Duration{static_cast<std::int64_t>(random_.unit() * static_cast<double>((most - least).ns))};
    }

    static constexpr std::int64_t kFollowed = 16;

    ClockConfig config_;
    Random random_;
    Instant tick_{};
    Fifo<Packet> held_{64};
};

}  // namespace ccatune
