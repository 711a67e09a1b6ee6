// SPDX-License-Identifier: MIT
// Binding for R-TCP's detector of rate limiters (kmod/core/rtcp_detect.h), fed with the ACKs of an observed client.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "bindings/arrays.hpp"
#include "rtcp_detect.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ccatune;

namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Verdict {
    std::uint8_t kind;  // enum rtcp_class
    std::uint32_t bytes_per_s;
    std::uint64_t bucket_bytes;
    std::uint64_t tokens_bytes;
};

rtcp_params params_of(const std::vector<std::uint32_t>& values) {
    rtcp_params params;
    if (values.size() * sizeof(u32) != sizeof(params))
        throw std::invalid_argument("params: expected the parameters of rtcp_cubic in the order of params.def");
    __builtin_memcpy(&params, values.data(), sizeof(params));
    return params;
}

Dict detect(const Column<std::uint64_t>& time_us, const Column<std::uint32_t>& rtt_us,
            const Column<std::uint32_t>& acked_pkts, const Column<std::uint32_t>& lost_pkts,
            const Column<std::uint64_t>& transfers_us, std::uint32_t mss_bytes, const std::vector<std::uint32_t>& values) {
    const std::size_t n = time_us.size();
    if (rtt_us.size() != n || acked_pkts.size() != n || lost_pkts.size() != n)
        throw std::invalid_argument("expected columns of one length");
    const rtcp_params params = params_of(values);
    std::vector<Verdict> verdicts;
    verdicts.reserve(n);
    {
        nb::gil_scoped_release release;
        rtcp_client client;
        rtcp_client_init(&client, n ? time_us.data()[0] : 0);
        std::size_t transfer = 0;
        for (std::size_t i = 0; i < n; ++i) {
            for (; transfer < transfers_us.size() && transfers_us.data()[transfer] <= time_us.data()[i]; ++transfer)
                rtcp_client_on_transfer(&client, transfers_us.data()[transfer]);
            cca_ack ack{};
            ack.now_us = time_us.data()[i];
            ack.rtt_us = rtt_us.data()[i];
            ack.acked_pkts = acked_pkts.data()[i];
            ack.lost_pkts = lost_pkts.data()[i];
            ack.mss_bytes = mss_bytes;
            rtcp_client_on_ack(&client, &params, &ack);
            const bool limited = client.kind == RTCP_LIMITED;
            verdicts.push_back({client.kind, limited ? client.bytes_per_s : 0, limited ? client.bucket_bytes : 0,
                                limited ? rtcp_tokens(&client) : 0});
        }
    }
    Dict out;
    out["kind"] = column(verdicts, &Verdict::kind);
    out["bytes_per_s"] = column(verdicts, &Verdict::bytes_per_s);
    out["bucket_bytes"] = column(verdicts, &Verdict::bucket_bytes);
    out["tokens_bytes"] = column(verdicts, &Verdict::tokens_bytes);
    return out;
}

}  // namespace

void bind_detector(nb::module_& m);
void bind_detector(nb::module_& m) {
    m.attr("LIMITED") = static_cast<int>(RTCP_LIMITED);
    m.def("detect_limit", &detect, "time_us"_a, "rtt_us"_a, "acked_pkts"_a, "lost_pkts"_a, "transfers_us"_a,
          "mss_bytes"_a, "params"_a,
          "What R-TCP's detector knows after each ACK of a client: kind, bytes_per_s, bucket_bytes and tokens_bytes by "
          "ACK, the latter three 0 unless kind is LIMITED. transfers_us: when the application had data again. params: "
          "of rtcp_cubic, in the order of params.def.");
}
