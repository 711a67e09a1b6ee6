// SPDX-License-Identifier: MIT
// Controlled delay (RFC 8289): a queue that drops from its front while its packets have waited too long.
//
//   late          the front packet has waited at least TARGET, and so has every front packet for an INTERVAL;
//                 never if at most one packet is behind it
//   first drop    the front packet, when it is late
//   later drops   at t' = t + INTERVAL / sqrt(count) (section 5.1, the control law), while front packets are late
//   count         starts at 1, or at what it gained in the last dropping state if that ended within 16 INTERVALs
//
// Source: RFC 8289, sections 4.4, 5.3 to 5.6.
// No packet is marked, as there is no ECN.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/time.hpp"

namespace ccatune {

struct CodelConfig {
    Duration target = Duration::from_ms(5);
    Duration interval = Duration::from_ms(100);
};

class Codel {
public:
    explicit Codel(const CodelConfig& config) : config_(config) {}

    // Called whenever a packet is about to be served, or the queue has run empty.
    // drop() removes the front packet; the new front packet may be served.
    // At least one packet stays, because a front packet with none behind it is not late.
    template <class Queue, class Drop>
    void prepare(Instant now, const Queue& queue, Drop&& drop) {
        const bool late = is_late(now, queue);
        if (dropping_) {
            if (!late) dropping_ = false;
            while (dropping_ && now >= drop_next_) {
                drop();
                ++count_;
                dropping_ = is_late(now, queue);
                if (dropping_) drop_next_ = after(drop_next_);
            }
        } else if (late) {
            drop();
            is_late(now, queue);  // the new front is served in any case; its wait counts from here
            begin_dropping(now);
        }
    }

private:
    static constexpr std::int64_t kMemoryIntervals = 16;

    template <class Queue>
    bool is_late(Instant now, const Queue& queue) {
        if (queue.size() <= 2 || now - queue.front().queued_at < config_.target) {
            late_from_ = Instant::never();
            return false;
        }
        if (late_from_ == Instant::never()) late_from_ = now + config_.interval;
        return now >= late_from_;
    }

    void begin_dropping(Instant now) {
        const std::uint32_t gained = count_ - last_count_;
        const bool recent = now - drop_next_ < config_.interval * kMemoryIntervals;
        count_ = gained > 1 && recent ? gained : 1;
        last_count_ = count_;
        drop_next_ = after(now);
        dropping_ = true;
    }

    Instant after(Instant at) const {
        return at + Duration{std::llround(static_cast<double>(config_.interval.ns) / std::sqrt(count_))};
    }

    CodelConfig config_;
    Instant late_from_ = Instant::never();  // when fronts will have been above the target for an interval
    Instant drop_next_{};
    std::uint32_t count_ = 0;       // drops in this dropping state
    std::uint32_t last_count_ = 0;  // count_ at the start of this state
    bool dropping_ = false;
};

}  // namespace ccatune
