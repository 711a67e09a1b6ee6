// SPDX-License-Identifier: MIT
// SIRA in the simulator: the flow of kmod/core/sira_flow.h.
// The flow may follow an ensemble table.
#include <memory>

#include "algorithms/algorithm.hpp"
#include "algorithms/making.hpp"
#include "algorithms/table.hpp"
#include "sira_flow.h"

namespace ccatune {
namespace {

class SiraAlgorithm final : public Algorithm {
public:
    SiraAlgorithm(const sira_params& defaults, Following following) : defaults_(defaults), following_(std::move(following)) {}

    void start(const cca_start& start) override {
        sira_flow_init(&flow_, &defaults_, &start, following_.delay_class, following_.hash, &decision_);
    }

    void on_ack(const cca_ack& ack) override {
        sira_flow_on_ack(&flow_, &defaults_, following_.table(), &ack, &decision_);
        following_.note(flow_.ens, ack.now_us);
    }

    void on_event(const cca_event& event) override { sira_flow_on_event(&flow_, &event, &decision_); }
    std::uint32_t mode() const override { return flow_.sira.mode; }
    const std::vector<EpochTurn>& turns() const override { return following_.turns; }

private:
    sira_flow flow_{};
    sira_params defaults_;
    Following following_;
};

}  // namespace

std::unique_ptr<Algorithm> make_sira(const Making& m) {
    return std::make_unique<SiraAlgorithm>(m.params_of<sira_params>(), m.following());
}

}  // namespace ccatune
