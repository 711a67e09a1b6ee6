// SPDX-License-Identifier: MIT
// A queue and the link that serves it: the bottleneck, an access link, or the uplink of ACKs.
//
//   trace      as in Mahimahi: each opportunity carries a number of bytes.
//              A packet may need several opportunities, and one may carry several packets.
//              Capacity that finds the queue empty is lost, also the rest of an opportunity.
//              A packet that arrives at the instant of an opportunity misses it.
//              The trace repeats with its period
//   constant   one packet after the other, each for the transmission time of its bytes
//   steps      the same, at a rate that changes (capacity.hpp)
//
// The queue is bounded (drop-tail).
// CoDel (codel.hpp) may drop from its front when a packet is about to be served.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>

#include "common/packet.hpp"
#include "common/ring.hpp"
#include "common/time.hpp"
#include "path/capacity.hpp"
#include "path/codel.hpp"
#include "path/element.hpp"

namespace ccatune {

// One of these is set: a trace, steps, or a rate above 0.
struct LinkConfig {
    std::shared_ptr<const Opportunities> trace;
    std::shared_ptr<const RateSteps> steps;
    double rate_bytes_per_s = 0;
    std::int64_t start_ms = 0;  // place in the trace at which the run starts
    std::uint32_t opportunity_bytes = kWireBytes;
    std::uint64_t buffer_pkts = 1000;
    std::uint64_t buffer_bytes = UINT64_MAX;
    std::optional<CodelConfig> codel;
};

// Each item has kBytes bytes and a field queued_at.
template <class Item, std::uint32_t kBytes>
class LinkOf {
public:
    explicit LinkOf(const LinkConfig& config) : config_(config) {
        if (config_.codel) codel_.emplace(*config_.codel);
        if (config_.trace) {
            const auto& times = config_.trace->at_ms;
            const std::int64_t period = config_.trace->period_ms;
            base_ms_ = config_.start_ms / period * period;
            next_ = static_cast<std::size_t>(
                std::lower_bound(times.begin(), times.end(), config_.start_ms - base_ms_) - times.begin());
            wrap();
        } else if (!config_.steps && !(config_.rate_bytes_per_s > 0)) {
            throw std::invalid_argument("link: expected a trace, steps or a rate above 0");
        }
    }

    std::size_t queued() const { return queue_.size(); }
    // Returns the n-th item in the queue, which must hold more than n items.
    const Item& waiting(std::size_t n) const { return queue_[n]; }
    std::uint64_t entered() const { return entered_; }
    std::uint64_t full_drops() const { return full_drops_; }
    std::uint64_t codel_drops() const { return codel_drops_; }

    // Returns when the head of the queue may be served next; never if the queue is empty.
    Instant next_at() const { return queue_.empty() ? Instant::never() : next_at_; }

    // Returns false if the buffer was full and the item was dropped.
    bool enqueue(Instant now, const Item& item) {
        ++entered_;
        // The limits apply to waiting packets, not to a packet whose transmission has begun.
        const std::uint64_t waiting = queue_.size() - (served_bytes_ != 0 ? 1 : 0);
        if (waiting >= config_.buffer_pkts || (waiting + 1) * kBytes > config_.buffer_bytes) {
            ++full_drops_;
            return false;
        }
        if (queue_.empty()) become_busy(now);
        Item queued = item;
        queued.queued_at = now;
        queue_.push(queued);
        return true;
    }

    // Serves all that is due now.
    // Calls deliver(item) for each item that is complete.
    template <class Deliver>
    void serve(Instant now, Deliver&& deliver) {
        if (!config_.trace) {
            const Item item = queue_.front();
            queue_.pop();
            if (codel_) [[unlikely]]
                prepare(now);
            if (!queue_.empty()) next_at_ = end_of_service(now);
            deliver(item);
            return;
        }
        while (!queue_.empty() && next_at_ <= now) {
            std::uint32_t budget = config_.opportunity_bytes;
            advance();
            while (budget > 0 && !queue_.empty()) {
                if (codel_ && served_bytes_ == 0) [[unlikely]]
                    prepare(now);
                const std::uint32_t used = std::min(budget, kBytes - served_bytes_);
                budget -= used;
                served_bytes_ += used;
                if (served_bytes_ < kBytes) break;
                served_bytes_ = 0;
                const Item item = queue_.front();
                queue_.pop();
                deliver(item);
            }
        }
    }

