// SPDX-License-Identifier: MIT
// An access link: a link with a queue of its own (link.hpp), before or after the bottleneck.
#pragma once

#include "path/element.hpp"
#include "path/link.hpp"

namespace ccatune {

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
