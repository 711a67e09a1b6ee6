// SPDX-License-Identifier: MIT
// The Python module emulation._engine: copies jobs in and results out. What a
// job means stands in simulation.hpp; emulation/simulator.py is the interface
// for people.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <optional>
#include <string>

#include "gr_algorithm.hpp"
#include "pool.hpp"
#include "reno_algorithm.hpp"
#include "simulation.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ccatune;

void bind_bench(nb::module_& m);

namespace {

template <class T, class... Shape>
using Array = nb::ndarray<nb::numpy, T, Shape...>;
using U32Array = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using U32Matrix = nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// An array that owns its numbers.
template <class T>
nb::ndarray<nb::numpy, T> owned(std::vector<T> values, std::vector<std::size_t> shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner);
}

template <class T>
nb::ndarray<nb::numpy, T> owned(std::vector<T> values) {
    const std::size_t n = values.size();
    return owned(std::move(values), {n});
}

std::uint32_t id_of(const std::string& cca) {
    for (const auto& algorithm : cca_algorithms)
        if (cca == algorithm.name) return algorithm.id;
    throw std::invalid_argument("cca: expected an algorithm of the core, got " + cca);
}

struct FlowJob {
    std::string cca;
    std::vector<std::uint32_t> params;  // in the order of params.def
    std::shared_ptr<Table> table;
    std::uint8_t delay_class = 0;
    double start_s = 0;
    std::optional<double> stop_s;
    std::uint32_t size_pkts = UINT32_MAX;
};

struct Job {
    SimulationConfig config;
    std::vector<FlowJob> flows;
};

gr_params gr_params_of(const std::vector<std::uint32_t>& values) {
    gr_params params;
    if (values.size() * sizeof(std::uint32_t) != sizeof(params))
        throw std::invalid_argument("gr: expected a value for each of its parameters");
    for (std::uint32_t i = 0; i < values.size(); ++i) cca_param_set(&params, i, values[i]);
    return params;
}

std::unique_ptr<Algorithm> make_algorithm(const FlowJob& flow, std::uint32_t hash) {
    if (flow.cca == "fixed") {
        if (flow.params.size() != 2) throw std::invalid_argument("fixed: expected cwnd_pkts and pacing_bytes_per_s");
        return std::make_unique<FixedWindow>(flow.params[0], flow.params[1]);
    }
    if (flow.cca == "gr")
        return std::make_unique<GrAlgorithm>(gr_params_of(flow.params), flow.table, flow.delay_class, hash);
    if (flow.cca == "reno") return std::make_unique<RenoAlgorithm>();
    throw std::invalid_argument("cca: expected gr, reno or fixed, got " + flow.cca);
}

SimulationResult run_job(const Job& job, const Cancel& cancel) {
    std::vector<FlowConfig> flows;
    auto hash = static_cast<std::uint32_t>(job.config.seed);
    for (const FlowJob& flow : job.flows)
        flows.push_back({make_algorithm(flow, hash++), Instant{} + Duration::from_s(flow.start_s),
                         flow.stop_s ? Instant{} + Duration::from_s(*flow.stop_s) : Instant::never(), flow.size_pkts});
    return run_simulation(job.config, std::move(flows), &cancel);
}

// Called with the GIL released: takes it to look for signals and to tell how far it is.
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
    run_pool(jobs.size(), threads, [&](std::size_t i, const Cancel& cancel) { results[i] = run_job(jobs[i], cancel); }, watch);
    return results;
}

