// SPDX-License-Identifier: MIT
// Reno in the simulator: kmod/core/reno.h in the host of window mode.
#include "algorithms/making.hpp"
#include "algorithms/window_algorithm.hpp"
#include "reno.h"

namespace ccatune {
namespace {

class RenoCore {
public:
    void start(const cca_start&) { reno_init(&state_); }
    void on_ack(const cca_ack& ack, cca_window*) { reno_on_ack(&state_, &ack); }
    void grow(cca_window* window, std::uint32_t acked_pkts) { reno_grow(&state_, window, acked_pkts); }
    std::uint32_t ssthresh(cca_window* window) { return reno_ssthresh(&state_, window); }
    std::uint32_t undo(const cca_window* window) { return reno_undo(&state_, window); }
    void on_event(const cca_event&) {}

private:
    reno_state state_{};
};

}  // namespace

std::unique_ptr<Algorithm> make_reno(const Making&) { return std::make_unique<WindowAlgorithm<RenoCore>>(); }

}  // namespace ccatune
