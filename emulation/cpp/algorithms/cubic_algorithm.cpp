// SPDX-License-Identifier: MIT
// CUBIC in the simulator: kmod/core/cubic.h in the host of window mode.
#include "algorithms/making.hpp"
#include "algorithms/window_algorithm.hpp"
#include "cubic.h"

namespace ccatune {
namespace {

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

}  // namespace

std::unique_ptr<Algorithm> make_cubic(const Making& m) {
    return std::make_unique<WindowAlgorithm<CubicCore>>(CubicCore(m.params_of<cubic_params>()));
}

}  // namespace ccatune