nb::dict grid(const std::vector<Job>& jobs, U32Matrix params, unsigned threads, const nb::object& progress) {
    const std::size_t sets = params.shape(0), columns = params.shape(1), n = jobs.size();
    std::vector<std::uint64_t> capacity(n * sets), delivered(n * sets), packets(n * sets);
    std::vector<std::uint32_t> hist(n * sets * CompactBins::kBins);
    const auto watch = watcher(progress);
    auto piece = [&](std::size_t i, const Cancel& cancel) {
        Job job = jobs[i / sets];
        const std::uint32_t* row = params.data() + (i % sets) * columns;
        job.flows[0].params.assign(row, row + columns);
        job.config.fine_histogram = false;
        job.config.window = Duration{};
        const SimulationResult result = run_job(job, cancel);
        const WindowResult& all = result.windows.front();
        capacity[i] = all.capacity_bytes;
        delivered[i] = all.delivered_bytes;
        packets[i] = all.packets;
        std::copy(all.hist.begin(), all.hist.end(), hist.begin() + static_cast<std::ptrdiff_t>(i * CompactBins::kBins));
    };
    {
        const nb::gil_scoped_release no_gil;
        run_pool(n * sets, threads, piece, watch);
    }
    nb::dict out;
    out["capacity_bytes"] = owned(std::move(capacity), {n, sets});
    out["delivered_bytes"] = owned(std::move(delivered), {n, sets});
    out["packets"] = owned(std::move(packets), {n, sets});
    out["hist"] = owned(std::move(hist), {n, sets, CompactBins::kBins});
    return out;
}

template <class Bins>
nb::ndarray<nb::numpy, double> edges_us(std::uint32_t bins, std::uint32_t (*upper)(std::uint32_t)) {
    std::vector<double> edges(bins);
    for (std::uint32_t i = 0; i < bins; ++i) edges[i] = upper(i) * (static_cast<double>(kTickNs) / 1000);
    return owned(std::move(edges));
}

nb::dict flow_dict(const FlowResult& flow) {
    std::vector<std::uint64_t> at, measured;
    std::vector<std::uint32_t> epoch, state, turn;
    for (const EpochTurn& t : flow.turns) {
        at.push_back(t.at_us);
        measured.push_back(t.measured_bytes_per_s);
        epoch.push_back(t.epoch);
        state.push_back(t.state);
        turn.push_back(t.turn);
    }
    nb::dict out;
    out["delivered_pkts"] = flow.delivered_pkts;
    out["goodput_pkts"] = flow.goodput_pkts;
    out["sent_pkts"] = flow.sender.sent;
    out["retransmitted_pkts"] = flow.sender.retransmitted;
    out["timeouts"] = flow.sender.timeouts;
    out["undone"] = flow.sender.undone;
    out["all_sent_pkts"] = flow.all_sent_pkts;
    out["complete_s"] = flow.complete_s;
    out["rtt_hist"] = owned(flow.rtt_hist);
    out["turn_at_us"] = owned(std::move(at));
    out["turn_measured_bytes_per_s"] = owned(std::move(measured));
    out["turn_epoch"] = owned(std::move(epoch));
    out["turn_state"] = owned(std::move(state));
    out["turn_kind"] = owned(std::move(turn));
    return out;
}

nb::dict windows_dict(const SimulationResult& r) {
    const std::size_t n = r.windows.size();
    std::vector<std::int64_t> start;
    std::vector<std::uint64_t> capacity, delivered, packets;
    std::vector<std::uint32_t> hist;
    for (const WindowResult& w : r.windows) {
        start.push_back(w.start_ms);
        capacity.push_back(w.capacity_bytes);
        delivered.push_back(w.delivered_bytes);
        packets.push_back(w.packets);
        hist.insert(hist.end(), w.hist.begin(), w.hist.end());
    }
    nb::dict out;
    out["start_ms"] = owned(std::move(start));
    out["capacity_bytes"] = owned(std::move(capacity));
    out["delivered_bytes"] = owned(std::move(delivered));
    out["packets"] = owned(std::move(packets));
    out["hist"] = owned(std::move(hist), {n, CompactBins::kBins});
    return out;
}

