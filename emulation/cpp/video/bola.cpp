// SPDX-License-Identifier: MIT
// BOLA: chooses the bitrate from the buffer level alone, by Lyapunov optimisation.
// Source: K. Spiteri, R. Urgaonkar, R. K. Sitaraman,
// "BOLA: Near-Optimal Bitrate Adaptation for Online Videos", INFOCOM 2016.
// It includes the paper's rules for videos of finite length and against oscillation (Algorithm 1, BOLA-O).
// Q is the buffer in chunks, p a chunk's playing time, S_m a chunk's size, v_m = ln(S_m / S_0) its utility:
//
//   score(m) = (V (v_m + gamma p) - Q) / S_m            the highest score wins
//   V = (Q_D - 1) / (v_top + gamma p)                   so that Q stays below Q_D
//   Q_D = min(Q_max, max(t / 2, 3 p) / p)               t: playing time to the nearer end of the video
//
// If this choice is above the last bitrate, the throughput r of the last chunk limits it.
// Let s be the highest bitrate that is at most r.
// If s is below the last bitrate, the last bitrate stays.
// If s is between the last bitrate and the choice, s is taken.
// The request then waits until s and the next higher bitrate have the same score:
//
//   Q = (a_s S_h - a_h S_s) / (S_h - S_s), h = s + 1, a_m = V (v_m + gamma p)
//
// gamma p is 5, as in the paper's experiments.
// Chunk sizes are nominal: bitrate times p.
#include <algorithm>
#include <cmath>

#include "video/video.hpp"

namespace ccatune {
namespace {

constexpr double kGammaP = 5;
constexpr double kLeastChunks = 3;

// Rounded to 2^-40, so that the last digit of a library's logarithm decides nothing.
double utility(const Video& video, std::uint32_t bitrate) {
    const double ratio = static_cast<double>(video.bitrates_kbps[bitrate]) / video.bitrates_kbps[0];
    return std::ldexp(std::round(std::ldexp(std::log(ratio), 40)), -40);
}

struct Bola {
    const Video& video;
    double v;

    double worth(std::uint32_t bitrate) const { return v * (utility(video, bitrate) + kGammaP); }

    std::uint32_t best(double level) const {
        std::uint32_t best = 0;
        double most = 0;
        for (std::uint32_t m = 0; m < video.bitrates_kbps.size(); ++m) {
            const double score = (worth(m) - level) / video.bitrates_kbps[m];
            if (m > 0 && score <= most) continue;
            best = m;
            most = score;
        }
        return best;
    }

    // Returns the highest level at which a bitrate, except the top one, scores no less than the next higher bitrate.
    double last_level(std::uint32_t bitrate) const {
        const double own = video.bitrates_kbps[bitrate], higher = video.bitrates_kbps[bitrate + 1];
        return (worth(bitrate) * higher - worth(bitrate + 1) * own) / (higher - own);
    }
};

std::uint32_t sustained(const Video& video, double mbps) {
    std::uint32_t bitrate = 0;
    while (bitrate + 1 < video.bitrates_kbps.size() && video.mbps(bitrate + 1) <= mbps) ++bitrate;
    return bitrate;
}

}  // namespace

Choice choose_bola(const Video& video, const View& view) {
    const double p = video.chunk.s();
    const auto top = static_cast<std::uint32_t>(video.bitrates_kbps.size() - 1);
    const double begun_s = view.next * p - view.buffer.s(), left_s = video.chunks() * p - begun_s;
    const double most = std::min(video.most_buffer.s() / p, std::max(std::min(begun_s, left_s) / 2 / p, kLeastChunks));
    const Bola bola{video, (most - 1) / (utility(video, top) + kGammaP)};

    double wait_for = most - 1;  // in chunks
    std::uint32_t bitrate = bola.best(view.buffer.s() / p);
    if (bitrate > view.last) {
        const std::uint32_t sustains = sustained(video, view.measured_mbps.back());
        if (sustains < view.last) {
            bitrate = view.last;
        } else if (sustains < bitrate) {
            bitrate = sustains;
            wait_for = std::min(wait_for, std::max(bola.last_level(sustains), 0.0));
        }
    }
    return {bitrate, std::min(Duration::from_s(wait_for * p), room_at(video))};
}

}  // namespace ccatune
