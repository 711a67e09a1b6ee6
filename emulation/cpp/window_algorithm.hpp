// SPDX-License-Identifier: MIT
// The host of window mode: what surrounds an algorithm that only grows and
// shrinks a window (kmod/core/cca.h), with proportional rate reduction (RFC 6937,
// with the slow-start reduction bound) while it recovers. Core brings:
//
//   void start(const cca_start&)
//   void on_ack(const cca_ack&, cca_window*)    told of every ACK
//   void grow(cca_window*, acked_pkts)          where the window may grow
//   u32  ssthresh(cca_window*)                  an episode of losses begins
//   u32  undo(const cca_window*)                it was spurious
//   void on_event(const cca_event&)             told of it, behind what it was asked for it
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "algorithm.hpp"

namespace ccatune {

template <class Core>
class WindowAlgorithm : public Algorithm {
public:
    explicit WindowAlgorithm(Core core = Core{}) : core_(std::move(core)) {}

    void start(const cca_start& start) final {
        core_.start(start);
        window_ = {start.cwnd_pkts, CCA_MAX_PKTS, 0};
        decide(window_.cwnd_pkts);
    }

    void on_ack(const cca_ack& ack) final {
        core_.on_ack(ack, &window_);
        if (recovering_) {
            decide(reduced(ack));
            return;
        }
        if (ack.cwnd_limited) core_.grow(&window_, ack.acked_pkts);
        decide(window_.cwnd_pkts);
    }

    void on_event(const cca_event& event) final {
        const bool goes_on = follow(event);
        core_.on_event(event);
        if (goes_on) return;
        window_.credit_pkts = 0;
        decide(window_.cwnd_pkts);
    }

    void on_sent(std::uint32_t pkts) final { sent_pkts_ += pkts; }
    // 0: slow start, 1: congestion avoidance, 2: fast recovery.
    std::uint32_t mode() const final { return recovering_ ? 2 : window_.cwnd_pkts < window_.ssthresh_pkts ? 0 : 1; }

private:
    // True: the window in force stays.
    bool follow(const cca_event& event) {
        switch (event.kind) {
            case CCA_RECOVERY_ENTERED:
                flight_pkts_ = std::max(event.inflight_pkts, 1u);
                begin_episode();
                delivered_pkts_ = sent_pkts_ = 0;
                recovering_ = true;
                return true;
            case CCA_TIMEOUT:
                // In recovery, or behind another timeout, it is the same episode.
                if (!in_episode_) begin_episode();
                window_.cwnd_pkts = 1;
                recovering_ = false;
                return false;
            case CCA_UNDO:
                window_.cwnd_pkts = core_.undo(&window_);
                window_.ssthresh_pkts = std::max(window_.ssthresh_pkts, prior_ssthresh_pkts_);
                recovering_ = in_episode_ = false;
                return false;
            case CCA_RECOVERY_LEFT:
                if (recovering_) window_.cwnd_pkts = window_.ssthresh_pkts;
                recovering_ = in_episode_ = false;
                return false;
            default:
                return false;
        }
    }

    void begin_episode() {
        prior_ssthresh_pkts_ = window_.ssthresh_pkts;
        window_.ssthresh_pkts = core_.ssthresh(&window_);
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

    Core core_;
    cca_window window_{};
    bool in_episode_ = false;           // from the first loss or timeout on
    bool recovering_ = false;           // of it: fast recovery, not a timeout
    std::uint32_t prior_ssthresh_pkts_ = 0;
    std::uint32_t flight_pkts_ = 1;     // RecoverFS
    std::uint32_t delivered_pkts_ = 0;  // prr_delivered
    std::uint32_t sent_pkts_ = 0;       // prr_out
};

}  // namespace ccatune
