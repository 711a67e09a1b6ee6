// SPDX-License-Identifier: MIT
// Elements that hold packets for some time: a propagation delay that changes, a clock, jitter and reordering.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "common/delay_steps.hpp"
#include "common/random.hpp"
#include "common/ring.hpp"
#include "path/element.hpp"

namespace ccatune {

struct BaseDelayConfig {
    std::shared_ptr<const DelaySteps> steps;
};

// Delays packets by a propagation delay that changes over time, in order (delay_steps.hpp).
// It is the direction of the packets.
// The simulation itself delays the ACKs.
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

struct ClockConfig {
    Duration least{}, most{};
};

// Holds packets until a clock ticks, and then releases all of them.
// A program that forwards packets and sleeps in between has this effect on a path.
//
//   ticks   The time between ticks is drawn uniformly from [least, most], least above 0.
//           Ticks without a packet have no effect.
//           So the first tick after a long silence comes after a time drawn uniformly from [0, most].
//
// Unlike jitter, a clock produces bursts.
// Packets that arrive between the same two ticks leave together, and the next packet leaves at least one tick later.
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

struct DelayerConfig {
    double share = 1;    // share of the packets that are held
    Duration least{}, most{};
    bool in_order = true;
};

// Holds packets for some time: jitter and reordering.
//
//   jitter      holds each packet for a time drawn uniformly from [0, max].
//               With in_order a packet also waits for the packets before it.
//               Delays then accumulate, as they do after a radio link that delivers in order
//   reordering  holds a share of the packets for a fixed time; the others overtake them
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
