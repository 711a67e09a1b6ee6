// SPDX-License-Identifier: MIT
// Bindings for a sender and a receiver by themselves.
// Tests can put any path between them: which transmission is lost, late or duplicated, and when an ACK arrives.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "receiver/receiver.hpp"
#include "run/jobs.hpp"
#include "sender/sender.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ccatune;

namespace {

using Report = std::tuple<std::uint64_t, std::string, std::vector<std::uint32_t>>;

// Passes everything on to `inner` and records ACKs and events: (us, kind, figures).
class Recorder final : public Algorithm {
public:
    Recorder(std::unique_ptr<Algorithm> inner, std::vector<Report>* reports) : inner_(std::move(inner)), reports_(reports) {}

    void start(const cca_start& start) override {
        inner_->start(start);
        obey();
    }
    void on_loss(const cca_loss& loss) override { inner_->on_loss(loss); }
    void on_ack(const cca_ack& ack) override {
        reports_->push_back({ack.now_us, "ack",
                          {ack.acked_pkts, ack.lost_pkts, ack.inflight_pkts, ack.rtt_us, ack.rate_pkts,
                           ack.rate_interval_us, ack.app_limited, ack.cwnd_limited, ack.delivered_pkts}});
        inner_->host = host;
        inner_->on_ack(ack);
        obey();
    }
    void on_event(const cca_event& event) override {
        static const char* const names[] = {"recovery_entered", "recovery_left",    "timeout", "undo",
                                            "transfer_started", "idle_restart"};
        reports_->push_back({event.now_us, names[event.kind], {event.inflight_pkts, event.cwnd_pkts}});
        inner_->host = host;
        inner_->on_event(event);
        obey();
    }
    void on_idle(std::uint32_t timeouts) override {
        inner_->on_idle(timeouts);
        obey();
    }
    void on_unused(std::uint32_t used_pkts) override {
        inner_->on_unused(used_pkts);
        obey();
    }
    bool looks_with_acks() const override { return inner_->looks_with_acks(); }

private:
    void obey() {
        decision_ = inner_->decision();
        in_slow_start_ = inner_->is_in_slow_start();
        least_burst_pkts_ = inner_->least_burst_pkts();
    }

    std::unique_ptr<Algorithm> inner_;
    std::vector<Report>* reports_;
};

class LoneSender {
public:
    LoneSender(const FlowJob& flow, std::uint32_t size_pkts, std::uint32_t window_pkts) : size_pkts_(size_pkts) {
        sender_ = std::make_unique<Sender>(0, std::make_unique<Recorder>(make_algorithm(flow, 0), &reports_), size_pkts);
        sender_->offer_window(window_pkts);
    }

    std::vector<Packet> start(std::int64_t now_ns, std::int64_t rtt_ns) {
        return collect([&](auto send) { sender_->start(Instant{now_ns}, Duration{rtt_ns}, send); });
    }
    std::vector<Packet> more(std::int64_t now_ns, std::uint32_t pkts) {
        size_pkts_ += pkts;
        return collect([&](auto send) { sender_->supply(Instant{now_ns}, size_pkts_, send); });
    }
    std::vector<Packet> on_ack(std::int64_t now_ns, const Ack& ack) {
        return collect([&](auto send) { sender_->on_ack(Instant{now_ns}, ack, send); });
    }
    std::vector<Packet> on_timer(std::int64_t now_ns) {
        return collect([&](auto send) { sender_->on_timer(Instant{now_ns}, send); });
    }

    const Sender& sender() const { return *sender_; }
    const std::vector<Report>& reports() const { return reports_; }

private:
    template <class Act>
    std::vector<Packet> collect(Act&& act) {
        std::vector<Packet> sent;
        act([&](const Packet& packet) { sent.push_back(packet); });
        return sent;
    }

