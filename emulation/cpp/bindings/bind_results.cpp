// SPDX-License-Identifier: MIT
// Bindings for the results of runs, as arrays, and for the bins of their histograms.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <cstdint>
#include <vector>

#include "bindings/arrays.hpp"
#include "common/histogram.hpp"
#include "simulation/simulation.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ccatune;

namespace {

template <class Bins>
nb::ndarray<nb::numpy, double> edges_us(std::uint32_t bins, std::uint32_t (*upper)(std::uint32_t)) {
    std::vector<double> edges(bins);
    for (std::uint32_t i = 0; i < bins; ++i) edges[i] = upper(i) * (static_cast<double>(kTickNs) / 1000);
    return owned(std::move(edges));
}

Dict element_dict(const ElementResult& element) {
    Dict out;
    out["entered"] = element.entered;
    out["passed"] = element.passed;
    out["dropped"] = element.dropped;
    out["codel_dropped"] = element.codel_dropped;
    out["inside"] = element.inside;
    out["delay_hist"] = owned(element.delay_hist);
    return out;
}

Dict element_series_dict(const SimulationResult& r) {
    const ElementSeries& series = r.element_series;
    const std::size_t n = series.time_s.size(), elements = r.elements.size();
    Dict out;
    out["time_s"] = owned(series.time_s);
    out["dropped"] = owned(series.dropped, {n, elements});
    out["inside"] = owned(series.inside, {n, elements});
    return out;
}

// -1: not complete.
double complete_s(const ChunkResult& chunk) { return chunk.complete == Instant::never() ? -1 : chunk.complete.s(); }

void add_chunks(Dict& out, const std::vector<ChunkResult>& chunks) {
    out["chunk_bitrate_kbps"] = column(chunks, &ChunkResult::bitrate_kbps);
    out["chunk_size_bytes"] = column(chunks, &ChunkResult::size_bytes);
    out["chunk_start_s"] = column(chunks, [](const ChunkResult& c) { return c.start.s(); });
    out["chunk_complete_s"] = column(chunks, &complete_s);
    out["chunk_rebuffer_s"] = column(chunks, [](const ChunkResult& c) { return c.rebuffer.s(); });
    out["chunk_buffer_s"] = column(chunks, [](const ChunkResult& c) { return c.buffer.s(); });
}

Dict flow_dict(const FlowResult& flow) {
    Dict out;
    out["delivered_pkts"] = flow.delivered_pkts;
    out["goodput_pkts"] = flow.goodput_pkts;
    out["sent_pkts"] = flow.sender.sent;
    out["retransmitted_pkts"] = flow.sender.retransmitted;
    out["timeouts"] = flow.sender.timeouts;
    out["undone"] = flow.sender.undone;
    out["all_sent_pkts"] = flow.all_sent_pkts;
    out["complete_s"] = flow.complete_s;
    out["rtt_hist"] = owned(flow.rtt_hist);
    out["transfer_start_s"] = column(flow.transfers, &TransferResult::start_s);
    out["transfer_complete_s"] = column(flow.transfers, &TransferResult::complete_s);
    add_chunks(out, flow.chunks);
    out["limit_at_us"] = column(flow.limits, &LimitEstimate::at_us);
    out["limit_bucket_bytes"] = column(flow.limits, &LimitEstimate::bucket_bytes);
    out["limit_bytes_per_s"] = column(flow.limits, &LimitEstimate::bytes_per_s);
    out["limit_kind"] = column(flow.limits, &LimitEstimate::kind);
    out["turn_at_us"] = column(flow.turns, &EpochTurn::at_us);
    out["turn_measured_bytes_per_s"] = column(flow.turns, &EpochTurn::measured_bytes_per_s);
    out["turn_epoch"] = column(flow.turns, &EpochTurn::epoch);
    out["turn_state"] = column(flow.turns, &EpochTurn::state);
    out["turn_kind"] = column(flow.turns, &EpochTurn::turn);
    return out;
}

Dict windows_dict(const SimulationResult& r) {
    std::vector<std::uint32_t> hist;
    for (const WindowResult& w : r.windows) hist.insert(hist.end(), w.hist.begin(), w.hist.end());
    Dict out;
    out["start_ms"] = column(r.windows, &WindowResult::start_ms);
    out["capacity_bytes"] = column(r.windows, &WindowResult::capacity_bytes);
    out["delivered_bytes"] = column(r.windows, &WindowResult::delivered_bytes);
    out["packets"] = column(r.windows, &WindowResult::packets);
    out["hist"] = owned(std::move(hist), {r.windows.size(), CompactBins::kBins});
    return out;
}

Dict series_dict(const SimulationResult& r) {
    Dict out;
    const auto add = [&](const char* name, auto member) {
        out[name] = column(r.series, [&](const SeriesPoint& p) { return static_cast<double>(p.*member); });
    };
    add("time_s", &SeriesPoint::time_s);
    add("capacity_mbps", &SeriesPoint::capacity_mbps);
    add("rate_mbps", &SeriesPoint::rate_mbps);
    add("rtt_ms", &SeriesPoint::rtt_ms);
    add("smoothed_rtt_ms", &SeriesPoint::smoothed_rtt_ms);
    add("queue_pkts", &SeriesPoint::queue_pkts);
    add("queueing_delay_ms", &SeriesPoint::queueing_delay_ms);
    add("cwnd_pkts", &SeriesPoint::cwnd_pkts);
    add("pacing_mbps", &SeriesPoint::pacing_mbps);
    add("retransmitted_pkts", &SeriesPoint::retransmitted_pkts);
    add("flow", &SeriesPoint::flow);
    add("mode", &SeriesPoint::mode);
    return out;
}

Dict proxy_dict(const SimulationResult& r) {
    Dict out;
    out["time_s"] = owned(r.proxy.time_s);
    out["buffered_pkts"] = owned(r.proxy.buffered_pkts);
    return out;
}

template <class Row>
nb::typed<nb::list, Dict> dicts(const std::vector<Row>& rows, Dict (*one)(const Row&)) {
    nb::typed<nb::list, Dict> out;
    for (const Row& row : rows) out.append(one(row));
    return out;
}

}  // namespace

void bind_results(nb::module_& m);
void bind_results(nb::module_& m) {
    nb::class_<SimulationResult>(m, "Result", "The result of a run; times in the units of their names.")
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
        .def_prop_ro("flows", [](const SimulationResult& r) { return dicts(r.flows, &flow_dict); })
        .def_prop_ro("series", &series_dict)
        .def_prop_ro("elements", [](const SimulationResult& r) { return dicts(r.elements, &element_dict); })
        .def_prop_ro("element_series", &element_series_dict)
        .def_prop_ro("servers", [](const SimulationResult& r) { return r.servers; })
        .def_prop_ro("proxy", &proxy_dict)
        .def_prop_ro("acks", [](const SimulationResult& r) { return element_dict(r.acks); });
    m.def("delay_edges_us", [] { return edges_us<DelayHistogram>(DelayHistogram::kBins, &DelayHistogram::upper_ticks); },
          "Upper edges of the bins of delay_hist.");
    m.def("compact_edges_us", [] { return edges_us<CompactBins>(CompactBins::kBins, &CompactBins::upper_ticks); },
          "Upper edges of the bins of windows and grids.");
    m.def("rtt_edges_us", [] { return edges_us<FineLog>(FineLog::Bins::kBins, &FineLog::Bins::upper_ticks); },
          "Upper edges of the bins of rtt_hist and of the elements' delay_hist.");
}
