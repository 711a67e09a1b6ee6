// SPDX-License-Identifier: MIT
// Bindings for what reads rate limiters out of observed flows.
// R-TCP's detector (kmod/core/rtcp_detect.h) is fed with the ACKs of a client.
// The replay (path/policer_replay.hpp) compares a limiter with the packets that the client was sent.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "bindings/arrays.hpp"
#include "path/policer_replay.hpp"
#include "rtcp_detect.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ccatune;

namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// What the detector knows after an ACK.
// estimate: of the fit, which exists from the trigger on, before the client is classified.
struct Knowledge {
    std::uint8_t kind = 0;  // enum rtcp_class
    std::uint32_t bytes_per_s = 0, estimate_bytes_per_s = 0;
    std::uint64_t bucket_bytes = 0;
};

Knowledge knowledge_of(const rtcp_client& client) {
    Knowledge known{client.kind};
    if (client.fit.count) known.estimate_bytes_per_s = rtcp_fit_rate(&client.fit);
    if (client.kind != RTCP_LIMITED) return known;
    known.bytes_per_s = client.bytes_per_s;
    known.bucket_bytes = client.bucket_bytes;
    return known;
}

rtcp_params params_of(const std::vector<std::uint32_t>& values) {
    rtcp_params params;
    if (values.size() * sizeof(u32) != sizeof(params))
        throw std::invalid_argument("params: expected the parameters of rtcp_cubic in the order of params.def");
    __builtin_memcpy(&params, values.data(), sizeof(params));
    return params;
}

void expect_length(std::size_t length, std::size_t expected) {
    if (length != expected) throw std::invalid_argument("expected columns of one length");
}

Dict detect(const Column<std::uint64_t>& time_us, const Column<std::uint32_t>& rtt_us,
            const Column<std::uint32_t>& acked_pkts, const Column<std::uint32_t>& lost_pkts,
            const Column<std::uint64_t>& transfers_us, std::uint32_t mss_bytes,
            const std::vector<std::uint32_t>& values) {
    const std::size_t n = time_us.size();
    for (const std::size_t length : {rtt_us.size(), acked_pkts.size(), lost_pkts.size()}) expect_length(length, n);
    const rtcp_params params = params_of(values);
    std::vector<Knowledge> known(n);
    rtcp_client client;
    rtcp_client_init(&client, n ? time_us.data()[0] : 0);
    std::size_t transfer = 0;
    for (std::size_t i = 0; i < n; ++i) {
        cca_ack ack{};
        ack.now_us = time_us.data()[i];
        for (; transfer < transfers_us.size() && transfers_us.data()[transfer] <= ack.now_us; ++transfer)
            rtcp_client_on_transfer(&client, transfers_us.data()[transfer]);
        ack.rtt_us = rtt_us.data()[i];
        ack.acked_pkts = acked_pkts.data()[i];
        ack.lost_pkts = lost_pkts.data()[i];
        ack.mss_bytes = mss_bytes;
        rtcp_client_on_ack(&client, &params, &ack);
        known[i] = knowledge_of(client);
    }
    Dict out;
    out["kind"] = column(known, &Knowledge::kind);
    out["bytes_per_s"] = column(known, &Knowledge::bytes_per_s);
    out["bucket_bytes"] = column(known, &Knowledge::bucket_bytes);
    out["estimate_bytes_per_s"] = column(known, &Knowledge::estimate_bytes_per_s);
    return out;
}

std::vector<SentPacket> packets_of(const Column<std::uint64_t>& time_us, const Column<std::uint32_t>& bytes,
                                   const Column<bool>& lost) {
    expect_length(bytes.size(), time_us.size());
    expect_length(lost.size(), time_us.size());
    std::vector<SentPacket> packets;
    packets.reserve(time_us.size());
    for (std::size_t i = 0; i < time_us.size(); ++i)
        packets.push_back({time_us.data()[i], bytes.data()[i], lost.data()[i]});
    return packets;
}

nb::ndarray<nb::numpy, double> costs(const Column<std::uint64_t>& time_us, const Column<std::uint32_t>& bytes,
                                     const Column<bool>& lost, const Column<double>& rates_bytes_per_s,
                                     const Column<double>& buckets_bytes, double resolution_bytes,
                                     double most_cost) {
    const std::vector<SentPacket> packets = packets_of(time_us, bytes, lost);
    expect_length(buckets_bytes.size(), rates_bytes_per_s.size());
    std::vector<double> out(rates_bytes_per_s.size());
    {
        nb::gil_scoped_release release;
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = replay_cost(packets, PolicerReplay(rates_bytes_per_s.data()[i], buckets_bytes.data()[i],
                                                        {resolution_bytes, most_cost}));
    }
    return owned(std::move(out));
}

nb::ndarray<nb::numpy, double> tokens(const Column<std::uint64_t>& time_us, const Column<std::uint32_t>& bytes,
                                      const Column<bool>& lost, double rate_bytes_per_s, double bucket_bytes) {
    PolicerReplay replay(rate_bytes_per_s, bucket_bytes, {});
    return column(packets_of(time_us, bytes, lost), [&](const SentPacket& packet) { return replay.on_packet(packet); });
}

}  // namespace

void bind_detector(nb::module_& m);
void bind_detector(nb::module_& m) {
    m.attr("LIMITED") = static_cast<int>(RTCP_LIMITED);
    m.def("detect_limit", &detect, "time_us"_a, "rtt_us"_a, "acked_pkts"_a, "lost_pkts"_a, "transfers_us"_a,
          "mss_bytes"_a, "params"_a,
          "What R-TCP's detector knows after each ACK of a client: kind; bytes_per_s and bucket_bytes, 0 unless kind is "
          "LIMITED; estimate_bytes_per_s, 0 before the trigger. transfers_us: when the application had data again. "
          "params: of rtcp_cubic, in the order of params.def.");
    m.def("policer_costs", &costs, "time_us"_a, "bytes"_a, "lost"_a, "rates_bytes_per_s"_a, "buckets_bytes"_a,
          "resolution_bytes"_a, "most_cost"_a,
          "How badly each policer {rate, bucket} explains which packets were lost, in nats (path/policer_replay.hpp).");
    m.def("policer_tokens", &tokens, "time_us"_a, "bytes"_a, "lost"_a, "rate_bytes_per_s"_a, "bucket_bytes"_a,
          "The tokens of a policer before each packet, in bytes.");
}
