// SPDX-License-Identifier: MIT
// Bindings for jobs, which run on threads without the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <optional>
#include <string>

#include "bindings/arrays.hpp"
#include "run/jobs.hpp"
#include "run/pool.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ccatune;

namespace {

// Called with the GIL released.
// Acquires it to check for signals and to report progress.
std::function<void(std::size_t)> watcher(const nb::object& progress) {
    return [&progress](std::size_t done) {
        const nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (!progress.is_none()) progress(done);
    };
}

std::vector<SimulationResult> run(const std::vector<Job>& jobs, unsigned threads, const nb::object& progress) {
    std::vector<SimulationResult> results(jobs.size());
    const auto watch = watcher(progress);
    const nb::gil_scoped_release no_gil;
    const auto piece = [&](std::size_t i, const Cancel& cancel) { results[i] = run_job(jobs[i], cancel); };
    run_pool(jobs.size(), threads, piece, watch);
    return results;
}

// The bins of a histogram of each run, one run after the other.
std::vector<std::uint32_t> bins(const std::vector<Measure>& runs, decltype(&Measure::delay_hist) histogram) {
    std::vector<std::uint32_t> all;
    all.reserve(runs.size() * CompactBins::kBins);
    for (const Measure& run : runs) all.insert(all.end(), (run.*histogram).begin(), (run.*histogram).end());
    return all;
}

Dict measure_all(const std::vector<Job>& cases, const std::vector<Trial>& trials, unsigned threads,
                 const nb::object& progress) {
    const std::size_t n = cases.size(), m = trials.size();
    std::vector<Measure> runs(n * m);
    const auto watch = watcher(progress);
    const auto piece = [&](std::size_t i, const Cancel& cancel) {
        runs[i] = measure(cases[i / m], trials[i % m], cancel);
    };
    {
        const nb::gil_scoped_release no_gil;
        run_pool(runs.size(), threads, piece, watch);
    }
    Dict out;
    const auto add = [&](const char* name, auto member) { out[name] = column(runs, member, {n, m}); };
    // NumPy's booleans have one byte. A std::vector of bool has bits.
    const auto add_flag = [&](const char* name, auto member) {
        add(name, [member](const Measure& run) { return static_cast<std::uint8_t>(run.*member); });
    };
    add("capacity_bytes", &Measure::capacity_bytes);
    add("delivered_bytes", &Measure::delivered_bytes);
    add("goodput_bytes", &Measure::goodput_bytes);
    add("packets", &Measure::packets);
    add("sent_pkts", &Measure::sent_pkts);
    add("retransmitted_pkts", &Measure::retransmitted_pkts);
    add("offered_bytes", &Measure::offered_bytes);
    add("busy_s", &Measure::busy_s);
    add_flag("complete", &Measure::complete);
    add_flag("detecting", &Measure::detecting);
    add_flag("limited", &Measure::limited);
    out["delay_counts"] = owned(bins(runs, &Measure::delay_hist), {n, m, CompactBins::kBins});
    out["srtt_counts"] = owned(bins(runs, &Measure::srtt_hist), {n, m, CompactBins::kBins});
    return out;
}

}  // namespace

