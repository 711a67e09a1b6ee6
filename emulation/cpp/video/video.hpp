// SPDX-License-Identifier: MIT
// A video in chunks, each available at several bitrates.
// One of these algorithms chooses the bitrate of each chunk (adaptive bitrate, ABR):
//
//   fixed        the first chunk's bitrate, always
//   bola         Spiteri, Urgaonkar, Sitaraman 2016 (bola.cpp)
//   mpc          Yin, Jindal, Sekar, Sinopoli 2015, section 4 (mpc.cpp)
//   robust_mpc   the same with a lower bound of the predicted throughput
//   fast_mpc     mpc by a table; the same source, section 5
//
// Bitrates and chunks are numbered from 0; bitrate 0 is the lowest.
// A choice depends only on what a player has seen, so it has no state, no clock and no random number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/time.hpp"

namespace ccatune {

enum class Abr : std::uint8_t { fixed, bola, mpc, robust_mpc, fast_mpc };

struct Video {
    Abr abr = Abr::fixed;
    std::vector<std::uint32_t> bitrates_kbps;  // ascending, at least one
    std::vector<std::uint32_t> sizes_bytes;    // for each chunk, its size at each bitrate
    Duration chunk{};                          // playing time of a chunk
    Duration most_buffer{};                    // limit of the buffer; at least one chunk
    std::uint32_t first = 0;                   // the bitrate of chunk 0
    std::uint32_t page_bytes = 0;              // the page with the player, fetched before chunk 0; 0: none
    double rebuffer_penalty_mbps = 4.3;        // penalty per second of stalling (Pensieve's linear QoE)
    double switch_penalty = 1;                 // penalty per Mbit/s between a chunk and the next

    std::uint32_t chunks() const { return static_cast<std::uint32_t>(sizes_bytes.size() / bitrates_kbps.size()); }
    std::uint32_t size_bytes(std::uint32_t chunk_number, std::uint32_t bitrate) const {
        return sizes_bytes[std::size_t{chunk_number} * bitrates_kbps.size() + bitrate];
    }
    double mbps(std::uint32_t bitrate) const { return bitrates_kbps[bitrate] * 1e-3; }
};

// What a player knows when it chooses the bitrate of chunk `next`, which is at least 1.
struct View {
    std::uint32_t next = 1;
    Duration buffer{};                  // playing time
    std::uint32_t last = 0;             // the bitrate of the previous chunk
    std::vector<double> measured_mbps;  // of each previous chunk: its size over the time from request to last byte
};

// wait_for: the request waits until the buffer holds at most this playing time.
struct Choice {
    std::uint32_t bitrate = 0;
    Duration wait_for{};
};

Choice choose_bola(const Video& video, const View& view);
Choice choose_mpc(const Video& video, const View& view, bool is_robust);
Choice choose_fast_mpc(const Video& video, const View& view);

// Whatever the algorithm, a chunk is requested only when there is room for all of it.
inline Duration room_at(const Video& video) { return video.most_buffer - video.chunk; }

inline Choice choose(const Video& video, const View& view) {
    switch (video.abr) {
        case Abr::bola:
            return choose_bola(video, view);
        case Abr::mpc:
            return choose_mpc(video, view, false);
        case Abr::robust_mpc:
            return choose_mpc(video, view, true);
        case Abr::fast_mpc:
            return choose_fast_mpc(video, view);
        case Abr::fixed:
            break;
    }
    return {video.first, room_at(video)};
}

}  // namespace ccatune
