// SPDX-License-Identifier: MIT
// BBR in the simulator: versions 1 and 3 (kmod/core/bbr_ensemble.h).
// The flow may follow an ensemble table.
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/making.hpp"
#include "algorithms/table.hpp"
#include "bbr_ensemble.h"

namespace ccatune {
namespace {

class Bbr1Algorithm final : public Algorithm {
public:
    // hash: fixed per flow.
    // The algorithm's pseudo-random choices are derived from it.
    Bbr1Algorithm(const bbr1_params& defaults, Following following, std::uint32_t hash)
        : defaults_(defaults), following_(std::move(following)), hash_(hash) {}

    void start(const cca_start& start) override {
        bbr1_flow_init(&flow_, &defaults_, &start, following_.delay_class, hash_, &decision_);
    }
    void on_ack(const cca_ack& ack) override {
        bbr1_flow_on_ack(&flow_, &defaults_, following_.table(), &ack, &decision_);
        following_.note(flow_.ens, ack.now_us);
        least_burst_pkts_ = decision_.pacing_bytes_per_s < kSingleBelow ? 1 : 2;
    }
    void on_event(const cca_event& event) override { bbr1_flow_on_event(&flow_, &event, &decision_); }
    bool looks_with_acks() const override { return true; }
    std::uint32_t mode() const override { return flow_.bbr.mode; }
    const std::vector<EpochTurn>& turns() const override { return following_.turns; }

private:
    static constexpr std::uint64_t kSingleBelow = 150'000;  // 1.2 Mbit/s: below it bursts are single segments

    bbr1_flow flow_{};
    bbr1_params defaults_;
    Following following_;
    std::uint32_t hash_;
};

class Bbr3Algorithm final : public Algorithm {
public:
    Bbr3Algorithm(const bbr3_params& defaults, Following following, std::uint32_t hash)
        : defaults_(defaults), following_(std::move(following)), hash_(hash) {}

    void start(const cca_start& start) override {
        bbr3_flow_init(&flow_, &defaults_, &start, following_.delay_class, hash_, &decision_);
    }
    void on_loss(const cca_loss& loss) override { bbr3_flow_on_loss(&flow_, &loss); }
    void on_ack(const cca_ack& ack) override {
        bbr3_flow_on_ack(&flow_, &defaults_, following_.table(), &ack, &decision_);
        following_.note(flow_.ens, ack.now_us);
    }
    void on_event(const cca_event& event) override { bbr3_flow_on_event(&flow_, &event, &decision_); }
    bool looks_with_acks() const override { return true; }
    std::uint32_t mode() const override { return flow_.bbr.mode; }
    const std::vector<EpochTurn>& turns() const override { return following_.turns; }

private:
    bbr3_flow flow_{};
    bbr3_params defaults_;
    Following following_;
    std::uint32_t hash_;
};

}  // namespace

std::unique_ptr<Algorithm> make_bbr(const Making& m) {
    return std::make_unique<Bbr1Algorithm>(m.params_of<bbr1_params>(), m.following(), m.mixed_hash());
}
std::unique_ptr<Algorithm> make_bbr3(const Making& m) {
    return std::make_unique<Bbr3Algorithm>(m.params_of<bbr3_params>(), m.following(), m.mixed_hash());
}

}  // namespace ccatune
