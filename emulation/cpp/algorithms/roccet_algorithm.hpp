// SPDX-License-Identifier: MIT
// ROCCET in the simulator: kmod/core/roccet.h in the host of window mode.
#pragma once

#include "algorithms/window_algorithm.hpp"
#include "roccet.h"

namespace ccatune {

class RoccetCore {
public:
    explicit RoccetCore(const roccet_params& params) : params_(params) {}

    void start(const cca_start& start) { roccet_init(&state_, &params_, &start); }
    void on_ack(const cca_ack& ack, cca_window* window) { roccet_on_ack(&state_, &params_, &ack, window); }
    void grow(cca_window* window, std::uint32_t acked_pkts) { roccet_grow(&state_, &params_, window, acked_pkts); }
    std::uint32_t ssthresh(cca_window* window) { return roccet_ssthresh(&state_, &params_, window); }
    std::uint32_t undo(const cca_window* window) { return roccet_undo(&state_, window); }
    void on_event(const cca_event& event) { roccet_on_event(&state_, &event); }

private:
    roccet_state state_{};
    roccet_params params_;
};

using RoccetAlgorithm = WindowAlgorithm<RoccetCore>;

}  // namespace ccatune
