// SPDX-License-Identifier: MIT
#include "simulation/simulation.hpp"

#include <algorithm>
#include <functional>

#include "common/delay_steps.hpp"
#include "common/fetch.hpp"
#include "common/packet.hpp"
#include "common/random.hpp"
#include "simulation/accounts.hpp"
#include "simulation/audit.hpp"
#include "simulation/flow.hpp"
#include "simulation/heap.hpp"
#include "simulation/returning_acks.hpp"

namespace ccatune {
namespace {

// Events between two checks for cancellation, which is some milliseconds.
constexpr std::uint32_t kEventsPerLook = 1u << 16;

// From this number on, flows do not fit into a first-level cache.
// The data of the next events is then prefetched (fetch.hpp).
constexpr std::size_t kManyFlows = 8;
constexpr std::size_t kDeliveryBytes = sizeof(Receiver) + sizeof(FlowResult::delivered_pkts);  // adjacent in Flow

// Sources of events.
// Between equal times the lower number comes first.
// The numbers are in this order: link, sampler, four per flow, elements of the path, ACK path.
// The link and the returning ACKs, where most events come from, know their next time themselves.
// The other sources are in a heap.
enum Source : std::uint32_t { kLink = 0, kSampler = 1, kFlows = 2 };
enum FlowSource : std::uint32_t { kAcks = 0, kSenderTimer, kReceiverTimer, kLife, kPerFlow };

PathContext context_of(const SimulationConfig& config, const std::vector<FlowConfig>& flows, std::size_t elements_before) {
    PathContext context;
    context.seed = config.seed;
    context.first_stream = (elements_before + 1) << 32;
    for (const FlowConfig& flow : flows) context.client_of.push_back(flow.client);
    return context;
}

// kElements: whether the path has more than the bottleneck.
// kSplit: whether the flows are one side of split connections.
// Runs without either do not pay for it.
template <bool kElements, bool kSplit = false>
class Simulation {
public:
    Simulation(const SimulationConfig& config, std::vector<FlowConfig> flows)
        : config_(config),
          link_(config.link),
          chance_(config.loss),
          before_(config.before, context_of(config, flows, 0),
                  [this](Instant now, const Packet& packet) { link_.enqueue(now, packet); }),
          behind_(config.behind, context_of(config, flows, config.before.size()),
                  [this](Instant now, const Packet& packet) { receive(now, packet); }),
          first_element_(kFlows + static_cast<std::uint32_t>(flows.size()) * kPerFlow),
          heap_(first_element_ + (kElements ? before_.size() + behind_.size() + 1 : 0)),
          accounts_(Accounts::Parts{config, link_, before_, behind_, ack_path_, flows_}),
          end_(Instant{} + config.duration) {
        if (!config.acks.is_plain()) ack_path_.emplace(config.acks);
        if (config.audit) audit_.emplace(flows.size());
        flows_.reserve(flows.size());
        for (std::uint32_t id = 0; id < flows.size(); ++id) {
            flows_.emplace_back(id, std::move(flows[id]), config);
            if (!flows_.back().after && !flows_.back().video_of) heap_.move(source(id, kLife), flows_.back().start);
        }
        if (config.sample_every.ns > 0) heap_.move(kSampler, Instant{} + config.sample_every);
    }

    SimulationResult run(const std::atomic<bool>* cancel) {
        for (std::uint32_t events = 0;; ++events) {
            if (events % kEventsPerLook == 0 && cancel && *cancel) throw Cancelled{};
            if (!step()) break;
        }
        return finish();
    }

    Instant next_at() const { return std::min(std::min(link_.next_at(), acks_.first_at()), heap_.first_at()); }

    // Processes the next event.
    // Returns false if there is none before the end.
    bool step() {
        const Instant link_at = link_.next_at(), acks_at = acks_.first_at(), others_at = heap_.first_at();
        const Instant now = std::min(std::min(link_at, acks_at), others_at);
        if (now >= end_) return false;
        accounts_.reach(now);
        if (audit_) [[unlikely]]
            audit_->begin_event(now);
        if (now == link_at)
            serve(now);
        else if (now == acks_at && (now != others_at || source(acks_.front().flow, kAcks) < heap_.first()))
            take_ack(now);
        else
            act(heap_.first(), now);
        if constexpr (kElements) reschedule_elements();
        if (audit_) [[unlikely]]
            check_accounts();
        return true;
    }

    SimulationResult finish() {
        if (audit_) check_end();
        return accounts_.finish();
    }

    // --- split connections

    using Moved = std::function<void(Instant, std::uint32_t flow, std::uint32_t pkts)>;

    // arrived: data is in order at the receiver. acknowledged: it is at the sender. pkts: the sum so far.
    void tell(Moved arrived, Moved acknowledged) {
        arrived_ = std::move(arrived);
        acknowledged_ = std::move(acknowledged);
    }

