// SPDX-License-Identifier: MIT
// R-TCP in the simulator: kmod/core/rtcp.h over CUBIC and both versions of BBR.
//
// A run has a table of clients (kmod/core/rtcp_clients.h).
// Through this table, connections to the same client share their knowledge of the client's rate limiter.
// They may be simultaneous or consecutive.
// A connection has a client of its own if the table has no entry for it.
// It also has one if the flows of its client contradict each other.
// A flow may follow an ensemble (rtcp_ensemble.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/table.hpp"
#include "algorithms/window_algorithm.hpp"
#include "common/packet.hpp"
#include "common/time.hpp"
#include "rtcp_clients.h"
#include "rtcp_ensemble.h"

namespace ccatune {

// The clients of a run, which its flows own together.
// All flows run on one thread.
class RtcpClients {
public:
    // keep: how long an entry outlives its connections.
    RtcpClients(std::size_t clients, Duration keep) : entries_(sets_for(clients) * RTCP_WAYS) {
        rtcp_clients_init(&table_, entries_.data(), sets_for(clients), &kHashKey, static_cast<std::uint64_t>(keep.us()));
    }
    RtcpClients(const RtcpClients&) = delete;  // flows point into it
    RtcpClients& operator=(const RtcpClients&) = delete;

    // Returns null if the table has no entry for this connection.
    rtcp_entry* join(std::uint32_t client, std::uint64_t now_us) {
        const rtcp_key key = rtcp_key_of_ipv4(kFirstAddress + client);
        rtcp_entry* entry = rtcp_clients_join(&table_, &key, now_us);
        if (entry) rtcp_entry_renew(&table_, entry, now_us);
        return entry;
    }

    void on_ack(rtcp_entry* entry, std::uint64_t now_us) { rtcp_entry_on_ack(&table_, entry, now_us); }

private:
    static constexpr cca_siphash_key kHashKey{{0x6363617475, 0x6e65}};  // a fixed key, as nobody attacks a simulation
    static constexpr std::uint32_t kFirstAddress = 10u << 24;  // 10.0.0.0

    // Returns at least one set per client.
    // A set overflows if nine clients meet in it, which happens once in a million.
    static std::uint32_t sets_for(std::size_t clients) {
        std::uint32_t sets = 1;
        while (sets < clients && sets < RTCP_MOST_SETS) sets *= 2;
        return sets;
    }

    std::vector<rtcp_entry> entries_;
    rtcp_clients table_{};
};

// The client of a flow, and the estimates of its limiter over time, as far as the flow saw them.
class RtcpClient {
public:
    RtcpClient(std::shared_ptr<RtcpClients> clients, std::uint32_t number)
        : clients_(std::move(clients)), number_(number) {}

    void start(std::uint64_t now_us) {
        entry_ = clients_ ? clients_->join(number_, now_us) : nullptr;
        if (!entry_) rtcp_client_init(&own_, now_us);
        limits_.clear();
        estimating_ = false;
    }

    // Call before each ACK.
    // Discards knowledge of the client that has expired, and updates the flow's unsent and unacknowledged bytes.
    void update_share(rtcp_flow* flow, std::uint64_t now_us, std::uint32_t waiting_pkts) {
        if (entry_) clients_->on_ack(entry_, now_us);
        rtcp_flow_update_share(flow, get(), std::uint64_t{waiting_pkts} * kMssBytes);
    }

    // Call after an event.
    // Leaves a client that is split.
    // Records when detection begins, when the class changes, and when B or R moved by more than a 256th.
    // The class becomes unknown when an estimate is discarded.
    void note(rtcp_flow* flow, std::uint64_t now_us) {
        if (get()->kind == RTCP_SPLIT && entry_) [[unlikely]]
            move(flow, now_us);
        const rtcp_client& client = *get();
        LimitEstimate now{now_us, client.bucket_bytes, client.bytes_per_s, client.kind};
        if (now.kind == RTCP_UNKNOWN) now.bucket_bytes = now.bytes_per_s = 0;
        const bool begins = client.fit.count && !estimating_;
        estimating_ = client.fit.count != 0;
        const bool was_unknown = limits_.empty() || limits_.back().kind == RTCP_UNKNOWN;
        if (now.kind == RTCP_UNKNOWN && was_unknown && !begins) [[likely]]
            return;
        if (!begins && !limits_.empty() && limits_.back().kind == now.kind && is_near(limits_.back(), now)) return;
        limits_.push_back(now);
    }

