// SPDX-License-Identifier: MIT
// The host of window mode (kmod/core/cca.h).
// It does what Linux does around an algorithm that only grows and shrinks a window.
// `Core` provides these functions:
//
//   void     start(const cca_start&), or start(const cca_start&, cca_window*) to bound the first window
//   void     on_ack(const cca_ack&, cca_window*)    called for every ACK
//   void     grow(cca_window*, acked_pkts)          the window may grow
//   u32      ssthresh(cca_window*)                  a loss episode begins
//   u32      undo(const cca_window*)                it was spurious
//   void     on_event(const cca_event&)             called after the functions above that belong to the event
//   void     update_share(now_us, waiting_pkts)            optional: before on_ack(), with HostView::waiting_pkts
//   void     end()                                  optional: the connection ends
//
// States of the window:
//
//   OPEN      grows by ACKs that advance, if the window limited the sender
//   REDUCING  fast recovery: proportional rate reduction (prr.hpp), then ssthresh
//   LOSS      after a timeout: one more than what is in flight, and grows from there
//
// After silence (RFC 2861) ssthresh keeps 3/4 of the window.
// The window is halved for each timeout that the silence lasts, down to the initial window.
// A window that was only partly used moves halfway towards the part that was used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "algorithms/algorithm.hpp"
#include "algorithms/prr.hpp"

namespace ccatune {

template <class Core>
class WindowAlgorithm : public Algorithm {
public:
    explicit WindowAlgorithm(Core core = Core{}) : core_(std::move(core)) {}

    void start(const cca_start& start) final {
        initial_pkts_ = start.cwnd_pkts;
        window_ = {start.cwnd_pkts, CCA_MAX_PKTS, 0};
        if constexpr (requires { core_.start(start, &window_); })
            core_.start(start, &window_);
        else
            core_.start(start);
        decide(window_.cwnd_pkts);
    }

    void on_ack(const cca_ack& ack) final {
        if constexpr (requires { core_.update_share(ack.now_us, host.waiting_pkts); })
            core_.update_share(ack.now_us, host.waiting_pkts);
        core_.on_ack(ack, &window_);
        if (state_ == State::reducing) {
            decide(prr_.window(ack, window_.ssthresh_pkts, host.sent_pkts, host.advanced));
            return;
        }
        if (ack.cwnd_limited && host.advanced) core_.grow(&window_, ack.acked_pkts);
        decide(window_.cwnd_pkts);
    }

    void on_event(const cca_event& event) final {
        const bool stays = follow(event);
        core_.on_event(event);
        if (stays) return;
        window_.credit_pkts = 0;
        decide(window_.cwnd_pkts);
    }

    void on_idle(std::uint32_t timeouts) final {
        remember_three_quarters();
        const std::uint32_t least_pkts = std::min(initial_pkts_, window_.cwnd_pkts);
        window_.cwnd_pkts = std::max(window_.cwnd_pkts >> std::min(timeouts, 31u), least_pkts);
        window_.credit_pkts = 0;
        decide(window_.cwnd_pkts);
    }

    void on_end() final {
        if constexpr (requires { core_.end(); }) core_.end();
    }

    void on_unused(std::uint32_t used_pkts) final {
        if (state_ != State::open) return;
        const std::uint32_t most_pkts = std::max(used_pkts, initial_pkts_);
        if (most_pkts >= window_.cwnd_pkts) return;
        remember_three_quarters();
        window_.cwnd_pkts = (window_.cwnd_pkts + most_pkts) / 2;
        window_.credit_pkts = 0;
        decide(window_.cwnd_pkts);
    }

    // Returns 0 in slow start, 1 in congestion avoidance, 2 in fast recovery.
    std::uint32_t mode() const final { return state_ == State::reducing ? 2 : in_slow_start_ ? 0 : 1; }

protected:
    const Core& core() const { return core_; }
    Core& core() { return core_; }

private:
    enum class State : std::uint8_t { open, reducing, loss };

    // Returns true if the window in force stays.
    bool follow(const cca_event& event) {
        switch (event.kind) {
            case CCA_RECOVERY_ENTERED:
                begin_episode();
                state_ = State::reducing;
                prr_.begin(host.sent_pkts);
                // The first retransmission may go, however the loss was found.
                // The ACK that found it allows the rest.
                decide(event.inflight_pkts + 1);
                return true;
            case CCA_TIMEOUT:
                // A timeout in recovery, or after another timeout, belongs to the same episode.
                if (state_ == State::open) begin_episode();
                window_.cwnd_pkts = event.inflight_pkts + 1;
                state_ = State::loss;
                return false;
            case CCA_UNDO:
                window_.cwnd_pkts = core_.undo(&window_);
                window_.ssthresh_pkts = std::max(window_.ssthresh_pkts, prior_ssthresh_pkts_);
                state_ = State::open;
                return false;
            case CCA_RECOVERY_LEFT:
                if (state_ == State::reducing) window_.cwnd_pkts = window_.ssthresh_pkts;
                state_ = State::open;
                return false;
            default:
                return true;
        }
    }

    void begin_episode() {
        prior_ssthresh_pkts_ = window_.ssthresh_pkts;
        window_.ssthresh_pkts = core_.ssthresh(&window_);
    }

    void remember_three_quarters() {
        window_.ssthresh_pkts = std::max(window_.ssthresh_pkts, window_.cwnd_pkts / 4 * 3);
    }

    void decide(std::uint32_t cwnd_pkts) {
        decision_.cwnd_pkts = std::max(cwnd_pkts, 1u);
        decision_.pacing_bytes_per_s = 0;
        in_slow_start_ = window_.cwnd_pkts < window_.ssthresh_pkts;
    }

    Core core_;
    cca_window window_{};
    Prr prr_;
    State state_ = State::open;
    std::uint32_t initial_pkts_ = 0;
    std::uint32_t prior_ssthresh_pkts_ = 0;
};

}  // namespace ccatune
