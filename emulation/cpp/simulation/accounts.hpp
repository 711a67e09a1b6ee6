// SPDX-License-Identifier: MIT
// The counters of a run at its bottleneck, and its result:
//
//   0 -- warm-up --|-- window --|-- window --| ... |-- window --| end
//                   measured
//
// Senders, receivers and elements keep the other counters.
// They are read from there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/histogram.hpp"
#include "common/packet.hpp"
#include "common/time.hpp"
#include "path/ack_path.hpp"
#include "path/link.hpp"
#include "path/path.hpp"
#include "simulation/audit.hpp"
#include "simulation/flow.hpp"
#include "simulation/simulation.hpp"

namespace ccatune {

class Accounts {
public:
    // References to parts of the simulation, which outlive its accounts.
    struct Parts {
        const SimulationConfig& config;
        const Link& link;
        Path &before, &behind;
        std::optional<AckPath>& acks;
        std::vector<Flow>& flows;
    };

    explicit Accounts(const Parts& parts)
        : parts_(parts),
          measured_from_(Instant{} + parts.config.warmup),
          end_(Instant{} + parts.config.duration) {
        open_window(measured_from_);
    }

    // Call before anything happens at that time.
    void reach(Instant now) {
        if (!measuring_ && now >= measured_from_) begin_measuring();
    }

    // Call before the bottleneck serves at that time.
    void turn_windows(Instant now) {
        if (measuring_)
            while (now >= window_end_) next_window();
    }

    void deliver(Instant now, const Packet& packet, Flow& flow) {
        ++result_.all_packets;
        ++flow.result.delivered_pkts;
        last_delay_ = now - packet.queued_at;
        if (!measuring_) return;
        ++window_.packets;
        window_.hist[CompactBins::bin_of(ticks_of(last_delay_))]++;
        if (parts_.config.fine_histogram) delays_.add(last_delay_);
        result_.delay_sum_s += last_delay_.s();
    }

    void lose_at_random() { ++result_.lost_at_random; }

    // Call after an ACK that gave an RTT sample.
    void add_rtt(Flow& flow) {
        if (!measuring_) return;
        flow.rtt_hist->add(flow.sender.last_rtt());
        if (parts_.config.srtt_histogram)
            result_.srtt_hist[CompactBins::bin_of(ticks_of(flow.sender.smoothed_rtt()))]++;
    }

    // Adds a point to the time series.
    void sample(Instant now);

    // Returns rows in the order of a packet's path: before, the bottleneck, its random loss, behind.
    std::vector<Audit::Row> rows() const;

    // Call once, at the end.
    SimulationResult finish();

private:
    void begin_measuring();
    void open_window(Instant at);
    void close_window(Instant at);
    void next_window();
    void sample_elements(Instant now);
    std::vector<ElementResult> elements() const;
    FlowResult result_of(Flow& flow) const;
    std::uint64_t dropped() const { return parts_.link.full_drops() + parts_.link.codel_drops(); }

    Parts parts_;
    Instant measured_from_, end_, window_start_, window_end_;
    bool measuring_ = false;
    Duration last_delay_{};
    DelayHistogram delays_;
    std::vector<std::uint64_t> sampled_drops_;
    WindowResult window_{};
    SimulationResult result_;
};

}  // namespace ccatune
