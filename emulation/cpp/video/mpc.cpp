// SPDX-License-Identifier: MIT
// Model predictive control: it finds the bitrates of the next N chunks with the best QoE at the predicted throughput.
// It takes the first of these bitrates.
// Source: X. Yin, A. Jindal, V. Sekar, B. Sinopoli,
// "A Control-Theoretic Approach for Dynamic Adaptive Video Streaming over HTTP", SIGCOMM 2015, section 4.
//
//   QoE  = sum q(R_k) - lambda sum |q(R_k) - q(R_k-1)| - mu sum (d_k / C - B_k)+
//   B_k+1 = min((B_k - d_k / C)+ + L, room)             room: the level for which the request waits
//   C    = harmonic mean of the last 5 chunks' throughput; robust: divided by 1 + the worst of the last 5
//          predictions' errors, |predicted - measured| / measured
//
// q is the bitrate in Mbit/s, and N is 5.
// The video defines mu and lambda.
//
// FastMPC (section 5) computes all choices in advance, and a player only looks them up.
// Its table has a choice for each last bitrate and each point (B, C) of a grid, and a player takes the nearest point:
//
//   B    0, 1/100, ... 1 of the room
//   C    1/100, 2/100, ... 1 of the top bitrate; with a chunk in the buffer, faster downloads stall no plan
//
// The table does not depend on the sizes of a video's chunks. It assumes nominal sizes, bitrate times playing time, and
// that N chunks remain. An entry is computed when it is looked up, because a session needs few of them.
//
// DEVIATION: The start-up time is not optimised.
// Playing begins with the first chunk, whose bitrate is given.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "video/video.hpp"

namespace ccatune {
namespace {

constexpr std::uint32_t kHorizon = 5;
constexpr std::size_t kMemory = 5;
constexpr double kBins = 100;

// Returns the prediction from the chunks before `chunk`, of which there is at least one.
double predicted(const std::vector<double>& measured_mbps, std::size_t chunk) {
    const std::size_t first = chunk - std::min(chunk, kMemory);
    double inverse = 0;
    for (std::size_t i = first; i < chunk; ++i) inverse += 1 / measured_mbps[i];
    return static_cast<double>(chunk - first) / inverse;
}

double worst_error(const std::vector<double>& measured_mbps) {
    const std::size_t chunks = measured_mbps.size();
    double worst = 0;
    for (std::size_t i = std::max<std::size_t>(chunks - std::min(chunks, kMemory), 1); i < chunks; ++i)
        worst = std::max(worst, std::abs(predicted(measured_mbps, i) - measured_mbps[i]) / measured_mbps[i]);
    return worst;
}

class Planner {
public:
    Planner(const Video& video, double mbps, std::uint32_t end) : video_(video), mbps_(mbps), end_(end) {}

    // Returns the best QoE of the chunks from `next` to the end of the horizon.
    // *first: the bitrate of the first of them, the lowest if several are best.
    double best(std::uint32_t next, std::uint32_t last, double buffer_s, std::uint32_t* first) const {
        if (next == end_) return 0;
        double most = -std::numeric_limits<double>::infinity();
        for (std::uint32_t m = 0; m < video_.bitrates_kbps.size(); ++m) {
            const double takes_s = video_.size_bytes(next, m) * 8e-6 / mbps_;
            const double stall_s = std::max(takes_s - buffer_s, 0.0);
            const double then_s = std::min(std::max(buffer_s - takes_s, 0.0) + video_.chunk.s(), room_at(video_).s());
            std::uint32_t later;
            const double qoe = video_.mbps(m) - video_.rebuffer_penalty_mbps * stall_s -
                               video_.switch_penalty * std::abs(video_.mbps(m) - video_.mbps(last)) +
                               best(next + 1, m, then_s, &later);
            if (qoe <= most) continue;
            most = qoe;
            *first = m;
        }
        return most;
    }

private:
    const Video& video_;
    double mbps_;
    std::uint32_t end_;
};

// A video of nominal chunk sizes that lasts for the horizon.
Video nominal(const Video& video) {
    Video nominal = video;
    nominal.sizes_bytes.clear();
    for (std::uint32_t chunk = 0; chunk < kHorizon; ++chunk)
        for (const std::uint32_t kbps : video.bitrates_kbps)
            nominal.sizes_bytes.push_back(static_cast<std::uint32_t>(std::lround(kbps * 125 * video.chunk.s())));
    return nominal;
}

}  // namespace

Choice choose_mpc(const Video& video, const View& view, bool is_robust) {
    double mbps = predicted(view.measured_mbps, view.measured_mbps.size());
    if (is_robust) mbps /= 1 + worst_error(view.measured_mbps);
    const Planner planner(video, mbps, std::min(view.next + kHorizon, video.chunks()));
    Choice choice{0, room_at(video)};
    planner.best(view.next, view.last, std::min(view.buffer, choice.wait_for).s(), &choice.bitrate);
    return choice;
}

Choice choose_fast_mpc(const Video& video, const View& view) {
    const double room_s = room_at(video).s(), top_mbps = video.bitrates_kbps.back() * 1e-3;
    const double level = room_s > 0 ? std::round(std::min(view.buffer.s() / room_s, 1.0) * kBins) / kBins : 0;
    const double mbps = predicted(view.measured_mbps, view.measured_mbps.size());
    const double rate = std::clamp(std::round(mbps / top_mbps * kBins), 1.0, kBins) / kBins;
    const Video entry = nominal(video);
    Choice choice{0, room_at(video)};
    Planner(entry, rate * top_mbps, kHorizon).best(0, view.last, level * room_s, &choice.bitrate);
    return choice;
}

}  // namespace ccatune