    // The connection ends.
    // An event that comes later finds it with a client of its own.
    void end(rtcp_flow* flow) {
        if (!entry_) return rtcp_flow_leaves(flow, &own_);
        rtcp_flow_leaves(flow, &entry_->client);
        rtcp_client_init(&own_, entry_->client.last_us);
        rtcp_clients_leave(std::exchange(entry_, nullptr));
    }

    rtcp_client* get() { return entry_ ? &entry_->client : &own_; }
    const rtcp_client* get() const { return entry_ ? &entry_->client : &own_; }
    const std::vector<LimitEstimate>& limits() const { return limits_; }

private:
    static bool is_near(std::uint64_t a, std::uint64_t b) { return (a > b ? a - b : b - a) <= b / 256; }
    static bool is_near(const LimitEstimate& a, const LimitEstimate& b) {
        return is_near(a.bucket_bytes, b.bucket_bytes) && is_near(a.bytes_per_s, b.bytes_per_s);
    }

    [[gnu::noinline, gnu::cold]] void move(rtcp_flow* flow, std::uint64_t now_us) {
        limits_.push_back({now_us, 0, 0, RTCP_SPLIT});
        rtcp_flow_moves(flow, &entry_->client, &own_, now_us);
        rtcp_clients_leave(std::exchange(entry_, nullptr));
    }

    rtcp_client own_{};
    rtcp_entry* entry_ = nullptr;
    std::shared_ptr<RtcpClients> clients_;
    std::uint32_t number_;
    std::vector<LimitEstimate> limits_;
    bool estimating_ = false;
};

// The ensemble that a flow follows.
// A flow without one keeps its own parameters, at no cost.
class RtcpRows {
public:
    RtcpRows(const rtcp_params& defaults, Following following) : defaults_(defaults), following_(std::move(following)) {}

    void start(const cca_start& start) {
        if (!following_.followed) return;
        ens_ = std::make_unique<rtcp_ens>();
        rtcp_ens_init(ens_.get(), &start, following_.delay_class, following_.hash);
    }

    // Call after the algorithm's own on_ack().
    void on_ack(const rtcp_client& client, const cca_ack& ack, rtcp_params* params) {
        if (!ens_) [[likely]]
            return;
        rtcp_ens_on_ack(ens_.get(), &client, &defaults_, following_.table(), &ack, params);
        following_.note(ens_->flow, ack.now_us);
    }

    void on_event(const cca_event& event) {
        if (ens_) rtcp_ens_on_event(ens_.get(), &event);
    }

    const rtcp_params& defaults() const { return defaults_; }
    const std::vector<EpochTurn>& turns() const { return following_.turns; }

private:
    std::unique_ptr<rtcp_ens> ens_;
    rtcp_params defaults_;
    Following following_;
};

class RtcpCubicCore {
public:
    RtcpCubicCore(RtcpRows rows, RtcpClient client) : client_(std::move(client)), rows_(std::move(rows)) {
        rtcp_cubic_params_init(&params_);
        params_.rtcp = rows_.defaults();
    }

    void start(const cca_start& start, cca_window* window) {
        client_.start(start.now_us);
        rows_.start(start);
        rtcp_cubic_init(&state_, &params_, client_.get(), &start);
        rtcp_cubic_bound(&state_, &params_, client_.get(), window);
    }
    void update_share(std::uint64_t now_us, std::uint32_t waiting_pkts) { client_.update_share(&state_.flow, now_us, waiting_pkts); }
    void on_ack(const cca_ack& ack, cca_window* window) {
        rtcp_cubic_on_ack(&state_, &params_, client_.get(), &ack, window);
        rows_.on_ack(*client_.get(), ack, &params_.rtcp);
        client_.note(&state_.flow, ack.now_us);
    }
    void end() { client_.end(&state_.flow); }
    void grow(cca_window* window, std::uint32_t acked_pkts) {
        rtcp_cubic_grow(&state_, &params_, client_.get(), window, acked_pkts);
    }
    std::uint32_t ssthresh(cca_window* window) {
        return rtcp_cubic_ssthresh(&state_, &params_, client_.get(), window);
    }
    std::uint32_t undo(const cca_window* window) {
        return rtcp_cubic_undo(&state_, &params_, client_.get(), window);
    }
    void on_event(const cca_event& event) {
        rows_.on_event(event);
        rtcp_cubic_on_event(&state_, &params_, client_.get(), &event);
    }
    const std::vector<LimitEstimate>& limits() const { return client_.limits(); }
    const std::vector<EpochTurn>& turns() const { return rows_.turns(); }

private:
    rtcp_cubic_state state_{};
    rtcp_cubic_params params_{};
    RtcpClient client_;
    RtcpRows rows_;
};

class RtcpCubicAlgorithm final : public WindowAlgorithm<RtcpCubicCore> {
public:
    using WindowAlgorithm::WindowAlgorithm;
    const std::vector<LimitEstimate>& limits() const override { return core().limits(); }
    const std::vector<EpochTurn>& turns() const override { return core().turns(); }
};

class RtcpBbr1Algorithm final : public Algorithm {
public:
    RtcpBbr1Algorithm(RtcpRows rows, std::uint32_t hash, RtcpClient client)
        : client_(std::move(client)), rows_(std::move(rows)), hash_(hash) {
        rtcp_bbr1_params_init(&params_);
        params_.rtcp = rows_.defaults();
    }

