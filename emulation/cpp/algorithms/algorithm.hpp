// SPDX-License-Identifier: MIT
// The interface between the sender and a congestion-control algorithm.
// An implementation copies between the sender and kmod/core, and holds no algorithm itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cca.h"
#include "common/fetch.hpp"

namespace ccatune {

// An end of an epoch of a flow, and what the epoch measured.
struct EpochTurn {
    std::uint64_t at_us;
    std::uint64_t measured_bytes_per_s;
    std::uint32_t epoch;   // the epoch that begins
    std::uint32_t state;   // UINT32_MAX: none
    std::uint8_t turn;     // enum ens_epoch_end
};

// R-TCP's estimate of a flow's rate limiter, which it uses from at_us on.
// RTCP_UNKNOWN: detection begins, or begins anew.
struct LimitEstimate {
    std::uint64_t at_us;
    std::uint64_t bucket_bytes;
    std::uint64_t bytes_per_s;
    std::uint8_t kind;     // enum rtcp_class
};

// Data from the sender that the core's events lack. The host of window mode and R-TCP use it.
struct HostView {
    std::uint32_t sent_pkts = 0;  // segments that the connection has sent so far
    bool advanced = false;        // the ACK that is being reported advanced the cumulative number
    std::uint32_t waiting_pkts = 0;  // segments unsent or not acknowledged cumulatively; UINT32_MAX: without end
};

class Algorithm {
public:
    virtual ~Algorithm() = default;
    virtual void start(const cca_start& start) = 0;
    virtual void on_loss(const cca_loss&) {}
    virtual void on_ack(const cca_ack& ack) = 0;
    virtual void on_event(const cca_event& event) = 0;
    // The connection ends: all data that it ever had to send is acknowledged.
    virtual void on_end() {}
    // Window mode (RFC 2861): the connection sends again after a silence of so many timeouts.
    virtual void on_idle(std::uint32_t) {}
    // Window mode (RFC 2861): for one timeout, the connection lacked data and used at most so many packets.
    virtual void on_unused(std::uint32_t) {}
    // Returns true if the algorithm checks only on ACKs whether a recovery is under way.
    // Such an algorithm takes a recovery that ends and restarts within one ACK for a single recovery.
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

    // Prefetches the data that the next ACK will use.
    virtual void fetch_ahead() const { fetch(this, kMostStateBytes); }

    const cca_decision& decision() const { return decision_; }
    bool is_in_slow_start() const { return in_slow_start_; }          // window mode
    std::uint32_t least_burst_pkts() const { return least_burst_pkts_; }  // minimum, with pacing

    HostView host;

protected:
    static constexpr std::size_t kMostStateBytes = 320;  // prefetched by default

    cca_decision decision_{};
    std::uint32_t least_burst_pkts_ = 2;  // tcp_min_tso_segs
    bool in_slow_start_ = false;
};

// A window that never changes, to compare the engine with closed-form results.
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
