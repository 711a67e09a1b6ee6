// SPDX-License-Identifier: MIT
// Runs reduced to the numbers that training is about: every case with every trial.
//
//   case     a job: its path, and flows with their transfers
//   trial    what all flows of a case run: an algorithm with its parameters, and a table that they follow, if any
//
// Histograms are of CompactBins. All counts are of the measured time, but for busy_s, offered_bytes and complete, which
// are about flows with an end, and limited and detecting, which are about the end of the run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "run/jobs.hpp"

namespace ccatune {

struct Trial {
    std::string cca;
    std::vector<std::uint32_t> params;  // in the order of params.def
    std::shared_ptr<Table> table;
};

struct Measure {
    std::uint64_t capacity_bytes = 0;       // of the bottleneck, on the wire
    std::uint64_t delivered_bytes = 0;      // over it, on the wire, retransmissions with it
    std::uint64_t goodput_bytes = 0;        // new in order at the receivers, payload
    std::uint64_t packets = 0;              // over the bottleneck: those of delay_hist
    std::uint64_t sent_pkts = 0, retransmitted_pkts = 0;
    double busy_s = 0;                      // time in which connections had data, summed over them
    std::uint64_t offered_bytes = 0;        // payload of the transfers that have begun
    bool complete = true;                   // all flows with an end have been acknowledged whole
    bool detecting = false, limited = false;  // R-TCP: a limiter was looked for; the client is taken for limited
    std::array<std::uint32_t, CompactBins::kBins> delay_hist{}, srtt_hist{};
};

Measure measure(const Job& one_case, const Trial& trial, const std::atomic<bool>& cancel);

}  // namespace ccatune
