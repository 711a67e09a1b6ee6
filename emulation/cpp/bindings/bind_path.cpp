// SPDX-License-Identifier: MIT
// Bindings for the parts of a path: links, elements and transfers, as plain configurations.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "path/ack_path.hpp"
#include "path/path.hpp"
#include "simulation/application.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ccatune;

namespace {

Duration from_ms(double ms) { return Duration::from_s(ms / 1000); }

std::shared_ptr<RateSteps> make_steps(const std::vector<std::pair<double, double>>& steps) {
    std::vector<RateStep> out;
    for (const auto& [at_s, bytes_per_s] : steps) out.push_back({Instant{} + Duration::from_s(at_s), bytes_per_s});
    return std::make_shared<RateSteps>(std::move(out));
}

// steps: pairs (at_s, ms of one direction).
std::shared_ptr<DelaySteps> make_delays(const std::vector<std::pair<double, double>>& steps, double period_s) {
    std::vector<DelayStep> out;
    for (const auto& [at_s, delay_ms] : steps) out.push_back({Instant{} + Duration::from_s(at_s), from_ms(delay_ms)});
    return std::make_shared<DelaySteps>(std::move(out), Duration::from_s(period_s));
}

std::uint64_t whole(double bytes_per_s) { return static_cast<std::uint64_t>(std::llround(bytes_per_s)); }

// changes: pairs (at_s, bytes_per_s).
PolicerConfig make_policer(double rate_bytes_per_s, std::uint64_t bucket_bytes, bool per_flow,
                           const std::vector<std::pair<double, double>>& changes) {
    PolicerConfig config{whole(rate_bytes_per_s), bucket_bytes, per_flow, {}};
    for (const auto& [at_s, to_bytes_per_s] : changes)
        config.changes.push_back({Instant{} + Duration::from_s(at_s), whole(to_bytes_per_s)});
    return config;
}

void bind_links(nb::module_& m) {
    nb::class_<RateSteps>(m, "RateSteps", "A rate that changes at times: (at_s, bytes_per_s), the first at 0.")
        .def(nb::new_(&make_steps), "steps"_a);
    nb::class_<LinkConfig>(m, "LinkConfig", "A link and its queue: one of trace, steps and a rate.")
        .def(
            "__init__",
            [](LinkConfig* self, std::shared_ptr<Opportunities> trace, std::shared_ptr<RateSteps> steps,
               double rate_bytes_per_s, std::int64_t start_ms, std::uint32_t opportunity_bytes,
               std::optional<std::uint64_t> buffer_pkts, std::optional<std::uint64_t> buffer_bytes,
               std::optional<std::pair<double, double>> codel_ms) {
                std::optional<CodelConfig> codel;
                if (codel_ms) codel = CodelConfig{from_ms(codel_ms->first), from_ms(codel_ms->second)};
                new (self) LinkConfig{std::move(trace), std::move(steps), rate_bytes_per_s, start_ms,
                                      opportunity_bytes, buffer_pkts.value_or(UINT64_MAX),
                                      buffer_bytes.value_or(UINT64_MAX), codel};
            },
            "trace"_a.none(), "steps"_a.none(), "rate_bytes_per_s"_a, "start_ms"_a, "opportunity_bytes"_a,
            "buffer_pkts"_a.none() = nb::none(), "buffer_bytes"_a.none() = nb::none(),
            "codel_ms"_a.none() = nb::none(), "codel_ms: target and interval; None: drop-tail alone.");
}

}  // namespace

void bind_path(nb::module_& m);
void bind_path(nb::module_& m) {
    bind_links(m);
    nb::class_<PolicerConfig>(m, "Policer", "A token bucket that drops what does not conform.")
        .def(nb::new_(&make_policer), "rate_bytes_per_s"_a, "bucket_bytes"_a, "per_flow"_a,
             "changes"_a = std::vector<std::pair<double, double>>{}, "changes: (at_s, bytes_per_s), ascending.");
    nb::class_<ShaperConfig>(m, "Shaper", "A token bucket that queues what does not conform.")
        .def(nb::new_([](double rate_bytes_per_s, std::uint64_t bucket_bytes, bool per_flow, std::uint64_t queue_bytes) {
                 return ShaperConfig{make_policer(rate_bytes_per_s, bucket_bytes, per_flow, {}), queue_bytes};
             }),
             "rate_bytes_per_s"_a, "bucket_bytes"_a, "per_flow"_a, "queue_bytes"_a);
    nb::class_<RandomLossConfig>(m, "RandomLoss", "Loses a share of the packets, each by itself.")
        .def(nb::new_([](double share) { return RandomLossConfig{share}; }), "share"_a);
    nb::class_<GilbertElliottConfig>(m, "GilbertElliott", "Loses packets by the state of a channel.")
        .def(nb::new_([](double to_bad, double to_good, double loss_good, double loss_bad) {
                 return GilbertElliottConfig{to_bad, to_good, loss_good, loss_bad};
             }),
             "to_bad"_a, "to_good"_a, "loss_good"_a, "loss_bad"_a);
    nb::class_<DelayerConfig>(m, "Delayer", "Holds a share of the packets for least to most ms, in order or not.")
        .def(nb::new_([](double share, double least_ms, double most_ms, bool in_order) {
                 return DelayerConfig{share, from_ms(least_ms), from_ms(most_ms), in_order};
             }),
             "share"_a, "least_ms"_a, "most_ms"_a, "in_order"_a);
    nb::class_<ClockConfig>(m, "Clock", "Holds packets until a clock ticks, least to most ms after its last tick.")
        .def(nb::new_([](double least_ms, double most_ms) { return ClockConfig{from_ms(least_ms), from_ms(most_ms)}; }),
             "least_ms"_a, "most_ms"_a);
    nb::class_<DelaySteps>(m, "DelaySteps", "A delay of one direction by time: (at_s, ms), the first at 0.")
        .def(nb::new_(&make_delays), "steps"_a, "period_s"_a = 0.0, "period_s: after which they repeat; 0: never.");
    nb::class_<BaseDelayConfig>(m, "BaseDelay", "Delays packets by the delay in force when they enter, in order.")
        .def(nb::new_([](std::shared_ptr<DelaySteps> steps) { return BaseDelayConfig{std::move(steps)}; }), "steps"_a);
    nb::class_<AckPathConfig>(m, "AckPath", "The way of ACKs: held for bursts, then over an uplink.")
        .def(nb::new_([](double interval_ms, std::optional<LinkConfig> uplink) {
                 return AckPathConfig{from_ms(interval_ms), std::move(uplink)};
             }),
             "interval_ms"_a = 0.0, "uplink"_a.none() = nb::none());
    nb::class_<Transfer>(m, "Transfer", "A number of transfers of one size, each followed by an idle gap.")
        .def(nb::new_([](std::uint32_t size_pkts, double gap_s, std::uint32_t count) {
                 return Transfer{size_pkts, Duration::from_s(gap_s), count};
             }),
             "size_pkts"_a, "gap_s"_a = 0.0, "count"_a = 1u);
}