    // Returns how long a small packet that arrived now would wait.
    // The RTT of a handshake is derived from it.
    Duration wait_of_probe(Instant now) const {
        if (!config_.trace) {
            if (queue_.empty()) return Duration{};
            const auto behind = static_cast<std::int64_t>(queue_.size() - 1);
            if (!config_.steps) return next_at_ - now + service_time() * behind;
            return config_.steps->end_of(next_at_, static_cast<double>(behind) * kBytes) - now;
        }
        LinkOf idle = *this;
        if (queue_.empty()) idle.become_busy(now);
        for (std::uint64_t bytes = queue_.size() * kBytes - served_bytes_; bytes >= config_.opportunity_bytes;
             bytes -= config_.opportunity_bytes)
            idle.advance();
        return idle.next_at_ - now;
    }

    // Returns the bytes that the link could have carried in [from, to).
    std::uint64_t capacity_bytes(Instant from, Instant to) const {
        if (config_.steps) return config_.steps->bytes_until(to) - config_.steps->bytes_until(from);
        if (!config_.trace) return static_cast<std::uint64_t>((to - from).s() * config_.rate_bytes_per_s);
        const auto ceil_ms = [](Instant t) { return (t.ns + 999'999) / 1'000'000; };
        return config_.trace->count(config_.start_ms + ceil_ms(from), config_.start_ms + ceil_ms(to)) *
               config_.opportunity_bytes;
    }

private:
    Duration service_time() const { return Duration::from_s(kBytes / config_.rate_bytes_per_s); }

    Instant end_of_service(Instant now) const {
        return config_.steps ? config_.steps->end_of(now, kBytes) : now + service_time();
    }

    // CoDel never empties the queue, because it does not drop a packet with none behind it.
    [[gnu::noinline]] void prepare(Instant now) {
        codel_->prepare(now, queue_, [this] {
            queue_.pop();
            ++codel_drops_;
        });
    }

    void become_busy(Instant now) {
        served_bytes_ = 0;
        if (!config_.trace) {
            next_at_ = end_of_service(now);
            return;
        }
        if (next_at_ > now) return;
        // Skips the opportunities that passed while the queue was empty.
        const std::int64_t now_ms = now.ns / 1'000'000 + config_.start_ms;
        const std::int64_t period = config_.trace->period_ms;
        if (now_ms - base_ms_ >= period) {
            base_ms_ = now_ms / period * period;
            next_ = 0;
        }
        const auto& times = config_.trace->at_ms;
        const auto after = std::upper_bound(times.begin() + static_cast<std::ptrdiff_t>(next_), times.end(),
                                            static_cast<std::uint32_t>(now_ms - base_ms_));
        next_ = static_cast<std::size_t>(after - times.begin());
        wrap();
    }

    void advance() {
        ++next_;
        wrap();
    }

    void wrap() {
        if (next_ == config_.trace->at_ms.size()) {
            next_ = 0;
            base_ms_ += config_.trace->period_ms;
        }
        next_at_ = Instant::from_ms(base_ms_ + config_.trace->at_ms[next_] - config_.start_ms);
    }

    LinkConfig config_;
    Fifo<Item> queue_;
    Instant next_at_{};
    std::uint32_t served_bytes_ = 0;  // bytes already served of the head of the queue
    std::int64_t base_ms_ = 0;        // start of the trace's current period
    std::size_t next_ = 0;            // the next opportunity in this period
    std::uint64_t entered_ = 0, full_drops_ = 0, codel_drops_ = 0;
    std::optional<Codel> codel_;
};

using Link = LinkOf<Packet, kWireBytes>;

// An access link: a link with a queue of its own, before or after the bottleneck.
class LinkElement final : public Element {
public:
    explicit LinkElement(const LinkConfig& config) : link_(config) {}

    Instant next_at() const override { return link_.next_at(); }
    Duration wait_of_probe(Instant now) const override { return link_.wait_of_probe(now); }

    std::uint64_t held() const override { return link_.queued(); }

    void act(Instant now) override {
        const std::uint64_t before = link_.codel_drops();
        link_.serve(now, [&](const Packet& packet) { pass(now, packet, now - packet.queued_at); });
        drop(link_.codel_drops() - before);
    }

private:
    void arrive(Instant now, const Packet& packet) override {
        if (!link_.enqueue(now, packet)) drop();
    }
    std::uint64_t codel_dropped() const override { return link_.codel_drops(); }

    Link link_;
};

}  // namespace ccatune
