// SPDX-License-Identifier: MIT
// What a flow's application has to send: without end, or one transfer after the
// other on the same connection, each followed by an idle gap; or what a player of
// video asks for (video/player.hpp).
//
// A transfer begins when its data are handed to the sender and is complete when
// the sender has all of it acknowledged; the gap counts from there, as between a
// client that has everything and its next request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/packet.hpp"
#include "common/time.hpp"
#include "video/player.hpp"

namespace ccatune {

// `count` transfers of a size, and the gap behind each of them.
struct Transfer {
    std::uint32_t size_pkts = 0;
    Duration gap{};
    std::uint32_t count = 1;
};

struct TransferResult {
    double start_s = 0;
    double complete_s = -1;  // -1: not
    std::uint32_t size_pkts = 0;
};

class Application {
public:
    // None, and no video: data without end. The sizes' sum is below 2^32 - 1.
    explicit Application(std::vector<Transfer> transfers, std::shared_ptr<const Video> video = nullptr)
        : transfers_(std::move(transfers)) {
        if (video) player_ = std::make_unique<Player>(std::move(video));
        offered_pkts_ = has_end() ? 0 : UINT32_MAX;
    }

    // The next transfer begins: the segments that the sender has from now on, in all.
    std::uint32_t begin(Instant now) {
        if (!has_end()) return offered_pkts_;
        const std::uint32_t size_pkts = player_ ? pkts_of(player_->begin(now)) : transfers_[entry_].size_pkts;
        offered_pkts_ += size_pkts;
        busy_ = true;
        results_.push_back({now.s(), -1, size_pkts});
        return offered_pkts_;
    }

    // The first transfer begins later than it was taken for: with its connection.
    void starts(Instant now) {
        if (!results_.empty()) results_.back().start_s = now.s();
        if (player_) player_->starts(now);
    }

    bool is_busy() const { return busy_; }
    bool is_over() const { return player_ ? player_->is_over() : has_end() && entry_ == transfers_.size(); }

    // The transfer under way is complete: when the next one begins; never behind the last.
    Instant complete(Instant now) {
        results_.back().complete_s = now.s();
        busy_ = false;
        if (player_) return player_->complete(now);
        const Duration gap = transfers_[entry_].gap;
        if (++done_ == transfers_[entry_].count) {
            done_ = 0;
            ++entry_;
        }
        return is_over() ? Instant::never() : now + gap;
    }

    const std::vector<TransferResult>& results() const { return results_; }
    const Player* player() const { return player_.get(); }

private:
    static std::uint32_t pkts_of(std::uint32_t bytes) { return (bytes - 1) / kMssBytes + 1; }

    bool has_end() const { return player_ || !transfers_.empty(); }

    std::vector<Transfer> transfers_;
    std::size_t entry_ = 0;   // the one under way or next
    std::uint32_t done_ = 0;  // of its count
    std::uint32_t offered_pkts_ = 0;
    bool busy_ = false;
    std::vector<TransferResult> results_;
    std::unique_ptr<Player> player_;
};

}  // namespace ccatune
