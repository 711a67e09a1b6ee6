// SPDX-License-Identifier: MIT
// An element of the path, before or after the bottleneck.
// An element takes a packet and passes it on, at once or later, or drops it.
// It counts entered = passed + dropped + inside.
//
// The simulation asks each element for the time of its next action and calls act() at that time.
// So its queue of events holds one entry per element.
#pragma once

#include <cstdint>
#include <vector>

#include "common/histogram.hpp"
#include "common/packet.hpp"
#include "common/time.hpp"

namespace ccatune {

// Takes the packets that an element passes on.
class Outlet {
public:
    virtual ~Outlet() = default;
    virtual void take(Instant now, const Packet& packet) = 0;
};

struct ElementResult {
    std::uint64_t entered = 0, passed = 0;
    std::uint64_t dropped = 0;        // dropped by a full queue or bucket, loss, or CoDel
    std::uint64_t codel_dropped = 0;  // part of dropped
    std::uint64_t inside = 0;
    std::vector<std::uint32_t> delay_hist;  // FineLog bins; of packets that passed in the measured time
};

class Element : public Outlet {
public:
    void lead_to(Outlet* next) { next_ = next; }
    void begin_measuring() { delays_.clear(); }

    void take(Instant now, const Packet& packet) final {
        ++entered_;
        arrive(now, packet);
    }

    // Returns the time at which act() will have something to do.
    virtual Instant next_at() const { return Instant::never(); }
    virtual void act(Instant) {}
    // Returns how long a small packet that arrived now would be held.
    // The RTT of a handshake is derived from it.
    virtual Duration wait_of_probe(Instant) const { return {}; }

    // Packets counted in the element's queues, which must equal inside().
    virtual std::uint64_t held() const { return 0; }

    std::uint64_t entered() const { return entered_; }
    std::uint64_t passed() const { return passed_; }
    std::uint64_t dropped() const { return dropped_; }
    std::uint64_t inside() const { return entered_ - passed_ - dropped_; }

    ElementResult result() const {
        ElementResult r{entered_, passed_, dropped_, codel_dropped(), inside(), {}};
        r.delay_hist.assign(delays_.counts().begin(), delays_.counts().end());
        return r;
    }

protected:
    virtual void arrive(Instant now, const Packet& packet) = 0;
    virtual std::uint64_t codel_dropped() const { return 0; }

    // For elements that hold no packets.
    void pass(Instant now, const Packet& packet) {
        ++passed_;
        next_->take(now, packet);
    }
    void pass(Instant now, const Packet& packet, Duration held) {
        delays_.add(held);
        pass(now, packet);
    }
    void drop(std::uint64_t pkts = 1) { dropped_ += pkts; }

private:
    Outlet* next_ = nullptr;
    std::uint64_t entered_ = 0, passed_ = 0, dropped_ = 0;
    FineLog delays_;
};

}  // namespace ccatune