    // The sender of the proxy has so many segments in total.
    void supply(Instant now, std::uint32_t id, std::uint32_t pkts) {
        accounts_.reach(now);
        Flow& flow = flows_[id];
        flow.sender.supply(now, pkts, [&](const Packet& p) { enqueue(now, p); });
        schedule(id, flow);
        if constexpr (kElements) reschedule_elements();
    }

    // The proxy's receiver needs the segments below pkts no more.
    void read(Instant now, std::uint32_t id, std::uint32_t pkts) {
        Ack ack;
        accounts_.reach(now);
        if (flows_[id].receiver.read(pkts, &ack)) send_ack(now, id, ack);
        if constexpr (kElements) reschedule_elements();
    }

    // The server has no more data, and all of it has come to the client.
    void end_flow(Instant now, std::uint32_t id) { end(now, id, flows_[id]); }

    std::uint64_t buffered_pkts() const {
        std::uint64_t sum = 0;
        for (const Flow& flow : flows_) sum += flow.receiver.buffered_pkts();
        return sum;
    }

    std::uint32_t size_pkts(std::uint32_t id) const { return flows_[id].sender.size_pkts(); }

private:
    static std::uint32_t source(std::uint32_t flow, FlowSource which) { return kFlows + flow * kPerFlow + which; }
    static std::uint32_t flow_of(std::uint32_t source) { return (source - kFlows) / kPerFlow; }

    void act(std::uint32_t source_id, Instant now) {
        if (source_id == kSampler) {
            accounts_.sample(now);
            return heap_.move(kSampler, now + config_.sample_every);
        }
        if constexpr (kElements)
            if (source_id >= first_element_) return act_element(source_id - first_element_, now);
        const std::uint32_t id = flow_of(source_id);
        Flow& flow = flows_[id];
        switch ((source_id - kFlows) % kPerFlow) {
            case kSenderTimer:
                flow.sender.on_timer(now, [&](const Packet& p) { enqueue(now, p); });
                break;
            case kReceiverTimer:
                return end_delay(now, id, flow);
            default:
                live(now, id, flow);
        }
        schedule(id, flow);
        if (flows_.size() >= kManyFlows) fetch_for_timers();
    }

    // Starts the flow or its next transfer, or stops the flow.
    [[gnu::noinline, gnu::cold]] void live(Instant now, std::uint32_t id, Flow& flow) {
        const auto send = [&](const Packet& p) { enqueue(now, p); };
        heap_.move(source(id, kLife), flow.started && now >= flow.stop ? Instant::never() : flow.stop);
        if (!flow.started) {
            flow.started = true;
            flow.application.starts(now);
            const Duration handshake_rtt = wait_of_probe(now);
            flow.receiver.start(handshake_rtt);
            flow.sender.start(now, handshake_rtt, send);
            if (flow.video_of) flow.sender.supply(now, flow.application.begin(now), send);
        } else if (now >= flow.stop) {
            flow.sender.stop();
        } else {
            flow.sender.supply(now, flow.application.begin(now), send);
        }
    }

    // All data that the sender had is acknowledged.
    [[gnu::noinline, gnu::cold]] void finish_transfer(Instant now, std::uint32_t id, Flow& flow) {
        if (!flow.application.is_busy()) return;
        const Instant next = flow.application.complete(now);
        const std::vector<std::uint32_t> connections = connections_of(id);
        if (flow.application.is_over())
            for (const std::uint32_t each : connections) end(now, each, flows_[each]);
        if (now >= flow.stop || next >= flow.stop) return;
        const Player* player = flow.application.player();
        const std::uint32_t turn = player ? connections[player->chunks().size() % connections.size()] : id;
        if (next > now || turn != id)
            heap_.move(source(turn, kLife), next);
        else
            flow.sender.supply(now, flow.application.begin(now), [&](const Packet& p) { enqueue(now, p); });
    }

    // The connections that take turns at the chunks of the flow's video; without a video the flow alone.
    std::vector<std::uint32_t> connections_of(std::uint32_t id) const {
        std::vector<std::uint32_t> connections{flows_[id].video_of.value_or(id)};
        if (flows_[id].application.player())
            for (std::uint32_t later = connections[0] + 1; later < flows_.size(); ++later)
                if (flows_[later].video_of == connections[0]) connections.push_back(later);
        return connections;
    }

    // A connection ends, and those that wait for its end begin.
    void end(Instant now, std::uint32_t id, Flow& flow) {
        if (!flow.started) return;
        flow.result.complete_s = now.s();
        flow.sender.end();
        for (std::uint32_t later = id + 1; later < flows_.size(); ++later)
            if (flows_[later].after == id) heap_.move(source(later, kLife), now + (flows_[later].start - Instant{}));
    }

