// SPDX-License-Identifier: MIT
// Reno in the simulator: the window mode's host, which does proportional rate
// reduction (RFC 6937, with the slow-start reduction bound) while it recovers.
#pragma once

#include <algorithm>

#include "algorithm.hpp"
#include "reno.h"

namespace ccatune {

class RenoAlgorithm final : public Algorithm {
public:
    void start(const cca_start& start) override {
        reno_init(&state_);
        window_ = {start.cwnd_pkts, CCA_MAX_PKTS, 0};
        decide(window_.cwnd_pkts);
    }

    void on_ack(const cca_ack& ack) override {
        reno_on_ack(&state_, &ack);
        if (recovering_) {
            decide(reduced(ack));
            return;
        }
        if (ack.cwnd_limited) reno_grow(&state_, &window_, ack.acked_pkts);
        decide(window_.cwnd_pkts);
    }

    void on_event(const cca_event& event) override {
        switch (event.kind) {
            case CCA_RECOVERY_ENTERED:
                flight_pkts_ = std::max(event.inflight_pkts, 1u);
                begin_episode();
                delivered_pkts_ = sent_pkts_ = 0;
                recovering_ = true;
                return;
            case CCA_TIMEOUT:
                // In recovery, or behind another timeout, it is the same episode.
                if (!in_episode_) begin_episode();
                window_.cwnd_pkts = 1;
                recovering_ = false;
                break;
            case CCA_UNDO:
                window_.cwnd_pkts = reno_undo(&state_, &window_);
                window_.ssthresh_pkts = std::max(window_.ssthresh_pkts, prior_ssthresh_pkts_);
                recovering_ = in_episode_ = false;
                break;
            case CCA_RECOVERY_LEFT:
                if (recovering_) window_.cwnd_pkts = window_.ssthresh_pkts;
                recovering_ = in_episode_ = false;
                break;
            default:
                break;
        }
        window_.credit_pkts = 0;
        decide(window_.cwnd_pkts);
    }

    void on_sent(std::uint32_t pkts) override { sent_pkts_ += pkts; }
    std::uint32_t mode() const override {
        return recovering_ ? 2 : window_.cwnd_pkts < window_.ssthresh_pkts ? 0 : 1;
    }

private:
    void begin_episode() {
        prior_ssthresh_pkts_ = window_.ssthresh_pkts;
        window_.ssthresh_pkts = reno_ssthresh(&state_, &window_);
        in_episode_ = true;
    }

    std::uint32_t reduced(const cca_ack& ack) {
        delivered_pkts_ += ack.acked_pkts;
        std::int64_t send;
        if (ack.inflight_pkts > window_.ssthresh_pkts) {
            const std::uint64_t due =
                (static_cast<std::uint64_t>(delivered_pkts_) * window_.ssthresh_pkts + flight_pkts_ - 1) / flight_pkts_;
            send = static_cast<std::int64_t>(due) - sent_pkts_;
        } else {
            const std::int64_t owed = static_cast<std::int64_t>(delivered_pkts_) - sent_pkts_;
            send = std::min<std::int64_t>(window_.ssthresh_pkts - ack.inflight_pkts,
                                          std::max<std::int64_t>(owed, ack.acked_pkts) + 1);
        }
        return ack.inflight_pkts + static_cast<std::uint32_t>(std::max<std::int64_t>(send, 0));
    }

    void decide(std::uint32_t cwnd_pkts) {
        decision_.cwnd_pkts = std::max(cwnd_pkts, 1u);
        decision_.pacing_bytes_per_s = 0;
    }

    reno_state state_{};
    cca_window window_{};
    bool in_episode_ = false;           // from the first loss or timeout on
    bool recovering_ = false;           // of it: fast recovery, not a timeout
    std::uint32_t prior_ssthresh_pkts_ = 0;
    std::uint32_t flight_pkts_ = 1;     // RecoverFS
    std::uint32_t delivered_pkts_ = 0;  // prr_delivered
    std::uint32_t sent_pkts_ = 0;       // prr_out
};

}  // namespace ccatune
