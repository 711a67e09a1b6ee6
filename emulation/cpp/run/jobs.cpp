// SPDX-License-Identifier: MIT
#include "run/jobs.hpp"

#include <stdexcept>

#include "algorithms/making.hpp"
#include "algorithms/rtcp_algorithm.hpp"
#include "common/packet.hpp"
#include "rtcp_detect.h"

namespace ccatune {
namespace {

Job with_trial(const Job& one_case, const Trial& trial) {
    Job job = one_case;
    for (FlowJob& flow : job.flows) {
        flow.cca = trial.cca;
        flow.params = trial.params;
        flow.table = trial.table;
    }
    job.config.fine_histogram = false;
    job.config.srtt_histogram = true;
    job.config.window = Duration{};
    job.config.sample_every = Duration{};
    return job;
}

// A transfer that is not complete counts as under way until the end of the run.
void add_transfers(Measure& m, const FlowResult& flow, double end_s) {
    for (const TransferResult& transfer : flow.transfers) {
        m.busy_s += (transfer.complete_s < 0 ? end_s : transfer.complete_s) - transfer.start_s;
        m.offered_bytes += static_cast<std::uint64_t>(transfer.size_pkts) * kMssBytes;
    }
}

// Uses the latest limiter estimate of all flows, which are the connections of one client.
void add_limits(Measure& m, const std::vector<FlowResult>& flows) {
    std::uint64_t last_us = 0;
    for (const FlowResult& flow : flows)
        for (const LimitEstimate& limit : flow.limits) {
            m.detecting = true;
            if (limit.at_us < last_us) continue;
            last_us = limit.at_us;
            m.limited = limit.kind == RTCP_LIMITED;
        }
}

}  // namespace

std::uint32_t id_of(const std::string& cca) {
    for (const auto& algorithm : cca_algorithms)
        if (cca == algorithm.name) return algorithm.id;
    throw std::invalid_argument("cca: expected an algorithm of the core, got " + cca);
}

std::unique_ptr<Algorithm> make_algorithm(const FlowJob& flow, std::uint32_t hash,
                                          const std::shared_ptr<RtcpClients>& clients) {
    if (flow.cca == "fixed") {
        if (flow.params.size() != 2) throw std::invalid_argument("fixed: expected cwnd_pkts and pacing_bytes_per_s");
        return std::make_unique<FixedWindow>(flow.params[0], flow.params[1]);
    }
    const Making making{flow.params, flow.table, flow.delay_class, hash, clients, flow.client};
#define CCA_ALGORITHM(name, mode, host, meaning) \
    if (flow.cca == #name) return make_##name(making);
#include "params.def"
    throw std::invalid_argument("cca: expected an algorithm of the core or fixed, got " + flow.cca);
}

namespace {

std::vector<FlowConfig> flows_of(const Job& job) {
    std::vector<FlowConfig> flows;
    auto hash = static_cast<std::uint32_t>(job.config.seed);
    const auto clients = std::make_shared<RtcpClients>(job.flows.size(), Duration::from_s(job.keep_s));
    for (std::uint32_t id = 0; id < job.flows.size(); ++id) {
        const FlowJob& flow = job.flows[id];
        if (flow.after && *flow.after >= id) throw std::invalid_argument("after: expected a flow before this one");
        if (flow.video_of && (*flow.video_of >= id || !job.flows[*flow.video_of].video))
            throw std::invalid_argument("video_of: expected a flow before this one, with a video");
        flows.push_back({make_algorithm(flow, hash++, clients), Instant{} + Duration::from_s(flow.start_s),
                         flow.stop_s ? Instant{} + Duration::from_s(*flow.stop_s) : Instant::never(),
                         job.servers ? std::vector<Transfer>{} : flow.transfers,
                         flow.video_of ? flows[*flow.video_of].player
                         : flow.video  ? std::make_shared<Player>(flow.video)
                                       : nullptr,
                         flow.client, flow.receiver, flow.after, job.servers != nullptr, flow.video_of});
    }
    return flows;
}

}  // namespace

SimulationResult run_job(const Job& job, const std::atomic<bool>& cancel) {
    if (!job.servers) return run_simulation(job.config, flows_of(job), &cancel);
    const Job& servers = *job.servers;
    return run_split(servers.config, flows_of(servers), job.config, flows_of(job), &cancel);
}

Measure measure(const Job& one_case, const Trial& trial, const std::atomic<bool>& cancel) {
    const Job job = with_trial(one_case, trial);
    const SimulationResult result = run_job(job, cancel);
    const WindowResult& all = result.windows.front();
    Measure m;
    m.capacity_bytes = all.capacity_bytes;
    m.delivered_bytes = all.delivered_bytes;
    m.packets = all.packets;
    m.delay_hist = all.hist;
    m.srtt_hist = result.srtt_hist;
    for (std::size_t i = 0; i < job.flows.size(); ++i) {
        const FlowResult& flow = result.flows[i];
        const FlowJob& sends = (job.servers ? *job.servers : job).flows[i];
        const bool has_end = !sends.transfers.empty() || sends.video;
        m.goodput_bytes += flow.goodput_pkts * kMssBytes;
        m.sent_pkts += flow.sender.sent;
        m.retransmitted_pkts += flow.sender.retransmitted;
        m.complete &= !has_end || flow.complete_s >= 0;
        add_transfers(m, flow, job.config.duration.s());
    }
    add_limits(m, result.flows);
    return m;
}

}  // namespace ccatune