    void start(const cca_start& start) override {
        client_.start(start.now_us);
        rows_.start(start);
        rtcp_bbr1_init(&state_, &params_, client_.get(), &start, hash_, &decision_);
    }
    void on_ack(const cca_ack& ack) override {
        client_.update_share(&state_.flow, ack.now_us, host.waiting_pkts);
        rtcp_bbr1_on_ack(&state_, &params_, client_.get(), &ack, &decision_);
        rows_.on_ack(*client_.get(), ack, &params_.rtcp);
        least_burst_pkts_ = decision_.pacing_bytes_per_s < kSingleBelow ? 1 : 2;
        client_.note(&state_.flow, ack.now_us);
    }
    void on_end() override { client_.end(&state_.flow); }
    void on_event(const cca_event& event) override {
        rows_.on_event(event);
        rtcp_bbr1_on_event(&state_, &params_, client_.get(), &event, &decision_);
    }
    bool looks_with_acks() const override { return true; }
    std::uint32_t mode() const override { return state_.base.mode; }
    const std::vector<LimitEstimate>& limits() const override { return client_.limits(); }
    const std::vector<EpochTurn>& turns() const override { return rows_.turns(); }

private:
    static constexpr std::uint64_t kSingleBelow = 150'000;  // as in Bbr1Algorithm

    rtcp_bbr1_state state_{};
    rtcp_bbr1_params params_{};
    RtcpClient client_;
    RtcpRows rows_;
    std::uint32_t hash_;
};

class RtcpBbr3Algorithm final : public Algorithm {
public:
    RtcpBbr3Algorithm(RtcpRows rows, std::uint32_t hash, RtcpClient client)
        : client_(std::move(client)), rows_(std::move(rows)), hash_(hash) {
        rtcp_bbr3_params_init(&params_);
        params_.rtcp = rows_.defaults();
    }

    void start(const cca_start& start) override {
        client_.start(start.now_us);
        rows_.start(start);
        rtcp_bbr3_init(&state_, &params_, client_.get(), &start, hash_, &decision_);
    }
    void on_loss(const cca_loss& loss) override { rtcp_bbr3_on_loss(&state_, &params_, &loss); }
    void on_ack(const cca_ack& ack) override {
        client_.update_share(&state_.flow, ack.now_us, host.waiting_pkts);
        rtcp_bbr3_on_ack(&state_, &params_, client_.get(), &ack, &decision_);
        rows_.on_ack(*client_.get(), ack, &params_.rtcp);
        client_.note(&state_.flow, ack.now_us);
    }
    void on_end() override { client_.end(&state_.flow); }
    void on_event(const cca_event& event) override {
        rows_.on_event(event);
        rtcp_bbr3_on_event(&state_, &params_, client_.get(), &event, &decision_);
    }
    bool looks_with_acks() const override { return true; }
    std::uint32_t mode() const override { return state_.base.mode; }
    const std::vector<LimitEstimate>& limits() const override { return client_.limits(); }
    const std::vector<EpochTurn>& turns() const override { return rows_.turns(); }

private:
    rtcp_bbr3_state state_{};
    rtcp_bbr3_params params_{};
    RtcpClient client_;
    RtcpRows rows_;
    std::uint32_t hash_;
};

}  // namespace ccatune
