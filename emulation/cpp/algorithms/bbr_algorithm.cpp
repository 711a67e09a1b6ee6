// SPDX-License-Identifier: MIT
// BBR in the simulator: version 1 (kmod/core/bbr1.h) and version 3 (bbr3.h).
#include "algorithms/algorithm.hpp"
#include "algorithms/making.hpp"
#include "bbr1.h"
#include "bbr3.h"

namespace ccatune {
namespace {

class Bbr1Algorithm final : public Algorithm {
public:
    // hash: fixed per flow.
    // The algorithm's pseudo-random choices are derived from it.
    Bbr1Algorithm(const bbr1_params& params, std::uint32_t hash) : params_(params), hash_(hash) {}

    void start(const cca_start& start) override { bbr1_init(&state_, &params_, &start, hash_, &decision_); }
    void on_ack(const cca_ack& ack) override {
        bbr1_on_ack(&state_, &params_, &ack, &decision_);
        least_burst_pkts_ = decision_.pacing_bytes_per_s < kSingleBelow ? 1 : 2;
    }
    void on_event(const cca_event& event) override { bbr1_on_event(&state_, &params_, &event, &decision_); }
    bool looks_with_acks() const override { return true; }
    std::uint32_t mode() const override { return state_.mode; }

private:
    static constexpr std::uint64_t kSingleBelow = 150'000;  // 1.2 Mbit/s: below it bursts are single segments

    bbr1_state state_{};
    bbr1_params params_;
    std::uint32_t hash_;
};

class Bbr3Algorithm final : public Algorithm {
public:
    Bbr3Algorithm(const bbr3_params& params, std::uint32_t hash) : params_(params), hash_(hash) {}

    void start(const cca_start& start) override { bbr3_init(&state_, &params_, &start, hash_, &decision_); }
    void on_loss(const cca_loss& loss) override { bbr3_on_loss(&state_, &params_, &loss); }
    void on_ack(const cca_ack& ack) override { bbr3_on_ack(&state_, &params_, &ack, &decision_); }
    void on_event(const cca_event& event) override { bbr3_on_event(&state_, &params_, &event, &decision_); }
    bool looks_with_acks() const override { return true; }
    std::uint32_t mode() const override { return state_.mode; }

private:
    bbr3_state state_{};
    bbr3_params params_;
    std::uint32_t hash_;
};

}  // namespace

std::unique_ptr<Algorithm> make_bbr(const Making& m) {
    return std::make_unique<Bbr1Algorithm>(m.params_of<bbr1_params>(), m.mixed_hash());
}
std::unique_ptr<Algorithm> make_bbr3(const Making& m) {
    return std::make_unique<Bbr3Algorithm>(m.params_of<bbr3_params>(), m.mixed_hash());
}

}  // namespace ccatune
