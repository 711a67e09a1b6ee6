// SPDX-License-Identifier: MIT
// Reduces runs to the numbers that training needs, for every case with every trial.
//
//   case     a job: its path, and flows with their transfers
//   trial    an algorithm with its parameters, and an ensemble table if any; all flows of a case run it
//
// Histograms use CompactBins.
// All counts cover the measured time, with two exceptions.
// busy_s, offered_bytes and complete cover flows with an end over the whole run.
// detecting and limited cover R-TCP's estimates in the whole run.
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
