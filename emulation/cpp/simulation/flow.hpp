// SPDX-License-Identifier: MIT
// A flow in a simulation: both ends of the connection, its application and its counters.
// Members that every packet uses come first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "algorithms/algorithm.hpp"
#include "common/fetch.hpp"
#include "common/histogram.hpp"
#include "common/random.hpp"
#include "receiver/receiver.hpp"
#include "sender/sender.hpp"
#include "simulation/application.hpp"
#include "simulation/simulation.hpp"

namespace ccatune {

struct alignas(kLineBytes) Flow {
    Flow(std::uint32_t id, FlowConfig config, const SimulationConfig& sim)
        : application(std::move(config.transfers), std::move(config.player), config.of_proxy),
          sender(id, std::move(config.algorithm), config.video_of ? 0 : application.begin(config.start)),
          receiver(config.receiver),
          random(sim.seed, id),
          start(config.start),
          stop(config.stop),
          after(config.after),
          video_of(config.video_of) {
        sender.offer_window(receiver.window_pkts());
    }

    Application application;
    Sender sender;
    Receiver receiver;
    FlowResult result;
    Random random;
    Instant start, stop;
    std::optional<std::uint32_t> after, video_of;
    bool started = false;
    std::uint32_t goodput_base = 0;
    SenderCounters sender_base;
    std::uint64_t sampled_pkts = 0, sampled_retransmitted_pkts = 0;
    std::unique_ptr<FineLog> rtt_hist = std::make_unique<FineLog>();  // allocated apart, because it is large
};

}  // namespace ccatune