    std::uint32_t size_pkts_;
    std::vector<Report> reports_;
    std::unique_ptr<Sender> sender_;
};

void bind_packets(nb::module_& m) {
    nb::class_<Packet>(m, "Packet", "One transmission of a segment.")
        .def_ro("seq", &Packet::seq)
        .def_ro("tx", &Packet::tx)
        .def_ro("sent_us", &Packet::sent_us);
    nb::class_<Ack>(m, "Ack", "An ACK of a receiver.")
        .def_ro("cumulative", &Ack::cumulative)
        .def_ro("window_pkts", &Ack::window_pkts)
        .def_ro("echo_tx", &Ack::echo_tx)
        .def_prop_ro("duplicate", [](const Ack& a) { return a.duplicate == kNoNumber ? -1 : std::int64_t{a.duplicate}; })
        .def_prop_ro("blocks", [](const Ack& a) {
            std::vector<std::pair<std::uint32_t, std::uint32_t>> blocks;
            for (std::uint32_t i = 0; i < a.block_count; ++i) blocks.push_back({a.blocks[i].first, a.blocks[i].last});
            return blocks;
        });
}

}  // namespace

void bind_sender(nb::module_& m);
void bind_sender(nb::module_& m) {
    bind_packets(m);
    nb::class_<LoneSender>(m, "LoneSender", "A sender by itself; it records what its algorithm is notified of.")
        .def(nb::init<const FlowJob&, std::uint32_t, std::uint32_t>(), "flow"_a, "size_pkts"_a = kNoNumber,
             "window_pkts"_a = kNoNumber)
        .def("start", &LoneSender::start, "now_ns"_a, "rtt_ns"_a)
        .def("more", &LoneSender::more, "now_ns"_a, "pkts"_a)
        .def("on_ack", &LoneSender::on_ack, "now_ns"_a, "ack"_a)
        .def("on_timer", &LoneSender::on_timer, "now_ns"_a)
        .def_prop_ro("timer_at_ns", [](const LoneSender& s) { return s.sender().timer_at().ns; })
        .def_prop_ro("cwnd_pkts", [](const LoneSender& s) { return s.sender().algorithm().decision().cwnd_pkts; })
        .def_prop_ro("in_flight", [](const LoneSender& s) { return s.sender().in_flight(); })
        .def_prop_ro("acked_pkts", [](const LoneSender& s) { return s.sender().acked_pkts(); })
        .def_prop_ro("next", [](const LoneSender& s) { return s.sender().scoreboard().next(); })
        .def_prop_ro("is_complete", [](const LoneSender& s) { return s.sender().is_complete(); })
        .def_prop_ro("is_consistent", [](const LoneSender& s) { return s.sender().scoreboard().is_consistent(); })
        .def_prop_ro("reports", &LoneSender::reports)
        .def_prop_ro("counters", [](const LoneSender& s) {
            const SenderCounters& c = s.sender().counters();
            nb::typed<nb::dict, nb::str, std::uint64_t> out;
            out["sent"] = c.sent;
            out["retransmitted"] = c.retransmitted;
            out["timeouts"] = c.timeouts;
            out["undone"] = c.undone;
            out["probes"] = c.probes;
            return out;
        });
    nb::class_<Receiver>(m, "LoneReceiver", "A receiver by itself.")
        .def(nb::init<const ReceiverConfig&>(), "config"_a = ReceiverConfig{})
        .def("take",
             [](Receiver& self, std::int64_t now_ns, const Packet& packet) {
                 Ack ack{};
                 const bool answers = self.take(Instant{now_ns}, packet, &ack);
                 return answers ? nb::cast(ack) : nb::object(nb::none());
             }, "now_ns"_a, "packet"_a)
        .def("flush",
             [](Receiver& self) {
                 Ack ack{};
                 self.flush(&ack);
                 return ack;
             })
        .def_prop_ro("timer_at_ns", [](const Receiver& r) { return r.timer_at().ns; })
        .def_prop_ro("in_order", &Receiver::in_order);
}
