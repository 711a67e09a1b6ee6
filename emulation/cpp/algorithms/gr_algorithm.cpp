// SPDX-License-Identifier: MIT
// GR in the simulator: the flow of kmod/core/gr_flow.h.
// The flow may follow an ensemble table.
#include <memory>

#include "algorithms/algorithm.hpp"
#include "algorithms/making.hpp"
#include "algorithms/table.hpp"
#include "gr_flow.h"

namespace ccatune {
namespace {

class GrAlgorithm final : public Algorithm {
public:
    GrAlgorithm(const gr_params& defaults, Following following) : defaults_(defaults), following_(std::move(following)) {}

    void start(const cca_start& start) override {
        gr_flow_init(&flow_, &defaults_, &start, following_.delay_class, following_.hash, &decision_);
    }

    void on_ack(const cca_ack& ack) override {
        gr_flow_on_ack(&flow_, &defaults_, following_.table(), &ack, &decision_);
        following_.note(flow_.ens, ack.now_us);
    }

    void on_event(const cca_event& event) override { gr_flow_on_event(&flow_, &event, &decision_); }
    std::uint32_t mode() const override { return flow_.gr.mode; }
    const std::vector<EpochTurn>& turns() const override { return following_.turns; }

    // Prefetches all but the samples in the middle of the two windows, which are most of the state.
    void fetch_ahead() const override {
        fetch(this, kLineBytes);
        fetch(&flow_.gr.bandwidth.newest_us, sizeof(gr_state) - sizeof(flow_.gr.bandwidth.sample));
        const cca_rate_window& acked = flow_.ens.clock.acked;
        fetch(&acked.newest_us, sizeof(ens_flow) - sizeof(acked.sample) + sizeof(gr_params));
        fetch_ends(flow_.gr.bandwidth);
        fetch_ends(acked);
    }

private:
    static void fetch_ends(const cca_rate_window& window) {
        __builtin_prefetch(&window.sample[window.oldest % CCA_RATE_SAMPLES]);
        __builtin_prefetch(&window.sample[window.next % CCA_RATE_SAMPLES], 1);
    }

    gr_flow flow_{};
    gr_params defaults_;
    Following following_;
};

}  // namespace

std::unique_ptr<Algorithm> make_gr(const Making& m) {
    return std::make_unique<GrAlgorithm>(m.params_of<gr_params>(), m.following());
}

}  // namespace ccatune
