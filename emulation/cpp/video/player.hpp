// SPDX-License-Identifier: MIT
// A player: it asks for one chunk after the other, plays them, and stands still
// when it has none.
//
//   buffer at a request   what is left of what has come, of playing time
//   buffer when it came   (buffer - download time)+ + a chunk; never above most_buffer
//   rebuffering           (download time - buffer)+; of the first chunk: none, that is the start-up
//
// Playing begins with the first chunk, and ends when all has been played. From
// the start on, start-up + rebuffering + what has been played = the time that has
// passed, at every time.
//
// Times are the sender's: a request leaves the player when the last byte of what
// came before has arrived, or when there is room again, and takes the way of that
// byte's ACK. So the data of a chunk follow its request by what is left of a
// round trip, and what the player measures, from request to last byte, is what the
// sender sees from a chunk's start to its last ACK: all of it is later there by the
// same time.
//
// A page, if there is one, is fetched first. It plays nothing, and measures nothing.
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
    Duration buffer{};  // when it was complete
};

class Player {
public:
    explicit Player(std::shared_ptr<const Video> video)
        : video_(std::move(video)), has_page_(video_->page_bytes == 0), bitrate_(video_->first) {}

    // The next request arrives: its bytes.
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

    // The first request arrives later than it was taken for: with its connection.
    void starts(Instant now) {
        at_ = now;
        if (!chunks_.empty()) chunks_.back().start = now;
    }

    // All of it has come: when the next request arrives; never behind the last.
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
    Instant at_{};           // of the last request or arrival
    Duration buffer_{};      // then
    std::vector<double> measured_mbps_;
    std::vector<ChunkResult> chunks_;
};

}  // namespace ccatune
