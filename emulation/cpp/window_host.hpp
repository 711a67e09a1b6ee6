// SPDX-License-Identifier: MIT
// What Linux does around an algorithm of window mode: it reduces the window in
// proportion during fast recovery, starts from one packet after a timeout, and
// lets the algorithm grow the window only while the window is what limits.
//
// Proportional rate reduction (RFC 6937, section 3, with PRR-SSRB):
//   inflight >  ssthresh   may send = ceil(delivered x ssthresh / flight) - sent
//   inflight <= ssthresh   may send = min(ssthresh - inflight, max(delivered - sent, acked) + 1)
//   cwnd = inflight + may send
// where delivered and sent count from the start of recovery, flight is what was
// in flight then.
//
// An algorithm is a class with the members of RenoCore (reno_host.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "host.hpp"

namespace ccatune {

enum class WindowMode : std::uint8_t { kSlowStart, kAvoidance, kRecovery, kLoss };

template <class Core>
class WindowHost final : public Host {
public:
    void start(const cca_start& start) override {
        core_.init();
        window_ = {start.cwnd_pkts, kNoThreshold, 0};
        decide();
    }

    void on_ack(const cca_ack& ack, std::uint32_t sent_pkts) override {
        core_.on_ack(ack);
        if (in_recovery_)
            reduce(ack, sent_pkts);
        else if (ack.cwnd_limited)
            core_.grow(window_, ack.acked_pkts);
        decide();
    }

    void on_event(const cca_event& event, std::uint32_t sent_pkts) override {
        switch (event.kind) {
            case CCA_RECOVERY_ENTERED: enter_recovery(event, sent_pkts); break;
            case CCA_RECOVERY_LEFT: leave(); break;
            case CCA_TIMEOUT: time_out(); break;
            case CCA_UNDO: undo(); break;
            case CCA_TRANSFER_STARTED:
            case CCA_IDLE_RESTART: break;
        }
        decide();
    }

    std::uint8_t mode() const override {
        if (in_recovery_) return static_cast<std::uint8_t>(WindowMode::kRecovery);
        if (in_loss_) return static_cast<std::uint8_t>(WindowMode::kLoss);
        const bool slow_start = window_.cwnd_pkts < window_.ssthresh_pkts;
        return static_cast<std::uint8_t>(slow_start ? WindowMode::kSlowStart : WindowMode::kAvoidance);
    }

private:
    static constexpr std::uint32_t kNoThreshold = 0x7fffffff;  // as Linux: TCP_INFINITE_SSTHRESH

    void decide() { decision_.cwnd_pkts = std::max(window_.cwnd_pkts, 1u); }

    void start_episode() {
        prior_ssthresh_pkts_ = window_.ssthresh_pkts;
        window_.ssthresh_pkts = core_.ssthresh(window_);
        window_.credit_pkts = 0;
    }

    void enter_recovery(const cca_event& event, std::uint32_t sent_pkts) {
        start_episode();
        in_recovery_ = true;
        flight_pkts_ = std::max(event.inflight_pkts, 1u);
        delivered_pkts_ = 0;
        sent_before_pkts_ = sent_pkts;
    }

    void reduce(const cca_ack& ack, std::uint32_t sent_pkts) {
        delivered_pkts_ += ack.acked_pkts;
        const std::int64_t sent = sent_pkts - sent_before_pkts_;
        std::int64_t may_send;
        if (ack.inflight_pkts > window_.ssthresh_pkts) {
            const auto share = static_cast<std::uint64_t>(delivered_pkts_) * window_.ssthresh_pkts;
            may_send = static_cast<std::int64_t>((share + flight_pkts_ - 1) / flight_pkts_) - sent;
        } else {
            const std::int64_t room = window_.ssthresh_pkts - ack.inflight_pkts;
            may_send = std::min(room, std::max<std::int64_t>(delivered_pkts_ - sent, ack.acked_pkts) + 1);
        }
        // The first segment found lost is sent again at once (RFC 6937, "fast retransmit").
        may_send = std::max<std::int64_t>(may_send, sent == 0 ? 1 : 0);
        window_.cwnd_pkts = ack.inflight_pkts + static_cast<std::uint32_t>(may_send);
    }

    void leave() {
        if (in_recovery_) window_.cwnd_pkts = window_.ssthresh_pkts;
        in_recovery_ = in_loss_ = false;
    }

    void time_out() {
        // A second timeout in a row is the same episode.
        if (!in_loss_ && !in_recovery_) start_episode();
        in_recovery_ = false;
        in_loss_ = true;
        window_.cwnd_pkts = 1;
        window_.credit_pkts = 0;
    }

    void undo() {
        window_.cwnd_pkts = core_.undo(window_);
        window_.ssthresh_pkts = std::max(window_.ssthresh_pkts, prior_ssthresh_pkts_);
        in_recovery_ = in_loss_ = false;
    }

    Core core_;
    cca_window window_{};
    std::uint32_t prior_ssthresh_pkts_ = kNoThreshold;
    std::uint32_t flight_pkts_ = 1;
    std::uint32_t delivered_pkts_ = 0;
    std::uint32_t sent_before_pkts_ = 0;
    bool in_recovery_ = false;
    bool in_loss_ = false;
};

}  // namespace ccatune
