// SPDX-License-Identifier: MIT
// The jobs that Python requests, as plain data that threads may read.
// The thread that runs a job makes the simulation from it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/table.hpp"
#include "simulation/simulation.hpp"

namespace ccatune {

struct FlowJob {
    std::string cca;
    std::vector<std::uint32_t> params;  // in the order of params.def
    std::shared_ptr<Table> table;
    std::uint8_t delay_class = 0;
    double start_s = 0;
    std::optional<double> stop_s;
    std::vector<Transfer> transfers;
    std::shared_ptr<const Video> video;
    std::uint32_t client = 0;
    ReceiverConfig receiver;
    std::optional<std::uint32_t> after;  // start_s counts from the end of that flow, which has a lower number
};

struct Job {
    SimulationConfig config;
    std::vector<FlowJob> flows;
    double keep_s = 0;  // how long R-TCP's knowledge of a client outlives its connections
};

class RtcpClients;

// Returns the CCA_ID_ of an algorithm of the core.
std::uint32_t id_of(const std::string& cca);

// hash: distinguishes one flow from another.
// clients: those of the run; null: flows share no knowledge.
std::unique_ptr<Algorithm> make_algorithm(const FlowJob& flow, std::uint32_t hash,
                                          const std::shared_ptr<RtcpClients>& clients = nullptr);

SimulationResult run_job(const Job& job, const std::atomic<bool>& cancel);

}  // namespace ccatune
