// SPDX-License-Identifier: MIT
#include "jobs.hpp"

#include <stdexcept>

#include "gr_algorithm.hpp"
#include "reno_algorithm.hpp"

namespace ccatune {

std::uint32_t id_of(const std::string& cca) {
    for (const auto& algorithm : cca_algorithms)
        if (cca == algorithm.name) return algorithm.id;
    throw std::invalid_argument("cca: expected an algorithm of the core, got " + cca);
}

namespace {

gr_params gr_params_of(const std::vector<std::uint32_t>& values) {
    gr_params params;
    if (values.size() * sizeof(std::uint32_t) != sizeof(params))
        throw std::invalid_argument("gr: expected a value for each of its parameters");
    for (std::uint32_t i = 0; i < values.size(); ++i) cca_param_set(&params, i, values[i]);
    return params;
}

}  // namespace

std::unique_ptr<Algorithm> make_algorithm(const FlowJob& flow, std::uint32_t hash) {
    if (flow.cca == "fixed") {
        if (flow.params.size() != 2) throw std::invalid_argument("fixed: expected cwnd_pkts and pacing_bytes_per_s");
        return std::make_unique<FixedWindow>(flow.params[0], flow.params[1]);
    }
    if (flow.cca == "gr")
        return std::make_unique<GrAlgorithm>(gr_params_of(flow.params), flow.table, flow.delay_class, hash);
    if (flow.cca == "reno") return std::make_unique<RenoAlgorithm>();
    throw std::invalid_argument("cca: expected gr, reno or fixed, got " + flow.cca);
}

SimulationResult run_job(const Job& job, const std::atomic<bool>& cancel) {
    std::vector<FlowConfig> flows;
    auto hash = static_cast<std::uint32_t>(job.config.seed);
    for (const FlowJob& flow : job.flows)
        flows.push_back({make_algorithm(flow, hash++), Instant{} + Duration::from_s(flow.start_s),
                         flow.stop_s ? Instant{} + Duration::from_s(*flow.stop_s) : Instant::never(), flow.size_pkts});
    return run_simulation(job.config, std::move(flows), &cancel);
}

}  // namespace ccatune
