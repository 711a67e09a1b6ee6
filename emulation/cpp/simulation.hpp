// SPDX-License-Identifier: MIT
// One run: flows that share a bottleneck.
//
//   sender --> [queue | link] --> (random loss) --> receiver --> propagation --> sender
//
// With one bottleneck only the sum of the propagation delays matters to a flow,
// so all of it lies on the way back: a packet enters the queue when it is sent,
// which saves an event a packet. Random loss hits what the link has delivered,
// as on a radio link: it has used capacity.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "algorithm.hpp"
#include "histogram.hpp"
#include "link.hpp"
#include "sender.hpp"

namespace ccatune {

struct FlowConfig {
    std::unique_ptr<Algorithm> algorithm;
    Instant start{};
    Instant stop = Instant::never();
    std::uint32_t size_pkts = UINT32_MAX;  // then the application has no more
};

struct SimulationConfig {
    LinkConfig link;
    Duration rtt = Duration::from_ms(100);
    double loss = 0;
    std::uint32_t ack_every = 2;
    Duration delayed_ack = Duration::from_ms(40);
    Duration duration = Duration::from_s(30);
    Duration warmup{};          // runs before anything is measured; part of duration
    Duration window{};          // accounting windows from warmup on; 0: one
    Duration sample_every{};    // time series; 0: none
    std::uint64_t seed = 0;
    bool fine_histogram = true;
};

struct FlowResult {
    std::uint64_t delivered_pkts = 0;  // over the bottleneck, in the measured time
    std::uint64_t goodput_pkts = 0;    // new in order, in the measured time
    SenderCounters sender;             // in the measured time
    std::uint64_t all_sent_pkts = 0;   // in the whole run
    double complete_s = -1;            // when all the application had was acknowledged; -1: not
    std::vector<std::uint32_t> rtt_hist;  // FineLog bins, measured time
    std::vector<EpochTurn> turns;
};

struct WindowResult {
    std::int64_t start_ms;
    std::uint64_t capacity_bytes, delivered_bytes, packets;
    std::array<std::uint32_t, CompactBins::kBins> hist;
};

struct SeriesPoint {
    double time_s, capacity_mbps, rate_mbps, rtt_ms, queue_pkts, queueing_delay_ms, cwnd_pkts, pacing_mbps;
    double retransmitted_pkts;  // since the point before
    std::uint32_t flow, mode;
};

struct SimulationResult {
    std::uint64_t capacity_bytes = 0, delivered_bytes = 0, packets = 0, dropped = 0, lost_at_random = 0;
    double delay_sum_s = 0;
    std::uint64_t all_packets = 0;  // delivered in the whole run, warm-up included
    std::uint64_t queued = 0;       // at its end
    std::vector<std::uint32_t> delay_hist;  // DelayHistogram bins
    std::vector<WindowResult> windows;
    std::vector<FlowResult> flows;
    std::vector<SeriesPoint> series;
};

// A run that was told to stop.
class Cancelled {};

// Runs to the end; the same configuration gives the same result, anywhere.
// cancel: looked at every few milliseconds; once true the run throws Cancelled.
SimulationResult run_simulation(const SimulationConfig& config, std::vector<FlowConfig> flows,
                                const std::atomic<bool>* cancel = nullptr);

}  // namespace ccatune