void bind_jobs(nb::module_& m);
void bind_jobs(nb::module_& m) {
    nb::class_<ReceiverConfig>(m, "ReceiverConfig", "How a receiver acknowledges, and the window that it offers.")
        .def(
            "__init__",
            [](ReceiverConfig* self, std::uint32_t ack_every, double delay_ms, std::uint32_t quick_acks,
               std::uint32_t burst_pkts, double burst_gap_ms, std::uint32_t window_pkts, bool autotune,
               std::optional<std::uint32_t> buffer_pkts) {
                new (self) ReceiverConfig{.ack_every = ack_every,
                                          .delay = Duration::from_s(delay_ms / 1000),
                                          .quick_acks = quick_acks,
                                          .burst_pkts = burst_pkts,
                                          .burst_gap = Duration::from_s(burst_gap_ms / 1000),
                                          .window_pkts = window_pkts,
                                          .autotune = autotune,
                                          .buffer_pkts = buffer_pkts};
            },
            "ack_every"_a = ReceiverConfig{}.ack_every, "delay_ms"_a = ReceiverConfig{}.delay.s() * 1000,
            "quick_acks"_a = ReceiverConfig{}.quick_acks, "burst_pkts"_a = ReceiverConfig{}.burst_pkts,
            "burst_gap_ms"_a = ReceiverConfig{}.burst_gap.s() * 1000, "window_pkts"_a = ReceiverConfig{}.window_pkts,
            "autotune"_a = false, "buffer_pkts"_a.none() = nb::none());
    nb::class_<FlowJob>(m, "FlowJob", "A flow: its algorithm, parameters and table, and when it runs.")
        .def(
            "__init__",
            [](FlowJob* self, std::string cca, std::vector<std::uint32_t> params, std::shared_ptr<Table> table,
               std::uint8_t delay_class, double start_s, std::optional<double> stop_s,
               std::vector<Transfer> transfers, std::uint32_t client, const ReceiverConfig& receiver,
               std::optional<std::uint32_t> after, std::shared_ptr<Video> video,
               std::optional<std::uint32_t> video_of) {
                new (self) FlowJob{std::move(cca), std::move(params), std::move(table), delay_class, start_s,
                                   stop_s, std::move(transfers), std::move(video), client, receiver, after, video_of};
            },
            "cca"_a, "params"_a, "table"_a.none() = nb::none(), "delay_class"_a = 0, "start_s"_a = 0.0,
            "stop_s"_a.none() = nb::none(), "transfers"_a = std::vector<Transfer>{}, "client"_a = 0u,
            "receiver"_a = ReceiverConfig{}, "after"_a.none() = nb::none(), "video"_a.none() = nb::none(),
            "video_of"_a.none() = nb::none(),
            "transfers: none is data without end, unless there is a video. client: the receiving client, numbered from 0, "
            "whose flows share buckets and R-TCP's knowledge. after: start_s counts from the end of that earlier flow. "
            "video_of: the earlier flow whose video has this further connection.");
    nb::class_<Job>(m, "Job", "One run.")
        .def(
            "__init__",
            [](Job* self, std::vector<FlowJob> flows, LinkConfig link, std::vector<ElementConfig> before,
               std::vector<ElementConfig> behind, AckPathConfig acks, double rtt_ms, double loss, double duration_s,
               double warmup_s, double window_s, double sample_s, std::uint64_t seed, bool audit, double keep_s,
               std::shared_ptr<DelaySteps> delays, std::shared_ptr<Job> servers) {
                new (self) Job{};
                self->flows = std::move(flows);
                self->keep_s = keep_s;
                self->servers = std::move(servers);
                SimulationConfig& c = self->config;
                c.link = std::move(link);
                c.before = std::move(before);
                c.behind = std::move(behind);
                c.acks = std::move(acks);
                c.rtt = Duration::from_s(rtt_ms / 1000);
                c.delays = std::move(delays);
                c.loss = loss;
                c.duration = Duration::from_s(duration_s);
                c.warmup = Duration::from_s(warmup_s);
                c.window = Duration::from_s(window_s);
                c.sample_every = Duration::from_s(sample_s);
                c.seed = seed;
                c.audit = audit;
            },
            "flows"_a, "link"_a, "before"_a, "behind"_a, "acks"_a, "rtt_ms"_a, "loss"_a, "duration_s"_a,
            "warmup_s"_a, "window_s"_a, "sample_s"_a, "seed"_a, "audit"_a = false,
            "keep_s"_a = 0.0, "delays"_a.none() = nb::none(), "servers"_a.none() = nb::none(),
            "audit: check the accounts at every event; a RuntimeError reports the first fault. keep_s: time for which "
            "R-TCP's knowledge of a client is kept after its last connection. delays: of the ACKs, in place of rtt_ms. "
            "servers: a proxy splits the connections; these are the ones from the servers to it.");
    m.def("run", &run, "jobs"_a, "threads"_a, "progress"_a.none() = nb::none(),
          "Run jobs on threads, without the GIL; progress(done) is called about ten times a second.");
    nb::class_<Trial>(m, "Trial", "The algorithm of all flows of a case.")
        .def(
            "__init__",
            [](Trial* self, std::string cca, std::vector<std::uint32_t> params, std::shared_ptr<Table> table) {
                new (self) Trial{std::move(cca), std::move(params), std::move(table)};
            },
            "cca"_a, "params"_a, "table"_a.none() = nb::none());
    m.def("measure", &measure_all, "cases"_a, "trials"_a, "threads"_a, "progress"_a.none() = nb::none(),
          "Run each case with each trial, without the GIL: arrays [cases, trials, ...].");
}
