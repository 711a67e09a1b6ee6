// SPDX-License-Identifier: MIT
#include "run/measure.hpp"

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
        const bool has_end = !job.flows[i].transfers.empty() || job.flows[i].video;
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
