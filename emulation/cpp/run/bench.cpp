// SPDX-License-Identifier: MIT
// Measures what an ACK costs in the core alone, without the simulator around it.
// Each algorithm processes the same generated ACKs; GR runs with its epoch clock.
#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "bbr1.h"
#include "bbr3.h"
#include "cubic.h"
#include "gr_flow.h"
#include "reno.h"
#include "sent_log.h"

namespace nb = nanobind;

namespace {

// Returns ACKs of two packets on a 20 Mbit/s link whose queueing delay rises and falls between 0 and 100 ms.
std::vector<cca_ack> typical_acks(std::uint32_t count) {
    std::vector<cca_ack> acks(count);
    std::uint64_t now_us = 1'000'000;
    for (std::uint32_t i = 0; i < count; ++i) {
        now_us += 1200;
        cca_ack& ack = acks[i];
        ack = cca_ack{};
        ack.now_us = now_us;
        ack.rtt_us = 100'000 + (i % 2000 < 1000 ? i % 1000 : 1000 - i % 1000) * 100;
        ack.acked_pkts = 2;
        ack.inflight_pkts = 170;
        ack.delivered_pkts = 2 * i;
        ack.rate_pkts = 170;
        ack.rate_interval_us = ack.rtt_us;
        ack.cwnd_pkts = 200;
        ack.mss_bytes = 1448;
        ack.tx_inflight_pkts = 172;
        ack.cwnd_limited = 1;
    }
    return acks;
}

cca_start typical_start() {
    cca_start start{};
    start.rtt_us = 100'000;
    start.cwnd_pkts = 10;
    start.mss_bytes = 1448;
    return start;
}

template <class Work>
double ns_per_ack(std::size_t acks, Work&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    return spent.count() / static_cast<double>(acks);
}

double gr_ns(std::uint32_t count) {
    const auto acks = typical_acks(count);
    gr_params params;
    cca_params_init(&params, CCA_ID_gr);
    const cca_start start = typical_start();
    gr_flow flow;
    cca_decision decision;
    volatile std::uint64_t sink = 0;
    gr_flow_init(&flow, &params, &start, 0, 0, &decision);
    const double ns = ns_per_ack(acks.size(), [&] {
        for (const cca_ack& ack : acks) gr_flow_on_ack(&flow, &params, nullptr, &ack, &decision);
    });
    sink = sink + decision.pacing_bytes_per_s;
    return ns;
}

double reno_ns(std::uint32_t count) {
    const auto acks = typical_acks(count);
    reno_state state;
    cca_window window{10, 100, 0};
    volatile std::uint32_t sink = 0;
    reno_init(&state);
    const double ns = ns_per_ack(acks.size(), [&] {
        for (const cca_ack& ack : acks) {
            reno_on_ack(&state, &ack);
            reno_grow(&state, &window, ack.acked_pkts);
        }
    });
    sink = sink + window.cwnd_pkts;
    return ns;
}

// The window is lowered from time to time, as losses would lower it.
double cubic_ns(std::uint32_t count) {
    const auto acks = typical_acks(count);
    const cca_start start = typical_start();
    cubic_params params;
    cubic_state state;
    cca_window window{10, 100, 0};
    volatile std::uint32_t sink = 0;
    cca_params_init(&params, CCA_ID_cubic);
    cubic_init(&state, &params, &start);
    const double ns = ns_per_ack(acks.size(), [&] {
        for (const cca_ack& ack : acks) {
            cubic_on_ack(&state, &params, &ack, &window);
            cubic_grow(&state, &params, &window, ack.acked_pkts);
            if (window.cwnd_pkts > 300) window.cwnd_pkts = cubic_ssthresh(&state, &params, &window);
        }
    });
    sink = sink + window.cwnd_pkts;
    return ns;
}

// Measures an algorithm of control mode, given its functions.
template <class Params, class State, auto kInit, auto kOnAck>
double control_ns(std::uint32_t id, std::uint32_t count) {
    const auto acks = typical_acks(count);
    const cca_start start = typical_start();
    Params params;
    State state;
    cca_decision decision;
    volatile std::uint64_t sink = 0;
    cca_params_init(&params, id);
    kInit(&state, &params, &start, 1, &decision);
    const double ns = ns_per_ack(acks.size(), [&] {
        for (const cca_ack& ack : acks) kOnAck(&state, &params, &ack, &decision);
    });
    sink = sink + decision.pacing_bytes_per_s;
    return ns;
}

double bbr_ns(std::uint32_t count) {
    return control_ns<bbr1_params, bbr1_state, bbr1_init, bbr1_on_ack>(CCA_ID_bbr, count);
}

double bbr3_ns(std::uint32_t count) {
    return control_ns<bbr3_params, bbr3_state, bbr3_init, bbr3_on_ack>(CCA_ID_bbr3, count);
}

// Measures the log of packets in flight, which the kernel module has in addition to BBRv3's core.
// Every thousandth ACK reports a loss.
double sent_log_ns(std::uint32_t count) {
    auto acks = typical_acks(count);
    cca_sent_log log;
    cca_loss loss;
    volatile std::uint32_t sink = 0;
    cca_sent_init(&log, 0, 0, 0);
    std::uint32_t number = 0;
    const double ns = ns_per_ack(acks.size(), [&] {
        for (cca_ack& ack : acks) {
            const std::uint32_t lost_pkts = number++ / 1000;
            const struct cca_sent_note about{ack.delivered_pkts - ack.acked_pkts, cca_prior_inflight(&ack), lost_pkts};
            cca_sent_note(&log, ack.delivered_pkts + ack.inflight_pkts, &about);
            sink = sink + cca_sent_loss(&log, ack.now_us, ack.delivered_pkts, lost_pkts, &loss);
            cca_sent_sample(&log, cca_prior_delivered(&ack), ack.app_limited != 0);
            cca_sent_put(&log, lost_pkts, &ack);
        }
    });
    sink = sink + acks.back().tx_inflight_pkts;
    return ns;
}

}  // namespace

void bind_bench(nb::module_& m);
void bind_bench(nb::module_& m) {
    m.def("gr_ns_per_ack", &gr_ns, nb::arg("acks"), nb::call_guard<nb::gil_scoped_release>(),
          "Nanoseconds an ACK in gr_flow_on_ack, over that many ACKs.");
    m.def("reno_ns_per_ack", &reno_ns, nb::arg("acks"), nb::call_guard<nb::gil_scoped_release>(),
          "Nanoseconds an ACK in reno_on_ack and reno_grow, over that many ACKs.");
    m.def("cubic_ns_per_ack", &cubic_ns, nb::arg("acks"), nb::call_guard<nb::gil_scoped_release>(),
          "Nanoseconds an ACK in cubic_on_ack and cubic_grow, over that many ACKs.");
    m.def("bbr_ns_per_ack", &bbr_ns, nb::arg("acks"), nb::call_guard<nb::gil_scoped_release>(),
          "Nanoseconds an ACK in bbr1_on_ack, over that many ACKs.");
    m.def("bbr3_ns_per_ack", &bbr3_ns, nb::arg("acks"), nb::call_guard<nb::gil_scoped_release>(),
          "Nanoseconds an ACK in bbr3_on_ack, over that many ACKs.");
    m.def("sent_log_ns_per_ack", &sent_log_ns, nb::arg("acks"), nb::call_guard<nb::gil_scoped_release>(),
          "Nanoseconds an ACK in the log that BBRv3 has in the kernel (sent_log.h), over that many ACKs.");
}
