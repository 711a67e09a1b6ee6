// SPDX-License-Identifier: MIT
// A video player: it requests one chunk after the other, plays them, and stalls when it has none.
//
//   buffer at a request   the playing time of received chunks that is still unplayed
//   buffer on arrival     (buffer - download time)+ + one chunk; never above most_buffer
//   rebuffering           (download time - buffer)+; none for the first chunk, which is the start-up
//
// Playing begins with the first chunk, and ends when all chunks have been played.
// From the start on, start-up + rebuffering + time played = time elapsed, at every moment.
//
// All times are times at the sender.
// The player sends a request when the last byte of the previous chunk has arrived, or later when there is room again.
// The request takes the way of that byte's ACK.
// So the data of a chunk follows its request after the rest of a round trip.
// The player measures the time from request to last byte.
// The sender sees the same time from the start of a chunk to its last ACK.
// Both ends of that time are later at the sender by the same amount.
//
// A page, if there is one, is fetched first.
// It is neither played nor measured.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/time.hpp"
#include "video/video.hpp"

namespace ccatune {

struct ChunkResult {
    std::uint32_t bitrate_kbps = 0, size_bytes = 0;
    Instant start{};
    Instant complete = Instant::never();
    Duration rebuffer{};
    Duration buffer{};  // after this chunk arrived
};

class Player {
public:
    explicit Player(std::shared_ptr<const Video> video)
        : video_(std::move(video)), has_page_(video_->page_bytes == 0), bitrate_(video_->first) {}

    // The next request arrives.
    // Returns how many bytes it requests.
    std::uint32_t begin(Instant now) {
        buffer_ = buffer_ - std::min(now - at_, buffer_);
        at_ = now;
        if (!has_page_) return video_->page_bytes;
        const auto number = static_cast<std::uint32_t>(chunks_.size());
        chunks_.push_back({.bitrate_kbps = video_->bitrates_kbps[bitrate_],
                           .size_bytes = video_->size_bytes(number, bitrate_),
                           .start = now});
        return chunks_.back().size_bytes;
    }

    // The connection starts now, and with it the first request, whose time was only planned so far.
    void starts(Instant now) {
        at_ = now;
        if (!chunks_.empty()) chunks_.back().start = now;
    }

    // All bytes of the request have arrived.
    // Returns when the next request arrives; never after the last one.
    Instant complete(Instant now) {
        const Duration took = now - at_;
        at_ = now;
        if (!has_page_) {
            has_page_ = true;
            return now;
        }
        ChunkResult& chunk = chunks_.back();
        chunk.complete = now;
        if (chunks_.size() > 1) chunk.rebuffer = std::max(took - buffer_, Duration{});
        buffer_ = std::max(buffer_ - took, Duration{}) + video_->chunk;
        chunk.buffer = buffer_;
        measured_mbps_.push_back(chunk.size_bytes * 8e-6 / std::max(took, Duration{1}).s());
        if (is_over()) return Instant::never();
        const auto number = static_cast<std::uint32_t>(chunks_.size());
        const Choice choice = choose(*video_, {number, buffer_, bitrate_, measured_mbps_});
        bitrate_ = choice.bitrate;
        return now + std::max(buffer_ - choice.wait_for, Duration{});
    }

    bool is_over() const {
        return chunks_.size() == video_->chunks() && chunks_.back().complete != Instant::never();
    }

    const std::vector<ChunkResult>& chunks() const { return chunks_; }

private:
    std::shared_ptr<const Video> video_;
    bool has_page_;
    std::uint32_t bitrate_;  // of the next chunk, or the one under way
    Instant at_{};           // time of the last request or arrival
    Duration buffer_{};      // at that time
    std::vector<double> measured_mbps_;
    std::vector<ChunkResult> chunks_;
};

}  // namespace ccatune
