// SPDX-License-Identifier: MIT
#include "simulation/accounts.hpp"

#include <algorithm>
#include <utility>

namespace ccatune {
namespace {

// Returns the packets delivered since the previous point, or since measuring began if that was later.
std::uint64_t take_delivered(Flow& flow) {
    const std::uint64_t before = std::exchange(flow.sampled_pkts, flow.result.delivered_pkts);
    return flow.result.delivered_pkts >= before ? flow.result.delivered_pkts - before : flow.result.delivered_pkts;
}

}  // namespace

void Accounts::begin_measuring() {
    measuring_ = true;
    for (Flow& flow : parts_.flows) {
        flow.result.delivered_pkts = 0;
        flow.goodput_base = flow.receiver.in_order();
        flow.sender_base = flow.sender.counters();
    }
    for (Path* path : {&parts_.before, &parts_.behind})
        for (std::size_t i = 0; i < path->size(); ++i) (*path)[i].begin_measuring();
    if (parts_.acks) parts_.acks->begin_measuring();
}

void Accounts::open_window(Instant at) {
    window_ = WindowResult{};
    window_.start_ms = at.ns / 1'000'000;
    window_start_ = at;
    window_end_ = parts_.config.window.ns > 0 ? std::min(at + parts_.config.window, end_) : end_;
}

void Accounts::close_window(Instant at) {
    window_.capacity_bytes = parts_.link.capacity_bytes(window_start_, at);
    window_.delivered_bytes = window_.packets * kWireBytes;
    result_.capacity_bytes += window_.capacity_bytes;
    result_.packets += window_.packets;
    result_.windows.push_back(window_);
}

void Accounts::next_window() {
    close_window(window_end_);
    open_window(window_end_);
}

void Accounts::sample(Instant now) {
    const Duration span = parts_.config.sample_every;
    const double capacity = static_cast<double>(parts_.link.capacity_bytes(now - span, now)) * 8e-6 / span.s();
    for (std::uint32_t id = 0; id < parts_.flows.size(); ++id) {
        Flow& flow = parts_.flows[id];
        const std::uint64_t retransmitted = flow.sender.counters().retransmitted;
        const cca_decision& d = flow.sender.algorithm().decision();
        const double rate = static_cast<double>(take_delivered(flow)) * kWireBytes * 8e-6 / span.s();
        result_.series.push_back({now.s(), capacity, rate, flow.sender.last_rtt().s() * 1e3,
                                  flow.sender.smoothed_rtt().s() * 1e3,
                                  static_cast<double>(parts_.link.queued()), last_delay_.s() * 1e3,
                                  static_cast<double>(d.cwnd_pkts), static_cast<double>(d.pacing_bytes_per_s) * 8e-6,
                                  static_cast<double>(retransmitted - flow.sampled_retransmitted_pkts), id,
                                  flow.sender.algorithm().mode()});
        flow.sampled_retransmitted_pkts = retransmitted;
    }
    sample_elements(now);
}

void Accounts::sample_elements(Instant now) {
    const std::vector<ElementResult> rows = elements();
    sampled_drops_.resize(rows.size());
    result_.element_series.time_s.push_back(now.s());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        result_.element_series.dropped.push_back(rows[i].dropped - sampled_drops_[i]);
        result_.element_series.inside.push_back(rows[i].inside);
        sampled_drops_[i] = rows[i].dropped;
    }
}

std::vector<ElementResult> Accounts::elements() const {
    std::vector<ElementResult> rows;
    const std::uint64_t passed = result_.all_packets, lost = result_.lost_at_random, queued = parts_.link.queued();
    for (std::size_t i = 0; i < parts_.before.size(); ++i) rows.push_back(parts_.before[i].result());
    rows.push_back({passed + dropped() + queued, passed, dropped(), parts_.link.codel_drops(), queued, {}});
    if (parts_.config.loss > 0) rows.push_back({passed, passed - lost, lost, 0, 0, {}});
    for (std::size_t i = 0; i < parts_.behind.size(); ++i) rows.push_back(parts_.behind[i].result());
    return rows;
}

std::vector<Audit::Row> Accounts::rows() const {
    std::vector<Audit::Row> rows;
    const auto add = [&](const Path& path) {
        for (std::size_t i = 0; i < path.size(); ++i)
            rows.push_back({path[i].entered(), path[i].passed(), path[i].dropped(), path[i].held()});
    };
    const std::uint64_t passed = result_.all_packets, lost = result_.lost_at_random;
    add(parts_.before);
    rows.push_back({parts_.link.entered(), passed, dropped(), parts_.link.queued()});
    rows.push_back({passed, passed - lost, lost, 0});
    add(parts_.behind);
    return rows;
}

FlowResult Accounts::result_of(Flow& flow) const {
    FlowResult r = std::move(flow.result);
    const SenderCounters& counters = flow.sender.counters();
    r.goodput_pkts = flow.receiver.in_order() - flow.goodput_base;
    r.sender = counters - flow.sender_base;
    r.all_sent_pkts = counters.sent;
    if (flow.started) r.transfers = flow.application.results();
    if (flow.started && flow.application.player()) r.chunks = flow.application.player()->chunks();
    r.turns = flow.sender.algorithm().turns();
    r.limits = flow.sender.algorithm().limits();
    r.rtt_hist.assign(flow.rtt_hist->counts().begin(), flow.rtt_hist->counts().end());
    return r;
}

SimulationResult Accounts::finish() {
    if (!measuring_) begin_measuring();
    while (window_end_ < end_) next_window();
    close_window(end_);
    result_.delivered_bytes = result_.packets * kWireBytes;
    result_.dropped = dropped();
    result_.queued = parts_.link.queued();
    result_.elements = elements();
    if (parts_.acks) result_.acks = parts_.acks->result();
    if (parts_.config.fine_histogram) result_.delay_hist = delays_.counts();
    for (Flow& flow : parts_.flows) result_.flows.push_back(result_of(flow));
    return std::move(result_);
}

}  // namespace ccatune