nb::dict series_dict(const SimulationResult& r) {
    nb::dict out;
    const auto column = [&](const char* name, auto member) {
        std::vector<double> values;
        for (const SeriesPoint& p : r.series) values.push_back(static_cast<double>(p.*member));
        out[name] = owned(std::move(values));
    };
    column("time_s", &SeriesPoint::time_s);
    column("capacity_mbps", &SeriesPoint::capacity_mbps);
    column("rate_mbps", &SeriesPoint::rate_mbps);
    column("rtt_ms", &SeriesPoint::rtt_ms);
    column("queue_pkts", &SeriesPoint::queue_pkts);
    column("queueing_delay_ms", &SeriesPoint::queueing_delay_ms);
    column("cwnd_pkts", &SeriesPoint::cwnd_pkts);
    column("pacing_mbps", &SeriesPoint::pacing_mbps);
    column("flow", &SeriesPoint::flow);
    column("mode", &SeriesPoint::mode);
    return out;
}

void bind_jobs(nb::module_& m) {
    nb::class_<Opportunities>(m, "Opportunities", "Delivery opportunities of a link, shared by the runs that use it.")
        .def(
            "__init__",
            [](Opportunities* self, U32Array at_ms, std::uint32_t period_ms) {
                new (self) Opportunities({at_ms.data(), at_ms.data() + at_ms.size()}, period_ms);
            },
            "at_ms"_a, "period_ms"_a);
    nb::class_<Table>(m, "Table", "An ensemble's text as the core parsed it.")
        .def(
            "__init__",
            [](Table* self, const std::string& text, const std::string& cca) { new (self) Table(text, id_of(cca)); },
            "text"_a, "cca"_a)
        .def_prop_ro("text", &Table::text, "The text that the core makes of it: the one it was parsed from.")
        .def_prop_ro("registry", [](const Table& t) { return std::string(t.table().registry); })
        .def_prop_ro("channel", [](const Table& t) { return std::string(t.table().channel); })
        .def_prop_ro("serial", [](const Table& t) { return t.table().serial; })
        .def_prop_ro("digest", [](const Table& t) { return std::string(t.table().digest); })
        .def(
            "admit", [](const Table& t, const Table* in_force) { return ens_admit(in_force ? &in_force->table() : nullptr, &t.table()); },
            "in_force"_a.none(), "1: may replace it. 0: is the one in force. Negative: errno.");
    m.def(
        "judge_text",
        [](const std::string& text, const std::string& cca) {
            try {
                const Table table(text, id_of(cca));
                return nb::make_tuple(0, 0, true);
            } catch (const TableError& error) {
                return nb::make_tuple(error.error_number(), error.line(), error.complete());
            }
        },
        "text"_a, "cca"_a, "(errno or 0, line of the error or 0, whether an error came before the text ended).");
    nb::class_<FlowJob>(m, "FlowJob", "A flow: its algorithm, parameters and table, and when it runs.")
        .def(
            "__init__",
            [](FlowJob* self, std::string cca, std::vector<std::uint32_t> params, std::shared_ptr<Table> table,
               std::uint8_t delay_class, double start_s, std::optional<double> stop_s, std::uint32_t size_pkts) {
                new (self) FlowJob{std::move(cca), std::move(params), std::move(table), delay_class, start_s,
                                   stop_s, size_pkts};
            },
            "cca"_a, "params"_a, "table"_a.none() = nb::none(), "delay_class"_a = 0, "start_s"_a = 0.0,
            "stop_s"_a.none() = nb::none(), "size_pkts"_a = UINT32_MAX);
    nb::class_<Job>(m, "Job", "One run.")
        .def(
            "__init__",
            [](Job* self, std::vector<FlowJob> flows, std::shared_ptr<Opportunities> trace, double rate_bytes_per_s,
               std::int64_t start_ms, std::uint32_t opportunity_bytes, std::optional<std::uint64_t> buffer_pkts,
               std::optional<std::uint64_t> buffer_bytes, double rtt_ms, double loss, double duration_s,
               double warmup_s, double window_s, double sample_s, std::uint64_t seed) {
                new (self) Job{};
                self->flows = std::move(flows);
                SimulationConfig& c = self->config;
                c.link.trace = std::move(trace);
                c.link.rate_bytes_per_s = rate_bytes_per_s;
                c.link.start_ms = start_ms;
                c.link.opportunity_bytes = opportunity_bytes;
                c.link.buffer_pkts = buffer_pkts.value_or(UINT64_MAX);
                c.link.buffer_bytes = buffer_bytes.value_or(UINT64_MAX);
                c.rtt = Duration::from_s(rtt_ms / 1000);
                c.loss = loss;
                c.duration = Duration::from_s(duration_s);
                c.warmup = Duration::from_s(warmup_s);
                c.window = Duration::from_s(window_s);
                c.sample_every = Duration::from_s(sample_s);
                c.seed = seed;
            },
            "flows"_a, "trace"_a.none(), "rate_bytes_per_s"_a, "start_ms"_a, "opportunity_bytes"_a,
            "buffer_pkts"_a.none(), "buffer_bytes"_a.none(), "rtt_ms"_a, "loss"_a, "duration_s"_a, "warmup_s"_a,
            "window_s"_a, "sample_s"_a, "seed"_a);
}

