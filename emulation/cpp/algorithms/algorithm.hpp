// SPDX-License-Identifier: MIT
// What the sender asks of a congestion-control algorithm. An implementation
// copies between the sender and kmod/core, and holds no algorithm itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cca.h"
#include "common/fetch.hpp"

namespace ccatune {

// One turn of a flow's epoch clock.
struct EpochTurn {
    std::uint64_t at_us;
    std::uint64_t measured_bytes_per_s;
    std::uint32_t epoch;   // that begins
    std::uint32_t state;   // UINT32_MAX: none
    std::uint8_t turn;     // enum ens_turn
};

// What R-TCP takes a flow's rate limiter for, from a time on; RTCP_UNKNOWN: it begins to look for one.
struct LimitEstimate {
    std::uint64_t at_us;
    std::uint64_t bucket_bytes;
    std::uint64_t bytes_per_s;
    std::uint8_t kind;     // enum rtcp_class
};

// What the sender says beside the core's events: for the host of window mode.
struct HostView {
    std::uint32_t sent_pkts = 0;  // of the connection so far
    bool advanced = false;        // the ACK that is told now acknowledged cumulatively
    std::uint32_t waiting_pkts = 0;  // unsent, and sent and not acknowledged by number; UINT32_MAX: without end
};

class Algorithm {
public:
    virtual ~Algorithm() = default;
    virtual void start(const cca_start& start) = 0;
    virtual void on_loss(const cca_loss&) {}
    virtual void on_ack(const cca_ack& ack) = 0;
    virtual void on_event(const cca_event& event) = 0;
    // The connection ends: all that it ever had to send is acknowledged.
    virtual void on_end() {}
    // Window mode (RFC 2861): sends again after so many timeouts' time of silence, ...
    virtual void on_idle(std::uint32_t) {}
    // ... or has used no more than this of its window for one timeout's time, for lack of data.
    virtual void on_unused(std::uint32_t) {}
    // Asks with each ACK whether a recovery goes on: one that ends and begins anew within an ACK has gone on.
    virtual bool looks_with_acks() const { return false; }
    virtual std::uint32_t mode() const { return 0; }
    virtual const std::vector<EpochTurn>& turns() const {
        static const std::vector<EpochTurn> none;
        return none;
    }

    virtual const std::vector<LimitEstimate>& limits() const {
        static const std::vector<LimitEstimate> none;
        return none;
    }

    // Asks for what the next ACK will touch.
    virtual void fetch_ahead() const { fetch(this, kMostStateBytes); }

    const cca_decision& decision() const { return decision_; }
    bool is_in_slow_start() const { return in_slow_start_; }          // window mode
    std::uint32_t least_burst_pkts() const { return least_burst_pkts_; }  // when paced

    HostView host;

protected:
    static constexpr std::size_t kMostStateBytes = 320;  // of all but GR

    cca_decision decision_{};
    std::uint32_t least_burst_pkts_ = 2;  // tcp_min_tso_segs
    bool in_slow_start_ = false;
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
