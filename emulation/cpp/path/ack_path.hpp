// SPDX-License-Identifier: MIT
// The path of ACKs from the receiver to the propagation delay:
//
//   receiver --> [held until the next multiple of an interval] --> [uplink] --> propagation
//
// The interval models the grants of a radio or a modem: ACKs leave in bursts, one interval apart.
// The uplink carries ACKs of 52 bytes.
// Its queue has no limit, because the sender assumes that no ACK is lost.
#pragma once

#include <cstdint>
#include <optional>

#include "common/histogram.hpp"
#include "common/packet.hpp"
#include "common/ring.hpp"
#include "path/element.hpp"
#include "path/link.hpp"

namespace ccatune {

struct AckPathConfig {
    Duration interval{};               // 0: ACKs are not held
    std::optional<LinkConfig> uplink;  // its buffer limits and its CoDel are ignored

    bool is_plain() const { return interval.ns == 0 && !uplink; }
};

class AckPath {
public:
    explicit AckPath(const AckPathConfig& config) : interval_(config.interval) {
        if (!config.uplink) return;
        LinkConfig endless = *config.uplink;
        endless.buffer_pkts = endless.buffer_bytes = UINT64_MAX;
        endless.codel.reset();
        uplink_.emplace(endless);
    }

    void begin_measuring() { delays_.clear(); }

    void take(Instant now, std::uint32_t flow, const Ack& ack) {
        ++entered_;
        const Item item{now, flow, ack, now};
        if (interval_.ns == 0) {
            uplink_->enqueue(now, item);
            return;
        }
        held_.push({next_grant(now), item});
    }

    Instant next_at() const {
        const Instant grant = held_.empty() ? Instant::never() : held_.front().grant_at;
        return uplink_ ? std::min(grant, uplink_->next_at()) : grant;
    }

    // Calls out(flow, ack) for each ACK that enters the propagation delay now.
    template <class Out>
    void act(Instant now, Out&& out) {
        const auto leave = [&](const Item& item) {
            ++passed_;
            delays_.add(now - item.came_at);
            out(item.flow, item.ack);
        };
        if (uplink_ && uplink_->next_at() <= now) uplink_->serve(now, leave);
        while (!held_.empty() && held_.front().grant_at <= now) {
            const Item item = held_.front().item;
            held_.pop();
            if (uplink_)
                uplink_->enqueue(now, item);
            else
                leave(item);
        }
    }

    Duration wait_of_probe(Instant now) const {
        Duration wait = uplink_ ? uplink_->wait_of_probe(now) : Duration{};
        if (interval_.ns > 0) wait = wait + (next_grant(now) - now);
        return wait;
    }

    std::uint64_t entered() const { return entered_; }
    std::uint64_t passed() const { return passed_; }
    std::uint64_t held() const { return held_.size() + (uplink_ ? uplink_->queued() : 0); }

    ElementResult result() const {
        ElementResult r{entered_, passed_, 0, 0, entered_ - passed_, {}};
        r.delay_hist.assign(delays_.counts().begin(), delays_.counts().end());
        return r;
    }

private:
    struct Item {
        Instant came_at;
        std::uint32_t flow;
        Ack ack;
        Instant queued_at;
    };
    struct Held {
        Instant grant_at;
        Item item;
    };

    Instant next_grant(Instant now) const { return {(now.ns + interval_.ns - 1) / interval_.ns * interval_.ns}; }

    Duration interval_;
    std::optional<LinkOf<Item, kAckWireBytes>> uplink_;
    Fifo<Held> held_;
    std::uint64_t entered_ = 0, passed_ = 0;
    FineLog delays_;
};

}  // namespace ccatune
