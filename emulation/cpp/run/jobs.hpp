// SPDX-License-Identifier: MIT
// The jobs that Python requests, as plain data that threads may read.
// The thread that runs a job makes the simulation from it, and returns its whole result or reduces it to a measure.
#pragma once

#include <array>
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
    std::optional<std::uint32_t> video_of;  // a further connection of that flow's video; no transfers and no video
};

struct Job {
    SimulationConfig config;
    std::vector<FlowJob> flows;
    double keep_s = 0;  // how long R-TCP's knowledge of a client outlives its connections
    std::shared_ptr<const Job> servers;  // of connections that a proxy splits (run_split); null: none
};

class RtcpClients;

// Returns the CCA_ID_ of an algorithm of the core.
std::uint32_t id_of(const std::string& cca);

// hash: distinguishes one flow from another.
// clients: those of the run; null: flows share no knowledge.
std::unique_ptr<Algorithm> make_algorithm(const FlowJob& flow, std::uint32_t hash,
                                          const std::shared_ptr<RtcpClients>& clients = nullptr);

SimulationResult run_job(const Job& job, const std::atomic<bool>& cancel);

// The numbers of a run that training needs, for a case with a trial:
//
//   case     a job: its path, and flows with their transfers
//   trial    an algorithm with its parameters, and an ensemble table if any; all flows of a case run it
//
// Histograms use CompactBins.
// All counts cover the measured time, with two exceptions.
// busy_s, offered_bytes and complete cover flows with an end over the whole run.
// detecting and limited cover R-TCP's estimates in the whole run.
struct Trial {
    std::string cca;
    std::vector<std::uint32_t> params;  // in the order of params.def
    std::shared_ptr<Table> table;
};

struct Measure {
    std::uint64_t capacity_bytes = 0;       // capacity of the bottleneck, on the wire
    std::uint64_t delivered_bytes = 0;      // bytes that it carried, on the wire, including retransmissions
    std::uint64_t goodput_bytes = 0;        // new segments in order at the receivers, payload
    std::uint64_t packets = 0;              // packets that the bottleneck carried, as in delay_hist
    std::uint64_t sent_pkts = 0, retransmitted_pkts = 0;
    double busy_s = 0;                      // time with a transfer under way, summed over connections
    std::uint64_t offered_bytes = 0;        // payload of the transfers that have begun
    bool complete = true;                   // all data of flows with an end is acknowledged
    bool detecting = false, limited = false;  // R-TCP: detection began at some time; the last estimate is a limiter
    std::array<std::uint32_t, CompactBins::kBins> delay_hist{}, srtt_hist{};
};

Measure measure(const Job& one_case, const Trial& trial, const std::atomic<bool>& cancel);

}  // namespace ccatune
