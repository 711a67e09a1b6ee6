// SPDX-License-Identifier: MIT
// What the sender asks of a congestion-control algorithm. An implementation
// copies between the sender and kmod/core, and holds no algorithm itself.
#pragma once

#include <cstdint>
#include <vector>

#include "cca.h"

namespace ccatune {

// One turn of a flow's epoch clock.
struct EpochTurn {
    std::uint64_t at_us;
    std::uint64_t measured_bytes_per_s;
    std::uint32_t epoch;   // that begins
    std::uint32_t state;   // UINT32_MAX: none
    std::uint8_t turn;     // enum ens_turn
};

class Algorithm {
public:
    virtual ~Algorithm() = default;
    virtual void start(const cca_start& start) = 0;
    virtual void on_loss(const cca_loss&) {}
    virtual void on_ack(const cca_ack& ack) = 0;
    virtual void on_event(const cca_event& event) = 0;
    virtual void on_sent(std::uint32_t) {}
    virtual std::uint32_t mode() const { return 0; }
    virtual const std::vector<EpochTurn>& turns() const {
        static const std::vector<EpochTurn> none;
        return none;
    }

    const cca_decision& decision() const { return decision_; }

protected:
    cca_decision decision_{};
};

// A window that never changes: closed forms to hold the engine against.
class FixedWindow final : public Algorithm {
public:
    explicit FixedWindow(std::uint32_t cwnd_pkts, std::uint64_t pacing_bytes_per_s) {
        decision_.cwnd_pkts = cwnd_pkts;
        decision_.pacing_bytes_per_s = pacing_bytes_per_s;
    }
    void start(const cca_start&) override {}
    void on_ack(const cca_ack&) override {}
    void on_event(const cca_event&) override {}
};

}  // namespace ccatune
