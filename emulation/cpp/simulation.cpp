// SPDX-License-Identifier: MIT
#include "simulation.hpp"

#include <algorithm>

#include "heap.hpp"
#include "packet.hpp"
#include "random.hpp"
#include "receiver.hpp"
#include "ring.hpp"
#include "sender.hpp"

namespace ccatune {
namespace {

// Events between two looks at whether the run was cancelled: some milliseconds.
constexpr std::uint32_t kEventsPerLook = 1u << 16;

// Sources of events: the link, the sampler, and four for each flow.
enum Source : std::uint32_t { kLink = 0, kSampler = 1, kFlows = 2 };
enum FlowSource : std::uint32_t { kAcks = 0, kSenderTimer, kReceiverTimer, kLife, kPerFlow };

struct Flow {
    Flow(std::uint32_t id, FlowConfig config, const SimulationConfig& sim)
        : sender(id, std::move(config.algorithm), config.size_pkts),
          receiver(sim.ack_every, sim.delayed_ack),
          random(sim.seed, id),
          start(config.start),
          stop(config.stop) {}

    Sender sender;
    Receiver receiver;
    Fifo<Ack> acks;
    Random random;
    Instant start, stop;
    bool started = false;
    FlowResult result;
    FineLog rtt_hist;
    std::uint32_t goodput_base = 0;
    SenderCounters sender_base;
    std::uint64_t sampled_pkts = 0, sampled_resent_pkts = 0;
};

class Simulation {
public:
    Simulation(const SimulationConfig& config, std::vector<FlowConfig> flows)
        : config_(config),
          link_(config.link),
          chance_(config.loss),
          heap_(kFlows + flows.size() * kPerFlow),
          measured_from_(Instant{} + config.warmup),
          end_(Instant{} + config.duration) {
        flows_.reserve(flows.size());
        for (std::uint32_t id = 0; id < flows.size(); ++id) {
            flows_.emplace_back(id, std::move(flows[id]), config);
            heap_.move(source(id, kLife), flows_.back().start);
        }
        if (config.sample_every.ns > 0) heap_.move(kSampler, Instant{} + config.sample_every);
        open_window(measured_from_);
    }

    SimulationResult run(const std::atomic<bool>* cancel) {
        for (std::uint32_t events = 0; heap_.first_at() < end_; ++events) {
            if (events % kEventsPerLook == 0 && cancel && *cancel) throw Cancelled{};
            const Instant now = heap_.first_at();
            if (!measuring_ && now >= measured_from_) begin_measuring();
            act(heap_.first(), now);
        }
        if (!measuring_) begin_measuring();
        return finish();
    }

private:
    static std::uint32_t source(std::uint32_t flow, FlowSource which) { return kFlows + flow * kPerFlow + which; }

    void act(std::uint32_t source_id, Instant now) {
        if (source_id == kLink) return serve(now);
        if (source_id == kSampler) return sample(now);
        const std::uint32_t id = (source_id - kFlows) / kPerFlow;
        Flow& flow = flows_[id];
        switch ((source_id - kFlows) % kPerFlow) {
            case kAcks:
                return take_ack(now, id, flow);
            case kSenderTimer:
                flow.sender.on_timer(now, [&](const Packet& p) { enqueue(p); });
                break;
            case kReceiverTimer: {
                Ack ack;
                flow.receiver.flush(&ack);
                return send_ack(now, id, flow, ack);
            }
            default:
                live(now, id, flow);
        }
        schedule(id, flow);
    }

    void live(Instant now, std::uint32_t id, Flow& flow) {
        if (flow.started) {
            flow.sender.stop();
            heap_.move(source(id, kLife), Instant::never());
            return;
        }
        flow.started = true;
        heap_.move(source(id, kLife), flow.stop);
        flow.sender.start(now, config_.rtt + link_.wait_of_probe(now), [&](const Packet& p) { enqueue(p); });
    }

    void schedule(std::uint32_t id, const Flow& flow) {
        heap_.move(source(id, kSenderTimer), flow.sender.timer_at());
        heap_.move(kLink, link_.next_at());
    }

    void enqueue(const Packet& packet) { link_.enqueue(packet); }

    void take_ack(Instant now, std::uint32_t id, Flow& flow) {
        const Ack ack = flow.acks.front();
        flow.acks.pop();
        heap_.move(source(id, kAcks), flow.acks.empty() ? Instant::never() : flow.acks.front().arrives_at);
        const bool sampled = flow.sender.on_ack(now, ack, [&](const Packet& p) { enqueue(p); });
        if (measuring_ && sampled) flow.rtt_hist.add(flow.sender.last_rtt());
        if (flow.sender.is_complete() && flow.result.complete_s < 0) [[unlikely]]
            flow.result.complete_s = now.s();
        schedule(id, flow);
    }

    void send_ack(Instant now, std::uint32_t id, Flow& flow, Ack ack) {
        ack.arrives_at = now + config_.rtt;
        const bool was_empty = flow.acks.empty();
        flow.acks.push(ack);
        if (was_empty) heap_.move(source(id, kAcks), ack.arrives_at);
        heap_.move(source(id, kReceiverTimer), flow.receiver.timer_at());
    }

