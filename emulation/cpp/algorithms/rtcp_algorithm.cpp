// SPDX-License-Identifier: MIT
#include "algorithms/rtcp_algorithm.hpp"

#include "algorithms/making.hpp"

namespace ccatune {
namespace {

RtcpRows rows_of(const Making& m) { return {m.params_of<rtcp_params>(), m.following()}; }
RtcpClient client_of(const Making& m) { return {m.clients, m.client}; }

}  // namespace

std::unique_ptr<Algorithm> make_rtcp_cubic(const Making& m) {
    return std::make_unique<RtcpCubicAlgorithm>(RtcpCubicCore(rows_of(m), client_of(m)));
}
std::unique_ptr<Algorithm> make_rtcp_bbr(const Making& m) {
    return std::make_unique<RtcpBbr1Algorithm>(rows_of(m), m.mixed_hash(), client_of(m));
}
std::unique_ptr<Algorithm> make_rtcp_bbr3(const Making& m) {
    return std::make_unique<RtcpBbr3Algorithm>(rows_of(m), m.mixed_hash(), client_of(m));
}

}  // namespace ccatune
