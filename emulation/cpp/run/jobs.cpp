// SPDX-License-Identifier: MIT
#include "run/jobs.hpp"

#include <stdexcept>

#include "algorithms/making.hpp"
#include "algorithms/rtcp_algorithm.hpp"

namespace ccatune {

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

SimulationResult run_job(const Job& job, const std::atomic<bool>& cancel) {
    std::vector<FlowConfig> flows;
    auto hash = static_cast<std::uint32_t>(job.config.seed);
    const auto clients = std::make_shared<RtcpClients>(job.flows.size(), Duration::from_s(job.keep_s));
    for (std::uint32_t id = 0; id < job.flows.size(); ++id) {
        const FlowJob& flow = job.flows[id];
        if (flow.after && *flow.after >= id) throw std::invalid_argument("after: expected a flow before this one");
        flows.push_back({make_algorithm(flow, hash++, clients), Instant{} + Duration::from_s(flow.start_s),
                         flow.stop_s ? Instant{} + Duration::from_s(*flow.stop_s) : Instant::never(), flow.transfers,
                         flow.video, flow.client, flow.receiver, flow.after});
    }
    return run_simulation(job.config, std::move(flows), &cancel);
}

}  // namespace ccatune
