// SPDX-License-Identifier: MIT
// R-TCP in the simulator: kmod/core/rtcp.h over CUBIC and both versions of BBR.
// Each connection has a client of its own: what R-TCP knows is not shared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/window_algorithm.hpp"
#include "rtcp.h"

namespace ccatune {

// The client, and what became of its limiter over time.
class RtcpClient {
public:
    void start(std::uint64_t now_us) {
        rtcp_client_init(&client_, now_us);
        limits_.clear();
        estimating_ = false;
    }

    // After an event: notes when detection begins, another class, and B or R that moved by more than a 256th.
    void note(std::uint64_t now_us) {
        const LimitEstimate now{now_us, client_.bucket_bytes, client_.bytes_per_s, client_.kind};
        const bool begins = client_.fit.count && !estimating_;
        estimating_ = client_.fit.count != 0;
        if (now.kind == RTCP_UNKNOWN && !begins) [[likely]]
            return;
        if (!begins && !limits_.empty() && limits_.back().kind == now.kind && is_near(limits_.back(), now)) return;
        limits_.push_back(now);
    }

    rtcp_client* get() { return &client_; }
    const rtcp_client* get() const { return &client_; }
    const std::vector<LimitEstimate>& limits() const { return limits_; }

private:
    static bool is_near(std::uint64_t a, std::uint64_t b) { return (a > b ? a - b : b - a) <= b / 256; }
    static bool is_near(const LimitEstimate& a, const LimitEstimate& b) {
        return is_near(a.bucket_bytes, b.bucket_bytes) && is_near(a.bytes_per_s, b.bytes_per_s);
    }

    rtcp_client client_{};
    std::vector<LimitEstimate> limits_;
    bool estimating_ = false;
};

class RtcpCubicCore {
public:
    explicit RtcpCubicCore(const rtcp_params& params) {
        rtcp_cubic_params_init(&params_);
        params_.rtcp = params;
    }

    void start(const cca_start& start) {
        client_.start(start.now_us);
        rtcp_cubic_init(&state_, &params_, client_.get(), &start);
    }
    void on_ack(const cca_ack& ack, cca_window* window) {
        rtcp_cubic_on_ack(&state_, &params_, client_.get(), &ack, window);
        client_.note(ack.now_us);
    }
    void grow(cca_window* window, std::uint32_t acked_pkts) {
        rtcp_cubic_grow(&state_, &params_, client_.get(), window, acked_pkts);
    }
    std::uint32_t ssthresh(cca_window* window) {
        return rtcp_cubic_ssthresh(&state_, &params_, client_.get(), window);
    }
    std::uint32_t undo(const cca_window* window) {
        return rtcp_cubic_undo(&state_, &params_, client_.get(), window);
    }
    void on_event(const cca_event& event) { rtcp_cubic_on_event(&state_, &params_, client_.get(), &event); }
    const std::vector<LimitEstimate>& limits() const { return client_.limits(); }

private:
    rtcp_cubic_state state_{};
    rtcp_cubic_params params_{};
    RtcpClient client_;
};

class RtcpCubicAlgorithm final : public WindowAlgorithm<RtcpCubicCore> {
public:
    using WindowAlgorithm::WindowAlgorithm;
    const std::vector<LimitEstimate>& limits() const override { return core().limits(); }
};

class RtcpBbr1Algorithm final : public Algorithm {
public:
    RtcpBbr1Algorithm(const rtcp_params& params, std::uint32_t hash) : hash_(hash) {
        rtcp_bbr1_params_init(&params_);
        params_.rtcp = params;
    }

    void start(const cca_start& start) override {
        client_.start(start.now_us);
        rtcp_bbr1_init(&state_, &params_, client_.get(), &start, hash_, &decision_);
    }
    void on_ack(const cca_ack& ack) override {
        rtcp_bbr1_on_ack(&state_, &params_, client_.get(), &ack, &decision_);
        least_burst_pkts_ = decision_.pacing_bytes_per_s < kSingleBelow ? 1 : 2;
        client_.note(ack.now_us);
    }
    void on_event(const cca_event& event) override {
        rtcp_bbr1_on_event(&state_, &params_, client_.get(), &event, &decision_);
    }
    bool looks_with_acks() const override { return true; }
    std::uint32_t mode() const override { return state_.base.mode; }
    const std::vector<LimitEstimate>& limits() const override { return client_.limits(); }

private:
    static constexpr std::uint64_t kSingleBelow = 150'000;  // as Bbr1Algorithm

    rtcp_bbr1_state state_{};
    rtcp_bbr1_params params_{};
    RtcpClient client_;
    std::uint32_t hash_;
};

class RtcpBbr3Algorithm final : public Algorithm {
public:
    RtcpBbr3Algorithm(const rtcp_params& params, std::uint32_t hash) : hash_(hash) {
        rtcp_bbr3_params_init(&params_);
        params_.rtcp = params;
    }

    void start(const cca_start& start) override {
        client_.start(start.now_us);
        rtcp_bbr3_init(&state_, &params_, client_.get(), &start, hash_, &decision_);
    }
    void on_loss(const cca_loss& loss) override { rtcp_bbr3_on_loss(&state_, &params_, &loss); }
    void on_ack(const cca_ack& ack) override {
        rtcp_bbr3_on_ack(&state_, &params_, client_.get(), &ack, &decision_);
        client_.note(ack.now_us);
    }
    void on_event(const cca_event& event) override {
        rtcp_bbr3_on_event(&state_, &params_, client_.get(), &event, &decision_);
    }
    bool looks_with_acks() const override { return true; }
    std::uint32_t mode() const override { return state_.base.mode; }
    const std::vector<LimitEstimate>& limits() const override { return client_.limits(); }

private:
    rtcp_bbr3_state state_{};
    rtcp_bbr3_params params_{};
    RtcpClient client_;
    std::uint32_t hash_;
};

}  // namespace ccatune
