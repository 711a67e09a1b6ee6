// SPDX-License-Identifier: MIT
// TCP Vegas in the simulator: kmod/core/vegas.h in the host of window mode.
#include "algorithms/making.hpp"
#include "algorithms/window_algorithm.hpp"
#include "vegas.h"

namespace ccatune {
namespace {

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

std::unique_ptr<Algorithm> make_vegas(const Making& m) {
    return std::make_unique<WindowAlgorithm<VegasCore>>(VegasCore(m.params_of<vegas_params>()));
}

}  // namespace ccatune