    void serve(Instant now) {
        if (measuring_)
            while (now >= window_end_) next_window();
        link_.serve(now, [&](const Packet& packet) { deliver(now, packet); });
        heap_.move(kLink, link_.next_at());
    }

    void deliver(Instant now, const Packet& packet) {
        Flow& flow = flows_[packet.flow];
        ++result_.all_packets;
        ++flow.result.delivered_pkts;
        last_delay_ = now - packet.enqueued_at;
        if (measuring_) {
            ++window_.packets;
            window_.hist[CompactBins::bin_of(ticks_of(last_delay_))]++;
            if (config_.fine_histogram) delays_.add(last_delay_);
            result_.delay_sum_s += last_delay_.s();
        }
        if (chance_.happens(flow.random)) {
            ++result_.lost_at_random;
            return;
        }
        Ack ack;
        if (flow.receiver.take(now, packet, &ack))
            send_ack(now, packet.flow, flow, ack);
        else
            heap_.move(source(packet.flow, kReceiverTimer), flow.receiver.timer_at());
    }

    // --- accounting

    void begin_measuring() {
        measuring_ = true;
        for (Flow& flow : flows_) {
            flow.result.delivered_pkts = 0;
            flow.goodput_base = flow.receiver.in_order();
            flow.sender_base = flow.sender.counters();
        }
    }

    void open_window(Instant at) {
        window_ = WindowResult{};
        window_.start_ms = at.ns / 1'000'000;
        window_start_ = at;
        window_end_ = config_.window.ns > 0 ? std::min(at + config_.window, end_) : end_;
    }

    void close_window(Instant at) {
        window_.capacity_bytes = link_.capacity_bytes(window_start_, at);
        window_.delivered_bytes = window_.packets * kWireBytes;
        result_.capacity_bytes += window_.capacity_bytes;
        result_.packets += window_.packets;
        result_.windows.push_back(window_);
    }

    void next_window() {
        close_window(window_end_);
        open_window(window_end_);
    }

    void sample(Instant now) {
        const double span_s = config_.sample_every.s();
        const double capacity =
            static_cast<double>(link_.capacity_bytes(now - config_.sample_every, now)) * 8e-6 / span_s;
        for (std::uint32_t id = 0; id < flows_.size(); ++id) {
            Flow& flow = flows_[id];
            const std::uint64_t resent = flow.sender.counters().retransmitted;
            const cca_decision& d = flow.sender.algorithm().decision();
            const double rate = static_cast<double>(series_delivered(flow)) * kWireBytes * 8e-6 / span_s;
            result_.series.push_back({now.s(), capacity, rate, flow.sender.last_rtt().s() * 1e3,
                                      static_cast<double>(link_.queued()), last_delay_.s() * 1e3,
                                      static_cast<double>(d.cwnd_pkts),
                                      static_cast<double>(d.pacing_bytes_per_s) * 8e-6,
                                      static_cast<double>(resent - flow.sampled_resent_pkts), id,
                                      flow.sender.algorithm().mode()});
            flow.sampled_resent_pkts = resent;
        }
        heap_.move(kSampler, now + config_.sample_every);
    }

    std::uint64_t series_delivered(Flow& flow) {
        const std::uint64_t since = flow.result.delivered_pkts >= flow.sampled_pkts
                                        ? flow.result.delivered_pkts - flow.sampled_pkts
                                        : flow.result.delivered_pkts;  // measuring began in between
        flow.sampled_pkts = flow.result.delivered_pkts;
        return since;
    }

    SimulationResult finish() {
        while (window_end_ < end_) next_window();
        close_window(end_);
        result_.delivered_bytes = result_.packets * kWireBytes;
        result_.dropped = link_.drops();
        result_.queued = link_.queued();
        if (config_.fine_histogram) result_.delay_hist = delays_.counts();
        for (Flow& flow : flows_) {
            FlowResult& r = flow.result;
            const SenderCounters& c = flow.sender.counters();
            r.goodput_pkts = flow.receiver.in_order() - flow.goodput_base;
            r.sender = c - flow.sender_base;
            r.all_sent_pkts = c.sent;
            r.turns = flow.sender.algorithm().turns();
            r.rtt_hist.assign(flow.rtt_hist.counts().begin(), flow.rtt_hist.counts().end());
            result_.flows.push_back(std::move(r));
        }
        return std::move(result_);
    }

    const SimulationConfig& config_;
    Link link_;
    Chance chance_;
    SourceHeap heap_;
    std::vector<Flow> flows_;
    Instant measured_from_, end_, window_start_, window_end_;
    bool measuring_ = false;
    Duration last_delay_{};
    DelayHistogram delays_;
    WindowResult window_{};
    SimulationResult result_;
};

}  // namespace

SimulationResult run_simulation(const SimulationConfig& config, std::vector<FlowConfig> flows,
                                const std::atomic<bool>* cancel) {
    return Simulation(config, std::move(flows)).run(cancel);
}

}  // namespace ccatune
