// SPDX-License-Identifier: MIT
// The data of a flow's application.
// It is data without end, the requests of a video player (video/player.hpp), a sequence of transfers, or what a proxy
// receives from a server (proxy.hpp).
// These use the same connection, and an idle gap follows each of them.
//
// A transfer begins when its data is passed to the sender, and is complete when all of it is acknowledged.
// The gap counts from there, as between a client that has received everything and its next request.
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

// `count` transfers of one size, and the idle gap after each of them.
struct Transfer {
    std::uint32_t size_pkts = 0;
    Duration gap{};
    std::uint32_t count = 1;
};

struct TransferResult {
    double start_s = 0;
    double complete_s = -1;  // -1: not complete
    std::uint32_t size_pkts = 0;
};

class Application {
public:
    // Without transfers and a player there is data without end.
    // The sum of the sizes is below 2^32 - 1.
    // player: the connections of its video share it.
    explicit Application(std::vector<Transfer> transfers, std::shared_ptr<Player> player = nullptr,
                         bool of_proxy = false)
        : transfers_(std::move(transfers)), player_(std::move(player)) {
        offered_pkts_ = has_end() || of_proxy ? 0 : UINT32_MAX;
    }

    // Begins the next transfer.
    // Returns how many segments the sender has in total from now on.
    std::uint32_t begin(Instant now) {
        if (!has_end()) return offered_pkts_;
        const std::uint32_t size_pkts = player_ ? pkts_of(player_->begin(now)) : transfers_[entry_].size_pkts;
        offered_pkts_ += size_pkts;
        busy_ = true;
        results_.push_back({now.s(), -1, size_pkts});
        return offered_pkts_;
    }

    // The connection starts now, and with it the first transfer, whose start was only planned so far.
    void starts(Instant now) {
        if (results_.empty()) return;
        results_.back().start_s = now.s();
        if (player_) player_->starts(now);
    }

    bool is_busy() const { return busy_; }
    bool is_over() const { return player_ ? player_->is_over() : has_end() && entry_ == transfers_.size(); }

    // The current transfer is complete.
    // Returns when the next one begins; never after the last one.
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
    std::size_t entry_ = 0;   // the entry of the transfer under way, or of the next one
    std::uint32_t done_ = 0;  // transfers of this entry that are complete
    std::uint32_t offered_pkts_ = 0;
    bool busy_ = false;
    std::vector<TransferResult> results_;
    std::shared_ptr<Player> player_;
};

}  // namespace ccatune
