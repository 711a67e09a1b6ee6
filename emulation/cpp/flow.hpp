// SPDX-License-Identifier: MIT
// A flow in a simulation: both ends of the connection, what its application
// sends, and what is counted. What every packet touches stands first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "algorithm.hpp"
#include "application.hpp"
#include "histogram.hpp"
#include "random.hpp"
#include "receiver.hpp"
#include "sender.hpp"
#include "simulation.hpp"

namespace ccatune {

struct Flow {
    Flow(std::uint32_t id, FlowConfig config, const SimulationConfig& sim)
        : application(std::move(config.transfers)),
          sender(id, std::move(config.algorithm), application.begin(config.start)),
          receiver(config.receiver),
          random(sim.seed, id),
          start(config.start),
          stop(config.stop) {
        sender.offer_window(receiver.window_pkts());
    }

    Application application;
    Sender sender;
    Receiver receiver;
    Random random;
    Instant start, stop;
    bool started = false;
    FlowResult result;
    std::uint32_t goodput_base = 0;
    SenderCounters sender_base;
    std::uint64_t sampled_pkts = 0, sampled_resent_pkts = 0;
    FineLog rtt_hist;
};

}  // namespace ccatune