    // The round trip of a handshake.
    Duration wait_of_probe(Instant now) const {
        Duration wait = config_.delays ? config_.delays->at(now) : config_.rtt;
        wait = wait + link_.wait_of_probe(now) + before_.wait_of_probe(now) + behind_.wait_of_probe(now);
        return ack_path_ ? wait + ack_path_->wait_of_probe(now) : wait;
    }

    // --- elements of the path

    Element& element(std::size_t i) { return i < before_.size() ? before_[i] : behind_[i - before_.size()]; }

    void act_element(std::size_t i, Instant now) {
        if (i < before_.size() + behind_.size()) return element(i).act(now);
        ack_path_->act(now, [&](std::uint32_t id, const Ack& ack) { propagate(now, id, ack); });
    }

    void reschedule_elements() {
        const std::size_t n = before_.size() + behind_.size();
        for (std::size_t i = 0; i < n; ++i)
            heap_.move(first_element_ + static_cast<std::uint32_t>(i), element(i).next_at());
        if (ack_path_) heap_.move(first_element_ + static_cast<std::uint32_t>(n), ack_path_->next_at());
    }

    // --- packets and ACKs

    void schedule(std::uint32_t id, const Flow& flow) {
        heap_.move(source(id, kSenderTimer), flow.sender.timer_at());
        if (audit_) [[unlikely]]
            audit_->check_flow(id, flow);
    }

    // A delay that ends later than its entry in the heap needs no update: the early call finds the new time.
    void schedule_receiver(std::uint32_t id, const Flow& flow) {
        const Instant at = flow.receiver.timer_at();
        if (at < heap_.at(source(id, kReceiverTimer))) heap_.move(source(id, kReceiverTimer), at);
    }

    void enqueue(Instant now, const Packet& packet) {
        if (!kElements || before_.empty())
            link_.enqueue(now, packet);
        else
            before_.take(now, packet);
    }

    void take_ack(Instant now) {
        const auto [ack, id] = acks_.front();
        Flow& flow = flows_[id];
        acks_.pop();
        if (flows_.size() >= kManyFlows) fetch_for_acks();
        if (audit_) [[unlikely]]
            audit_->take_ack(id, flow, ack);
        const std::uint32_t acked_pkts = flow.sender.acked_pkts();
        const bool sampled = flow.sender.on_ack(now, ack, [&](const Packet& p) { enqueue(now, p); });
        if (sampled) accounts_.add_rtt(flow);
        if constexpr (kSplit)
            if (acknowledged_ && flow.sender.acked_pkts() != acked_pkts) acknowledged_(now, id, flow.sender.acked_pkts());
        if (flow.sender.is_complete()) [[unlikely]]
            finish_transfer(now, id, flow);
        schedule(id, flow);
    }

    // Prefetches for the next ACKs while this one is processed: first the sender, then the data that it points to.
    void fetch_for_acks() const {
        std::uint32_t id;
        if (acks_.ahead(2, &id)) fetch(&flows_[id].sender, sizeof(Sender));
        if (acks_.ahead(1, &id)) {
            fetch_segments(flows_[id].sender);
            fetch(&flows_[id].sender.algorithm(), kLineBytes);
        }
        if (!acks_.ahead(0, &id)) return;
        flows_[id].sender.algorithm().fetch_ahead();
        flows_[id].rtt_hist->fetch_ahead(flows_[id].sender.last_rtt());
    }

    // Prefetches for the next timers: the second one's sender, and the data that the first one's sender points to.
    void fetch_for_timers() const {
        const std::uint32_t second = heap_.second(), first = heap_.first();
        if (second >= kFlows && second < first_element_) fetch(&flows_[flow_of(second)].sender, sizeof(Sender));
        if (first < kFlows || first >= first_element_) return;
        const Sender& sender = flows_[flow_of(first)].sender;
        fetch_segments(sender);
        fetch(&sender.algorithm(), kLineBytes);
    }

    static void fetch_segments(const Sender& sender) {
        const Scoreboard& board = sender.scoreboard();
        __builtin_prefetch(&board[board.una()]);
        __builtin_prefetch(&board[board.next()], 1);
    }

    // The receiver's timer fired: an ACK is due, or the call is early.
    void end_delay(Instant now, std::uint32_t id, Flow& flow) {
        if (flow.receiver.timer_at() <= now) {
            Ack ack;
            flow.receiver.flush(&ack);
            send_ack(now, id, ack);
        }
        heap_.move(source(id, kReceiverTimer), flow.receiver.timer_at());
    }

    void send_ack(Instant now, std::uint32_t id, const Ack& ack) {
        if (audit_) [[unlikely]]
            audit_->answer(id, ack);
        if (kElements && ack_path_)
            ack_path_->take(now, id, ack);
        else
            propagate(now, id, ack);
    }

