// SPDX-License-Identifier: MIT
// Bindings for the results of runs, as arrays, and for the bins of their histograms.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

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

void add_transfers(Dict& out, const FlowResult& flow) {
    std::vector<double> start_s, complete_s;
    std::vector<std::uint32_t> size_pkts;
    for (const TransferResult& t : flow.transfers) {
        start_s.push_back(t.start_s);
        complete_s.push_back(t.complete_s);
        size_pkts.push_back(t.size_pkts);
    }
    out["transfer_start_s"] = owned(std::move(start_s));
    out["transfer_complete_s"] = owned(std::move(complete_s));
    out["transfer_size_pkts"] = owned(std::move(size_pkts));
}

void add_chunks(Dict& out, const FlowResult& flow) {
    std::vector<std::uint32_t> bitrate, size;
    std::vector<double> start_s, complete_s, rebuffer_s, buffer_s;
    for (const ChunkResult& c : flow.chunks) {
        bitrate.push_back(c.bitrate_kbps);
        size.push_back(c.size_bytes);
        start_s.push_back(c.start.s());
        complete_s.push_back(c.complete == Instant::never() ? -1 : c.complete.s());
        rebuffer_s.push_back(c.rebuffer.s());
        buffer_s.push_back(c.buffer.s());
    }
    out["chunk_bitrate_kbps"] = owned(std::move(bitrate));
    out["chunk_size_bytes"] = owned(std::move(size));
    out["chunk_start_s"] = owned(std::move(start_s));
    out["chunk_complete_s"] = owned(std::move(complete_s));
    out["chunk_rebuffer_s"] = owned(std::move(rebuffer_s));
    out["chunk_buffer_s"] = owned(std::move(buffer_s));
}

void add_limits(Dict& out, const FlowResult& flow) {
    std::vector<std::uint64_t> at, bucket, rate;
    std::vector<std::uint32_t> kind;
    for (const LimitEstimate& l : flow.limits) {
        at.push_back(l.at_us);
        bucket.push_back(l.bucket_bytes);
        rate.push_back(l.bytes_per_s);
        kind.push_back(l.kind);
    }
    out["limit_at_us"] = owned(std::move(at));
    out["limit_bucket_bytes"] = owned(std::move(bucket));
    out["limit_bytes_per_s"] = owned(std::move(rate));
    out["limit_kind"] = owned(std::move(kind));
}

Dict flow_dict(const FlowResult& flow) {
    std::vector<std::uint64_t> at, measured;
    std::vector<std::uint32_t> epoch, state, turn;
    for (const EpochTurn& t : flow.turns) {
        at.push_back(t.at_us);
        measured.push_back(t.measured_bytes_per_s);
        epoch.push_back(t.epoch);
        state.push_back(t.state);
        turn.push_back(t.turn);
    }
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
    add_transfers(out, flow);
    add_chunks(out, flow);
    add_limits(out, flow);
    out["turn_at_us"] = owned(std::move(at));
    out["turn_measured_bytes_per_s"] = owned(std::move(measured));
    out["turn_epoch"] = owned(std::move(epoch));
    out["turn_state"] = owned(std::move(state));
    out["turn_kind"] = owned(std::move(turn));
    return out;
}

Dict windows_dict(const SimulationResult& r) {
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
    Dict out;
    out["start_ms"] = owned(std::move(start));
    out["capacity_bytes"] = owned(std::move(capacity));
    out["delivered_bytes"] = owned(std::move(delivered));
    out["packets"] = owned(std::move(packets));
    out["hist"] = owned(std::move(hist), {n, CompactBins::kBins});
    return out;
}

Dict series_dict(const SimulationResult& r) {
    Dict out;
    const auto column = [&](const char* name, auto member) {
        std::vector<double> values;
        for (const SeriesPoint& p : r.series) values.push_back(static_cast<double>(p.*member));
        out[name] = owned(std::move(values));
    };
    column("time_s", &SeriesPoint::time_s);
    column("capacity_mbps", &SeriesPoint::capacity_mbps);
    column("rate_mbps", &SeriesPoint::rate_mbps);
    column("rtt_ms", &SeriesPoint::rtt_ms);
    column("smoothed_rtt_ms", &SeriesPoint::smoothed_rtt_ms);
    column("queue_pkts", &SeriesPoint::queue_pkts);
    column("queueing_delay_ms", &SeriesPoint::queueing_delay_ms);
    column("cwnd_pkts", &SeriesPoint::cwnd_pkts);
    column("pacing_mbps", &SeriesPoint::pacing_mbps);
    column("retransmitted_pkts", &SeriesPoint::retransmitted_pkts);
    column("flow", &SeriesPoint::flow);
    column("mode", &SeriesPoint::mode);
    return out;
}

}  // namespace

void bind_results(nb::module_& m);
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
                         nb::typed<nb::list, Dict> out;
                         for (const FlowResult& flow : r.flows) out.append(flow_dict(flow));
                         return out;
                     })
        .def_prop_ro("series", &series_dict)
        .def_prop_ro("elements",
                     [](const SimulationResult& r) {
                         nb::typed<nb::list, Dict> out;
                         for (const ElementResult& element : r.elements) out.append(element_dict(element));
                         return out;
                     })
        .def_prop_ro("element_series", &element_series_dict)
        .def_prop_ro("acks", [](const SimulationResult& r) { return element_dict(r.acks); });
    m.def("delay_edges_us", [] { return edges_us<DelayHistogram>(DelayHistogram::kBins, &DelayHistogram::upper_ticks); },
          "Upper edges of the bins of delay_hist.");
    m.def("compact_edges_us", [] { return edges_us<CompactBins>(CompactBins::kBins, &CompactBins::upper_ticks); },
          "Upper edges of the bins of windows and grids.");
    m.def("rtt_edges_us", [] { return edges_us<FineLog>(FineLog::Bins::kBins, &FineLog::Bins::upper_ticks); },
          "Upper edges of the bins of rtt_hist and of the elements' delay_hist.");
}
