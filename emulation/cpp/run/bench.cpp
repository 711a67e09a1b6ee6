// SPDX-License-Identifier: MIT
// Measures what an ACK costs in the core alone, without the simulator around it.
// Each algorithm processes the same generated ACKs; GR and SIRA run with their epoch clock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bbr1.h"
#include "bbr3.h"
#include "cubic.h"
#include "gr_flow.h"
#include "reno.h"
#include "sent_log.h"
#include "sira_flow.h"

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

// Makes the compiler compute this value, although nothing uses it.
template <class T>
void keep(const T& value) {
    asm volatile("" : : "g"(&value) : "memory");
}

// Returns the mean time of step(ack) over the generated ACKs.
template <class Step>
double ns_per_ack(std::uint32_t count, Step&& step) {
    auto acks = typical_acks(count);
    const auto start = std::chrono::steady_clock::now();
    for (cca_ack& ack : acks) step(ack);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    keep(acks.back());
    return spent.count() / count;
}

// Measures an algorithm of control mode with its epoch clock, given its functions.
template <class Params, class Flow, auto kInit, auto kOnAck>
double flow_ns(std::uint32_t id, std::uint32_t count) {
    const cca_start start = typical_start();
    Params params;
    Flow flow;
    cca_decision decision;
    cca_params_init(&params, id);
    kInit(&flow, &params, &start, 0, 0, &decision);
    const double ns = ns_per_ack(count, [&](const cca_ack& ack) { kOnAck(&flow, &params, nullptr, &ack, &decision); });
    keep(decision);
    return ns;
}

double reno_ns(std::uint32_t count) {
    reno_state state;
    cca_window window{10, 100, 0};
    reno_init(&state);
    const double ns = ns_per_ack(count, [&](const cca_ack& ack) {
        reno_on_ack(&state, &ack);
        reno_grow(&state, &window, ack.acked_pkts);
    });
    keep(window);
    return ns;
}

// The window is lowered from time to time, as losses would lower it.
double cubic_ns(std::uint32_t count) {
    const cca_start start = typical_start();
    cubic_params params;
    cubic_state state;
    cca_window window{10, 100, 0};
    cca_params_init(&params, CCA_ID_cubic);
    cubic_init(&state, &params, &start);
    const double ns = ns_per_ack(count, [&](const cca_ack& ack) {
        cubic_on_ack(&state, &params, &ack, &window);
        cubic_grow(&state, &params, &window, ack.acked_pkts);
        if (window.cwnd_pkts > 300) window.cwnd_pkts = cubic_ssthresh(&state, &params, &window);
    });
    keep(window);
    return ns;
}

// The same without an epoch clock.
template <class Params, class State, auto kInit, auto kOnAck>
double control_ns(std::uint32_t id, std::uint32_t count) {
    const cca_start start = typical_start();
    Params params;
    State state;
    cca_decision decision;
    cca_params_init(&params, id);
    kInit(&state, &params, &start, 1, &decision);
    const double ns = ns_per_ack(count, [&](const cca_ack& ack) { kOnAck(&state, &params, &ack, &decision); });
    keep(decision);
    return ns;
}

// Measures the log of packets in flight, which the kernel module has in addition to BBRv3's core.
// Every thousandth ACK reports a loss.
double sent_log_ns(std::uint32_t count) {
    cca_sent_log log;
    cca_loss loss;
    cca_sent_init(&log, 0, 0, 0);
    std::uint32_t number = 0;
    return ns_per_ack(count, [&](cca_ack& ack) {
        const std::uint32_t lost_pkts = number++ / 1000;
        const struct cca_sent_note about{ack.delivered_pkts - ack.acked_pkts, cca_prior_inflight(&ack), lost_pkts};
        cca_sent_note(&log, ack.delivered_pkts + ack.inflight_pkts, &about);
        keep(cca_sent_loss(&log, ack.now_us, ack.delivered_pkts, lost_pkts, &loss));
        cca_sent_sample(&log, cca_prior_delivered(&ack), ack.app_limited != 0);
        cca_sent_put(&log, lost_pkts, &ack);
    });
}

std::map<std::string, double> core_ns(std::uint32_t acks) {
    return {{"gr", flow_ns<gr_params, gr_flow, gr_flow_init, gr_flow_on_ack>(CCA_ID_gr, acks)},
            {"sira", flow_ns<sira_params, sira_flow, sira_flow_init, sira_flow_on_ack>(CCA_ID_sira, acks)},
            {"reno", reno_ns(acks)},
            {"cubic", cubic_ns(acks)},
            {"bbr", control_ns<bbr1_params, bbr1_state, bbr1_init, bbr1_on_ack>(CCA_ID_bbr, acks)},
            {"bbr3", control_ns<bbr3_params, bbr3_state, bbr3_init, bbr3_on_ack>(CCA_ID_bbr3, acks)},
            {"sent_log", sent_log_ns(acks)}};
}

}  // namespace

void bind_bench(nb::module_& m);
void bind_bench(nb::module_& m) {
    m.def("core_ns_per_ack", &core_ns, nb::arg("acks"), nb::call_guard<nb::gil_scoped_release>(),
          "Nanoseconds an ACK in the core of each algorithm, and in the log that BBRv3 has in the kernel (sent_log.h).");
}