    void propagate(Instant now, std::uint32_t id, Ack ack) {
        if (kElements && config_.delays)
            ack.arrives_at = order_.leaves_at(now, config_.delays->at(now));
        else
            ack.arrives_at = now + config_.rtt;
        acks_.push(id, ack);
    }

    void serve(Instant now) {
        if (flows_.size() >= kManyFlows && link_.queued() > 1)
            fetch(&flows_[link_.waiting(1).flow].receiver, kDeliveryBytes);
        accounts_.turn_windows(now);
        link_.serve(now, [&](const Packet& packet) { deliver(now, packet); });
    }

    void deliver(Instant now, const Packet& packet) {
        Flow& flow = flows_[packet.flow];
        accounts_.deliver(now, packet, flow);
        if (chance_.happens(flow.random)) {
            accounts_.lose_at_random();
            return;
        }
        if (!kElements || behind_.empty())
            receive(now, packet);
        else
            behind_.take(now, packet);
    }

    void receive(Instant now, const Packet& packet) {
        Flow& flow = flows_[packet.flow];
        if (audit_) [[unlikely]]
            audit_->receive(packet, flow);
        Ack ack;
        const std::uint32_t in_order = flow.receiver.in_order();
        if (flow.receiver.take(now, packet, &ack))
            send_ack(now, packet.flow, ack);
        else
            schedule_receiver(packet.flow, flow);
        if constexpr (kSplit)
            if (arrived_ && flow.receiver.in_order() != in_order) arrived_(now, packet.flow, flow.receiver.in_order());
    }

    [[gnu::noinline, gnu::cold]] void check_accounts() {
        std::uint64_t sent = 0;
        for (const Flow& flow : flows_) sent += flow.sender.counters().sent;
        audit_->check_path(sent, accounts_.rows());
        audit_->check_acks(ack_path_ ? ack_path_->held() : 0, acks_.size());
    }

    // Call at the end.
    // Checks the flows if nothing was left to happen.
    void check_end() {
        if (heap_.first_at() != Instant::never() || !acks_.empty() || link_.queued() != 0) return;
        for (std::uint32_t id = 0; id < flows_.size(); ++id) audit_->check_end(id, flows_[id]);
    }

    const SimulationConfig& config_;
    Link link_;
    Chance chance_;
    Path before_, behind_;
    std::optional<AckPath> ack_path_;
    Order order_;  // of ACKs, where their delay changes over time
    std::uint32_t first_element_;
    SourceHeap heap_;
    ReturningAcks acks_;
    std::vector<Flow> flows_;
    std::optional<Audit> audit_;
    Accounts accounts_;
    Instant end_;
    Moved arrived_, acknowledged_;
};

}  // namespace

SimulationResult run_simulation(const SimulationConfig& config, std::vector<FlowConfig> flows,
                                const std::atomic<bool>* cancel) {
    if (config.before.empty() && config.behind.empty() && config.acks.is_plain() && !config.delays)
        return Simulation<false>(config, std::move(flows)).run(cancel);
    return Simulation<true>(config, std::move(flows)).run(cancel);
}

SimulationResult run_split(const SimulationConfig& servers, std::vector<FlowConfig> server_flows,
                           const SimulationConfig& clients, std::vector<FlowConfig> client_flows,
                           const std::atomic<bool>* cancel) {
    using Side = Simulation<true, true>;
    Side server_side(servers, std::move(server_flows)), client_side(clients, std::move(client_flows));
    server_side.tell([&](Instant now, std::uint32_t id, std::uint32_t pkts) { client_side.supply(now, id, pkts); }, {});
    client_side.tell({}, [&](Instant now, std::uint32_t id, std::uint32_t pkts) {
        server_side.read(now, id, pkts);
        if (pkts == server_side.size_pkts(id)) client_side.end_flow(now, id);
    });
    ProxySeries proxy;
    const Instant end = Instant{} + clients.duration;
    const Duration every = clients.sample_every;
    Instant sample_at = every.ns > 0 ? Instant{} + every : end;
    for (std::uint32_t events = 0;; ++events) {
        if (events % kEventsPerLook == 0 && cancel && *cancel) throw Cancelled{};
        const Instant server_at = server_side.next_at(), client_at = client_side.next_at();
        for (; sample_at < end && sample_at <= std::min(server_at, client_at); sample_at = sample_at + every) {
            proxy.time_s.push_back(sample_at.s());
            proxy.buffered_pkts.push_back(server_side.buffered_pkts());
        }
        if (!(client_at <= server_at ? client_side : server_side).step()) break;
    }
    SimulationResult result = client_side.finish();
    result.servers = std::make_shared<SimulationResult>(server_side.finish());
    result.proxy = std::move(proxy);
    return result;
}

}  // namespace ccatune