void bind_results(nb::module_& m) {
    nb::class_<SimulationResult>(m, "Result", "What a run gave; times in the units of their names.")
        .def_ro("capacity_bytes", &SimulationResult::capacity_bytes)
        .def_ro("delivered_bytes", &SimulationResult::delivered_bytes)
        .def_ro("packets", &SimulationResult::packets)
        .def_ro("all_packets", &SimulationResult::all_packets)
        .def_ro("queued", &SimulationResult::queued)
        .def_ro("dropped", &SimulationResult::dropped)
        .def_ro("lost_at_random", &SimulationResult::lost_at_random)
        .def_ro("delay_sum_s", &SimulationResult::delay_sum_s)
        .def_prop_ro("delay_hist", [](const SimulationResult& r) { return owned(r.delay_hist); }, nb::rv_policy::move)
        .def_prop_ro("windows", &windows_dict)
        .def_prop_ro("flows",
                     [](const SimulationResult& r) {
                         nb::list out;
                         for (const FlowResult& flow : r.flows) out.append(flow_dict(flow));
                         return out;
                     })
        .def_prop_ro("series", &series_dict);
    m.def("delay_edges_us", [] { return edges_us<DelayHistogram>(DelayHistogram::kBins, &DelayHistogram::upper_ticks); },
          "Upper edges of the bins of delay_hist.");
    m.def("compact_edges_us", [] { return edges_us<CompactBins>(CompactBins::kBins, &CompactBins::upper_ticks); },
          "Upper edges of the bins of windows and grids.");
    m.def("rtt_edges_us", [] { return edges_us<FineLog>(FineLog::Bins::kBins, &FineLog::Bins::upper_ticks); },
          "Upper edges of the bins of rtt_hist.");
}

}  // namespace

NB_MODULE(_engine, m) {
    m.doc() = "The simulator's engine: discrete events over the core of kmod/core.";
    nb::register_exception_translator(
        [](const std::exception_ptr& p, void*) {
            try {
                std::rethrow_exception(p);
            } catch (const TableError& error) {
                PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.error_number(), error.what()).ptr());
            }
        },
        nullptr);
    bind_jobs(m);
    bind_results(m);
    m.def("run", &run, "jobs"_a, "threads"_a, "progress"_a.none() = nb::none(),
          "Run jobs on threads, without the GIL; progress(done) is called about ten times a second.");
    m.def("grid", &grid, "jobs"_a, "params"_a, "threads"_a, "progress"_a.none() = nb::none(),
          "Run each job's first flow with each row of params: arrays [jobs, rows, ...].");
    bind_bench(m);
}
