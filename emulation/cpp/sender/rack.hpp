// SPDX-License-Identifier: MIT
// RACK (RFC 8985 section 6).
// A segment is lost if a later one was delivered, and a reordering window has passed since its own ACK was due:
//
//   lost when   sent + RACK.rtt + reo_wnd <= now
//   reo_wnd     0 if no reordering was seen and either a recovery is under way or three segments arrived out of order;
//               else min(mult x min RTT / 4, SRTT)
//   mult        1 at first; one more for each round trip in which a DSACK reported a needless retransmission;
//               1 again after 16 recoveries
//
// Originals are examined in the order of their transmission, and so are retransmissions.
// In each of the two sequences an ACK therefore examines at most one segment whose time has not come.
//
// DEVIATION: RFC 8985 sets the timer for the last segment in doubt, this code for the first one.
// ACKs that arrive in between apply the same rule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/ring.hpp"
#include "sender/scoreboard.hpp"

namespace ccatune {

class Rack {
public:
    // Segments that one ACK reports show no order, because its blocks are processed before its cumulative number.
    // deliver() compares them with the highest number before this ACK.
    void begin_ack() { shown_end_ = highest_end_; }

    // The segment `seq` arrived.
    // is_known: the latest transmission arrived, not an earlier one.
    void deliver(const Segment& segment, std::uint32_t seq, std::uint32_t now_us, bool is_known) {
        if (!segment.retransmitted && seq < shown_end_) reordering_seen_ = true;
        highest_end_ = std::max(highest_end_, seq + 1);
        if (!is_known || segment.tx + 1 <= newest_end_tx_) return;
        newest_end_tx_ = segment.tx + 1;
        rtt_us_ = now_us - segment.sent_us;
    }

    // Call when a recovery was spurious: the segment that started it had only been overtaken.
    void see_reordering() { reordering_seen_ = true; }

    void retransmitted(std::uint32_t tx, std::uint32_t seq) { again_.push({tx, seq}); }

    // A DSACK arrived.
    // The next round trip begins when all that is outstanding now is acknowledged.
    void take_duplicate(std::uint32_t una, std::uint32_t next) {
        if (una < duplicate_round_end_) return;
        duplicate_round_end_ = next;
        multiple_ = std::min(multiple_ + 1, kMaxMultiple);
        persist_ = kPersistRecoveries;
    }

    void leave_recovery() {
        if (persist_ && --persist_ == 0) multiple_ = 1;
    }

    // Calls lose(seq) for each lost segment.
    // Returns the time in us until the next one would be lost; 0: none in doubt.
    template <class Lose>
    std::uint32_t detect(const Scoreboard& board, std::uint32_t now_us, std::uint32_t window_us, Lose&& lose) {
        const std::uint32_t limit_us = rtt_us_ + window_us;
        std::uint32_t wait_us = judge_originals(board, now_us, limit_us, lose);
        if (!again_.empty()) {
            const std::uint32_t second_us = judge_again(board, now_us, limit_us, lose);
            if (second_us && (!wait_us || second_us < wait_us)) wait_us = second_us;
        }
        return wait_us;
    }

    std::uint32_t window_us(const Scoreboard& board, bool in_recovery, std::uint32_t min_rtt_us,
                            std::uint32_t srtt_us) const {
        if (!reordering_seen_ && (in_recovery || board.sacked() >= kDupThresh)) return 0;
        const std::uint64_t wide_us = std::uint64_t{multiple_} * min_rtt_us / 4;
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(wide_us, srtt_us));
    }

    // Returns the oldest transmission of a retransmitted segment that may still be in flight; kNoNumber: there is none.
    std::uint32_t first_again(const Scoreboard& board) {
        for (; !again_.empty(); again_.pop()) {
            const auto [tx, seq] = again_.front();
            if (board.is_outstanding(seq) && board[seq].tx == tx && !board[seq].arrived && !board[seq].lost) return tx;
        }
        return kNoNumber;
    }

    // On a timeout a segment is lost by its age alone (RFC 8985 section 6.3).
    bool is_overdue(const Segment& segment, std::uint32_t now_us, std::uint32_t window_us) const {
        return now_us - segment.sent_us >= rtt_us_ + window_us;
    }

    // All lost segments are in flight again, so they are to be examined again.
    void forget_judgements(const Scoreboard& board) {
        judged_ = board.una();
        std::vector<Transmission> flying;
        for (std::uint32_t seq = board.una(); seq != board.next(); ++seq)
            if (board[seq].retransmitted && !board[seq].arrived) flying.push_back({board[seq].tx, seq});
        std::sort(flying.begin(), flying.end(), [](const auto& a, const auto& b) { return a.tx < b.tx; });
        again_.clear();
        for (const Transmission& transmission : flying) again_.push(transmission);
    }

private:
    static constexpr std::uint32_t kDupThresh = 3;
    static constexpr std::uint32_t kMaxMultiple = 255;
    static constexpr std::uint32_t kPersistRecoveries = 16;

    struct Transmission {
        std::uint32_t tx, seq;
    };

    // Returns the time until the segment is lost; 0: it is lost now.
    static std::uint32_t wait_us(const Segment& segment, std::uint32_t now_us, std::uint32_t limit_us) {
        const std::uint32_t age_us = now_us - segment.sent_us;
        return age_us >= limit_us ? 0 : limit_us - age_us;
    }

    template <class Lose>
    std::uint32_t judge_originals(const Scoreboard& board, std::uint32_t now_us, std::uint32_t limit_us, Lose& lose) {
        for (judged_ = std::max(judged_, board.una()); judged_ != board.next(); ++judged_) {
            const Segment& segment = board[judged_];
            if (segment.arrived || segment.lost || segment.retransmitted) continue;
            if (segment.tx + 1 >= newest_end_tx_) return 0;
            if (const std::uint32_t us = wait_us(segment, now_us, limit_us)) return us;
            lose(judged_);
        }
        return 0;
    }

    template <class Lose>
    std::uint32_t judge_again(const Scoreboard& board, std::uint32_t now_us, std::uint32_t limit_us, Lose& lose) {
        for (; !again_.empty(); again_.pop()) {
            const auto [tx, seq] = again_.front();
            if (!board.is_outstanding(seq)) continue;
            const Segment& segment = board[seq];
            if (segment.arrived || segment.lost || segment.tx != tx) continue;
            if (tx + 1 >= newest_end_tx_) return 0;
            if (const std::uint32_t us = wait_us(segment, now_us, limit_us)) return us;
            lose(seq);
        }
        return 0;
    }

    Fifo<Transmission> again_{8};       // retransmissions that are still to be examined
    std::uint32_t judged_ = 0;          // originals below this number have been examined
    std::uint32_t newest_end_tx_ = 0;   // one beyond the newest transmission delivered
    std::uint32_t rtt_us_ = 0;          // RTT of that transmission
    std::uint32_t highest_end_ = 0;     // one beyond the highest sequence number delivered
    std::uint32_t shown_end_ = 0;       // highest_end_ before the current ACK
    std::uint32_t duplicate_round_end_ = 0;
    std::uint32_t multiple_ = 1, persist_ = 0;
    bool reordering_seen_ = false;
};

}  // namespace ccatune
