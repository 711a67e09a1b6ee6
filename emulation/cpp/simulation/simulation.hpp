// SPDX-License-Identifier: MIT
// One run: flows that share a bottleneck.
//
//   sender --> before --> [queue | link] --> (random loss) --> behind --> receiver
//     ^                                                                      |
//     +---------------- propagation <-- (uplink) <-- (held ACKs) <-----------+
//
// before and behind are elements in a stated order (path.hpp), none of them by default.
// Only the sum of the propagation delays matters to a flow, so all of it is on the way back.
// A packet enters the path when it is sent, which saves one event per packet.
// Where the delay changes over time, each direction has its own.
// For packets this is an element at the start of `before` (base_delay.hpp), for ACKs `delays`.
// Random loss affects packets that the link has delivered, as on a radio link: a lost packet has used capacity.
//
// Every packet sent has been received, dropped or lost by one element, or is inside one.
// Each row of `elements` counts  entered = passed + dropped + inside.
// All packets that one element passed have entered the next.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "common/delay_steps.hpp"
#include "common/histogram.hpp"
#include "path/ack_path.hpp"
#include "path/link.hpp"
#include "path/path.hpp"
#include "receiver/receiver.hpp"
#include "sender/sender.hpp"
#include "simulation/application.hpp"

namespace ccatune {

struct FlowConfig {
    std::unique_ptr<Algorithm> algorithm;
    Instant start{};                  // counts from the end of the flow `after`, if there is one
    Instant stop = Instant::never();
    std::vector<Transfer> transfers;  // no transfers and no player: data without end
    std::shared_ptr<Player> player;   // of a video, in place of transfers
    std::uint32_t client = 0;         // the client whose buckets the flow uses; numbered from 0
    ReceiverConfig receiver;
    std::optional<std::uint32_t> after;  // starts after the end of that flow, which has a lower number
    bool of_proxy = false;            // its data comes from a server; no transfers and no player
    std::optional<std::uint32_t> video_of;  // a further connection of the video of that flow, which has a lower number
};

struct SimulationConfig {
    LinkConfig link;
    std::vector<ElementConfig> before, behind;
    AckPathConfig acks;
    Duration rtt = Duration::from_ms(100);
    std::shared_ptr<const DelaySteps> delays;  // of the ACKs, in place of rtt
    double loss = 0;
    Duration duration = Duration::from_s(30);
    Duration warmup{};          // time before measuring starts; part of duration
    Duration window{};          // length of accounting windows from warmup on; 0: one window
    Duration sample_every{};    // interval of the time series; 0: none
    std::uint64_t seed = 0;
    bool fine_histogram = true;
    bool srtt_histogram = false;
    bool audit = false;         // check the invariants of audit.hpp at every event
};

struct FlowResult {
    std::uint64_t delivered_pkts = 0;  // packets through the bottleneck, in the measured time
    std::uint64_t goodput_pkts = 0;    // new segments in order, in the measured time
    SenderCounters sender;             // in the measured time
    std::uint64_t all_sent_pkts = 0;   // in the whole run
    double complete_s = -1;            // when all data of the application was acknowledged; -1: not
    std::vector<TransferResult> transfers;  // those that have begun
    std::vector<ChunkResult> chunks;        // the chunks of a video that have begun
    std::vector<std::uint32_t> rtt_hist;  // FineLog bins, measured time
    std::vector<EpochTurn> turns;
    std::vector<LimitEstimate> limits;
};

struct WindowResult {
    std::int64_t start_ms;
    std::uint64_t capacity_bytes, delivered_bytes, packets;
    std::array<std::uint32_t, CompactBins::kBins> hist;
};

struct SeriesPoint {
    double time_s, capacity_mbps, rate_mbps, rtt_ms, smoothed_rtt_ms, queue_pkts, queueing_delay_ms;
    double cwnd_pkts, pacing_mbps;
    double retransmitted_pkts;  // since the previous point
    std::uint32_t flow, mode;
};

// One row per sample; a row has a value for each element, in the order of `elements`.
struct ElementSeries {
    std::vector<double> time_s;
    std::vector<std::uint64_t> dropped;  // since the previous sample
    std::vector<std::uint64_t> inside;
};

// The data that a proxy has received and the clients have not acknowledged, of all flows, at each sample.
struct ProxySeries {
    std::vector<double> time_s;
    std::vector<std::uint64_t> buffered_pkts;
};

struct SimulationResult {
    std::uint64_t capacity_bytes = 0, delivered_bytes = 0, packets = 0, dropped = 0, lost_at_random = 0;
    double delay_sum_s = 0;
    std::uint64_t all_packets = 0;  // delivered in the whole run, warm-up included
    std::uint64_t queued = 0;       // at the end of the run
    std::vector<std::uint32_t> delay_hist;  // DelayHistogram bins
    // Of all flows, one entry per RTT sample, if requested.
    std::array<std::uint32_t, CompactBins::kBins> srtt_hist{};
    std::vector<WindowResult> windows;
    std::vector<FlowResult> flows;
    std::vector<SeriesPoint> series;
    std::vector<ElementResult> elements;  // before, the link, its random loss if any, behind
    ElementSeries element_series;
    ElementResult acks;                   // held ACKs and the uplink; zeros for a plain way back
    std::shared_ptr<SimulationResult> servers;  // of split connections, between servers and proxy
    ProxySeries proxy;
};

// Thrown when a run is cancelled.
class Cancelled {};

// Runs to the end.
// The same configuration gives the same result on any machine.
// cancel: checked every few milliseconds; once it is true, the run throws Cancelled.
SimulationResult run_simulation(const SimulationConfig& config, std::vector<FlowConfig> flows,
                                const std::atomic<bool>* cancel = nullptr);

// Runs connections that a proxy splits: the data of flow i of `servers` becomes that of flow i of `clients`.
//
//   server --> path of `servers` --> proxy, receiver.buffer_pkts --> path of `clients` --> client
//
// The flows of `servers` have data without end or one transfer. Those of `clients` have of_proxy set.
// Both have the same start and duration. Data costs the proxy no time.
// The proxy keeps data until the client has acknowledged it, so its buffer is that of both sockets.
// Returns the result of `clients`, with that of `servers`.
SimulationResult run_split(const SimulationConfig& servers, std::vector<FlowConfig> server_flows,
                           const SimulationConfig& clients, std::vector<FlowConfig> client_flows,
                           const std::atomic<bool>* cancel = nullptr);

}  // namespace ccatune
