// SPDX-License-Identifier: MIT
// Reno, CUBIC and Vegas in the simulator: the algorithms of kmod/core in the host of window mode.
#include "algorithms/making.hpp"
#include "algorithms/window_algorithm.hpp"
#include "cubic.h"
#include "reno.h"
#include "vegas.h"

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

class CubicCore {
public:
    explicit CubicCore(const cubic_params& params) : params_(params) {}

    void start(const cca_start& start) { cubic_init(&state_, &params_, &start); }
    void on_ack(const cca_ack& ack, cca_window* window) { cubic_on_ack(&state_, &params_, &ack, window); }
    void grow(cca_window* window, std::uint32_t acked_pkts) { cubic_grow(&state_, &params_, window, acked_pkts); }
    std::uint32_t ssthresh(cca_window* window) { return cubic_ssthresh(&state_, &params_, window); }
    std::uint32_t undo(const cca_window* window) { return cubic_undo(&state_, window); }
    void on_event(const cca_event& event) { cubic_on_event(&state_, &event); }

private:
    cubic_state state_{};
    cubic_params params_;
};

class VegasCore {
public:
    explicit VegasCore(const vegas_params& params) : params_(params) {}

    void start(const cca_start&) { vegas_init(&state_); }
    void on_ack(const cca_ack& ack, cca_window*) { vegas_on_ack(&state_, &ack); }
    void grow(cca_window* window, std::uint32_t acked_pkts) { vegas_grow(&state_, &params_, window, acked_pkts); }
    std::uint32_t ssthresh(cca_window* window) { return vegas_ssthresh(&state_, window); }
    std::uint32_t undo(const cca_window* window) { return vegas_undo(&state_, window); }
    void on_event(const cca_event& event) { vegas_on_event(&state_, &event); }

private:
    vegas_state state_{};
    vegas_params params_;
};

}  // namespace

std::unique_ptr<Algorithm> make_reno(const Making&) { return std::make_unique<WindowAlgorithm<RenoCore>>(); }
std::unique_ptr<Algorithm> make_cubic(const Making& m) {
    return std::make_unique<WindowAlgorithm<CubicCore>>(CubicCore(m.params_of<cubic_params>()));
}
std::unique_ptr<Algorithm> make_vegas(const Making& m) {
    return std::make_unique<WindowAlgorithm<VegasCore>>(VegasCore(m.params_of<vegas_params>()));
}

}  // namespace ccatune
