// SPDX-License-Identifier: MIT
// The bottleneck: a drop-tail queue in front of a link that serves it.
//
// A trace link follows Mahimahi: each opportunity carries a number of bytes; a
// packet may need several and one may carry several packets; what is not used
// when the queue is empty is lost, also the rest of an opportunity; a packet
// that arrives at the very instant of an opportunity has missed it; the trace
// repeats with its period. A constant link is a trace whose opportunities are
// the bytes' own times.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "packet.hpp"
#include "ring.hpp"
#include "time.hpp"

namespace ccatune {

inline constexpr std::uint32_t kWireBytes = 1500;
inline constexpr std::uint32_t kMssBytes = 1448;  // less IPv4, TCP and its timestamps

// Delivery opportunities of a link: immutable, shared by the runs that use it.
struct Opportunities {
    std::vector<std::uint32_t> at_ms;  // ascending, from the start of the trace
    std::uint32_t period_ms = 0;

    Opportunities(std::vector<std::uint32_t> times_ms, std::uint32_t period)
        : at_ms(std::move(times_ms)), period_ms(period) {
        if (at_ms.empty() || period_ms == 0 || at_ms.back() > period_ms || !std::is_sorted(at_ms.begin(), at_ms.end()))
            throw std::invalid_argument("trace: expected ascending times within its period");
    }

    // Opportunities in [from, to) ms, over as many periods as that takes.
    std::uint64_t count(std::int64_t from_ms, std::int64_t to_ms) const { return before(to_ms) - before(from_ms); }

private:
    std::uint64_t before(std::int64_t ms) const {
        const std::int64_t periods = ms / period_ms, rest = ms % period_ms;
        if (periods == 0) return below(rest);
        // What stands at the very end of the period before happens now, not before.
        return static_cast<std::uint64_t>(periods - 1) * at_ms.size() + below(period_ms + rest) + below(rest);
    }

    std::uint64_t below(std::int64_t ms) const {
        return static_cast<std::uint64_t>(std::lower_bound(at_ms.begin(), at_ms.end(), ms) - at_ms.begin());
    }
};

struct LinkConfig {
    std::shared_ptr<const Opportunities> trace;  // null: constant rate
    double rate_bytes_per_s = 0;
    std::int64_t start_ms = 0;
    std::uint32_t opportunity_bytes = kWireBytes;
    std::uint64_t buffer_pkts = 1000;
    std::uint64_t buffer_bytes = UINT64_MAX;
};

class Link {
public:
    explicit Link(const LinkConfig& config) : config_(config) {
        if (config_.trace) {
            const auto& times = config_.trace->at_ms;
            const std::int64_t period = config_.trace->period_ms;
            base_ms_ = config_.start_ms / period * period;
            next_ = static_cast<std::size_t>(
                std::lower_bound(times.begin(), times.end(), config_.start_ms - base_ms_) - times.begin());
            wrap();
        } else if (!(config_.rate_bytes_per_s > 0)) {
            throw std::invalid_argument("link: expected a trace or a rate above 0");
        }
    }

    std::size_t queued() const { return queue_.size(); }
    std::uint64_t drops() const { return drops_; }

    // When the head of the queue may be served next; never while it is empty.
    Instant next_at() const { return queue_.empty() ? Instant::never() : next_at_; }

    // False: the buffer was full and the packet is gone.
    bool enqueue(const Packet& packet) {
        // The limits hold for what waits, not for a packet that has begun to leave.
        const std::uint64_t waiting = queue_.size() - (served_bytes_ != 0 ? 1 : 0);
        if (waiting >= config_.buffer_pkts || (waiting + 1) * kWireBytes > config_.buffer_bytes) {
            ++drops_;
            return false;
        }
        if (queue_.empty()) become_busy(packet.enqueued_at);
        queue_.push(packet);
        return true;
    }

    // Serves everything due now; deliver(packet) for each packet that is complete.
    template <class Deliver>
    void serve(Instant now, Deliver&& deliver) {
        if (!config_.trace) {
            const Packet packet = queue_.front();
            queue_.pop();
            if (!queue_.empty()) next_at_ = now + service_time();
            deliver(packet);
            return;
        }
        while (!queue_.empty() && next_at_ <= now) {
            std::uint32_t budget = config_.opportunity_bytes;
            advance();
            while (budget > 0 && !queue_.empty()) {
                const std::uint32_t used = std::min(budget, kWireBytes - served_bytes_);
                budget -= used;
                served_bytes_ += used;
                if (served_bytes_ < kWireBytes) break;
                served_bytes_ = 0;
                const Packet packet = queue_.front();
                queue_.pop();
                deliver(packet);
            }
        }
    }

    // How long a small packet that came now would wait: what a handshake meets.
    Duration wait_of_probe(Instant now) const {
        if (!config_.trace) {
            if (queue_.empty()) return Duration{};
            return next_at_ - now + service_time() * static_cast<std::int64_t>(queue_.size() - 1);
        }
        Link idle = *this;
        if (queue_.empty()) idle.become_busy(now);
        for (std::uint64_t bytes = queue_.size() * kWireBytes - served_bytes_; bytes >= config_.opportunity_bytes; bytes -= config_.opportunity_bytes)
            idle.advance();
        return idle.next_at_ - now;
    }

    // What the link could have carried in [from, to).
    std::uint64_t capacity_bytes(Instant from, Instant to) const {
        if (!config_.trace) return static_cast<std::uint64_t>((to - from).s() * config_.rate_bytes_per_s);
        const auto ceil_ms = [](Instant t) { return (t.ns + 999'999) / 1'000'000; };
        return config_.trace->count(config_.start_ms + ceil_ms(from), config_.start_ms + ceil_ms(to)) *
               config_.opportunity_bytes;
    }

private:
    Duration service_time() const { return Duration::from_s(kWireBytes / config_.rate_bytes_per_s); }

    void become_busy(Instant now) {
        served_bytes_ = 0;
        if (!config_.trace) {
            next_at_ = now + service_time();
            return;
        }
        if (next_at_ > now) return;
        // Opportunities that nobody used: near ones one by one, a long idle time by search.
        const std::int64_t now_ms = now.ns / 1'000'000 + config_.start_ms;
        const std::int64_t period = config_.trace->period_ms;
        if (now_ms - base_ms_ > period) {
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
    Fifo<Packet> queue_;
    Instant next_at_{};
    std::uint32_t served_bytes_ = 0;  // of the head of the queue
    std::int64_t base_ms_ = 0;        // start of the trace's current period
    std::size_t next_ = 0;            // the next opportunity in it
    std::uint64_t drops_ = 0;
};

}  // namespace ccatune
