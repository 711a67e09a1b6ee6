// SPDX-License-Identifier: MIT
// ROCCET in the simulator: the flow of kmod/core/roccet_flow.h in the host of window mode.
// The flow may follow an ensemble table.
#include <memory>
#include <utility>
#include <vector>

#include "algorithms/making.hpp"
#include "algorithms/table.hpp"
#include "algorithms/window_algorithm.hpp"
#include "roccet_flow.h"

namespace ccatune {
namespace {

class RoccetCore {
public:
    RoccetCore(const roccet_params& defaults, Following following) : defaults_(defaults), following_(std::move(following)) {}

    void start(const cca_start& start) {
        roccet_flow_init(&flow_, &defaults_, &start, following_.delay_class, following_.hash);
    }

    void on_ack(const cca_ack& ack, cca_window* window) {
        roccet_flow_on_ack(&flow_, &defaults_, following_.table(), &ack, window);
        following_.note(flow_.ens, ack.now_us);
    }

    void grow(cca_window* window, std::uint32_t acked_pkts) { roccet_flow_grow(&flow_, window, acked_pkts); }
    std::uint32_t ssthresh(cca_window* window) { return roccet_flow_ssthresh(&flow_, window); }
    std::uint32_t undo(const cca_window* window) { return roccet_flow_undo(&flow_, window); }
    void on_event(const cca_event& event) { roccet_flow_on_event(&flow_, &event); }

    const roccet_flow& flow() const { return flow_; }
    const std::vector<EpochTurn>& turns() const { return following_.turns; }

private:
    roccet_flow flow_{};
    roccet_params defaults_;
    Following following_;
};

class RoccetAlgorithm final : public WindowAlgorithm<RoccetCore> {
public:
    using WindowAlgorithm<RoccetCore>::WindowAlgorithm;

    const std::vector<EpochTurn>& turns() const override { return core().turns(); }

    // Prefetches all but the samples in the middle of the clock's window, which are most of the state.
    void fetch_ahead() const override {
        const cca_rate_window& acked = core().flow().ens.clock.acked;
        fetch(this, kMostStateBytes);
        fetch(&acked.newest_us, sizeof(*this) - (reinterpret_cast<const char*>(&acked.newest_us) -
                                                 reinterpret_cast<const char*>(this)));
        __builtin_prefetch(&acked.sample[acked.oldest % CCA_RATE_SAMPLES]);
        __builtin_prefetch(&acked.sample[acked.next % CCA_RATE_SAMPLES], 1);
    }
};

}  // namespace

std::unique_ptr<Algorithm> make_roccet(const Making& m) {
    return std::make_unique<RoccetAlgorithm>(RoccetCore(m.params_of<roccet_params>(), m.following()));
}

}  // namespace ccatune
