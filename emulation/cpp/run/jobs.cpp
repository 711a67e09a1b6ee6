// SPDX-License-Identifier: MIT
#include "run/jobs.hpp"

#include <stdexcept>

#include "algorithms/bbr_algorithm.hpp"
#include "algorithms/cubic_algorithm.hpp"
#include "algorithms/gr_algorithm.hpp"
#include "algorithms/reno_algorithm.hpp"
#include "algorithms/roccet_algorithm.hpp"
#include "algorithms/rtcp_algorithm.hpp"
#include "algorithms/vegas_algorithm.hpp"

namespace ccatune {

std::uint32_t id_of(const std::string& cca) {
    for (const auto& algorithm : cca_algorithms)
        if (cca == algorithm.name) return algorithm.id;
    throw std::invalid_argument("cca: expected an algorithm of the core, got " + cca);
}

namespace {

// Returns a struct of kmod/core with one 32-bit word for each of the algorithm's lines in params.def.
template <class Params>
Params params_of(const std::string& cca, const std::vector<std::uint32_t>& values) {
    Params params;
    if (values.size() * sizeof(std::uint32_t) != sizeof(params))
        throw std::invalid_argument(cca + ": expected a value for each of its parameters");
    for (std::uint32_t i = 0; i < values.size(); ++i) cca_param_set(&params, i, values[i]);
    return params;
}

// The hashes of flows are consecutive numbers.
// After mixing, random values that are derived from them do not show this relation.
std::uint32_t mix(std::uint32_t hash) {
    hash = (hash ^ hash >> 16) * 0x7feb352du;
    hash = (hash ^ hash >> 15) * 0x846ca68bu;
    return hash ^ hash >> 16;
}

RtcpRows rows_of(const FlowJob& flow, std::uint32_t hash) {
    return {params_of<rtcp_params>(flow.cca, flow.params), flow.table, flow.delay_class, hash};
}

struct Making {
    const FlowJob& flow;
    std::uint32_t hash;
    const std::shared_ptr<RtcpClients>& clients;

    template <class Params>
    Params params() const {
        return params_of<Params>(flow.cca, flow.params);
    }
};

using Made = std::unique_ptr<Algorithm>;

// One function for each algorithm of params.def.
// CCA_ALGORITHM below calls them.
Made make_gr(const Making& m) {
    return std::make_unique<GrAlgorithm>(m.params<gr_params>(), m.flow.table, m.flow.delay_class, m.hash);
}
Made make_reno(const Making&) { return std::make_unique<RenoAlgorithm>(); }
Made make_cubic(const Making& m) { return std::make_unique<CubicAlgorithm>(CubicCore(m.params<cubic_params>())); }
Made make_roccet(const Making& m) {
    return std::make_unique<RoccetAlgorithm>(
        RoccetCore(m.params<roccet_params>(), m.flow.table, m.flow.delay_class, m.hash));
}
Made make_bbr(const Making& m) { return std::make_unique<Bbr1Algorithm>(m.params<bbr1_params>(), mix(m.hash)); }
Made make_bbr3(const Making& m) { return std::make_unique<Bbr3Algorithm>(m.params<bbr3_params>(), mix(m.hash)); }
Made make_rtcp_cubic(const Making& m) {
    return std::make_unique<RtcpCubicAlgorithm>(RtcpCubicCore(rows_of(m.flow, m.hash), {m.clients, m.flow.client}));
}
Made make_rtcp_bbr(const Making& m) {
    return std::make_unique<RtcpBbr1Algorithm>(rows_of(m.flow, m.hash), mix(m.hash),
                                               RtcpClient{m.clients, m.flow.client});
}
Made make_rtcp_bbr3(const Making& m) {
    return std::make_unique<RtcpBbr3Algorithm>(rows_of(m.flow, m.hash), mix(m.hash),
                                               RtcpClient{m.clients, m.flow.client});
}
Made make_vegas(const Making& m) { return std::make_unique<VegasAlgorithm>(VegasCore(m.params<vegas_params>())); }

}  // namespace

std::unique_ptr<Algorithm> make_algorithm(const FlowJob& flow, std::uint32_t hash,
                                          const std::shared_ptr<RtcpClients>& clients) {
    if (flow.cca == "fixed") {
        if (flow.params.size() != 2) throw std::invalid_argument("fixed: expected cwnd_pkts and pacing_bytes_per_s");
        return std::make_unique<FixedWindow>(flow.params[0], flow.params[1]);
    }
#define CCA_ALGORITHM(name, mode, host, meaning) \
    if (flow.cca == #name) return make_##name({flow, hash, clients});
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
