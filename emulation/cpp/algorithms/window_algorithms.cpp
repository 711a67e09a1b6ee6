// SPDX-License-Identifier: MIT
// Reno, CUBIC and Vegas in the simulator: the algorithms of kmod/core in the host of window mode.
// A flow of CUBIC may follow an ensemble table.
#include <utility>
#include <vector>

#include "algorithms/making.hpp"
#include "algorithms/table.hpp"
#include "algorithms/window_algorithm.hpp"
#include "cubic_ensemble.h"
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
    CubicCore(const cubic_params& defaults, Following following) : defaults_(defaults), following_(std::move(following)) {}

    void start(const cca_start& start) {
        cubic_flow_init(&flow_, &defaults_, &start, following_.delay_class, following_.hash);
    }

    void on_ack(const cca_ack& ack, cca_window* window) {
        cubic_flow_on_ack(&flow_, &defaults_, following_.table(), &ack, window);
        following_.note(flow_.ens, ack.now_us);
    }

    void grow(cca_window* window, std::uint32_t acked_pkts) {
        cubic_grow(&flow_.cubic, &flow_.params, window, acked_pkts);
    }
    std::uint32_t ssthresh(cca_window* window) { return cubic_ssthresh(&flow_.cubic, &flow_.params, window); }
    std::uint32_t undo(const cca_window* window) { return cubic_undo(&flow_.cubic, window); }
    void on_event(const cca_event& event) { cubic_flow_on_event(&flow_, &event); }
    const std::vector<EpochTurn>& turns() const { return following_.turns; }

private:
    cubic_flow flow_{};
    cubic_params defaults_;
    Following following_;
};

class CubicAlgorithm final : public WindowAlgorithm<CubicCore> {
public:
    using WindowAlgorithm::WindowAlgorithm;
    const std::vector<EpochTurn>& turns() const override { return core().turns(); }
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
    return std::make_unique<CubicAlgorithm>(CubicCore(m.params_of<cubic_params>(), m.following()));
}
std::unique_ptr<Algorithm> make_vegas(const Making& m) {
    return std::make_unique<WindowAlgorithm<VegasCore>>(VegasCore(m.params_of<vegas_params>()));
}

}  // namespace ccatune
