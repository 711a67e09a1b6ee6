// SPDX-License-Identifier: MIT
// The segments that a receiver holds beyond a hole: ascending ranges of numbers, with a hole between any two.
// While segments arrive in order there are no ranges, and nothing is searched or stored.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/packet.hpp"

namespace ccatune {

class Arrivals {
public:
    // All segments below this number have arrived.
    std::uint32_t next() const { return next_; }
    bool has_hole() const { return !ranges_.empty(); }

    // Returns false if the segment had arrived before.
    bool add(std::uint32_t seq) {
        if (seq < next_) return false;
        if (seq == next_) {
            ++next_;
            if (!ranges_.empty()) [[unlikely]]
                join_first();
            return true;
        }
        return add_beyond(seq);
    }

    // Returns the range that holds `seq`, a number beyond the hole; an empty range if none does.
    SeqRange around(std::uint32_t seq) const {
        const auto after = above(seq);
        if (after == ranges_.begin() || (after - 1)->last <= seq) return {0, 0};
        return *(after - 1);
    }

private:
    std::vector<SeqRange>::const_iterator above(std::uint32_t seq) const {
        return std::upper_bound(ranges_.begin(), ranges_.end(), seq,
                                [](std::uint32_t number, const SeqRange& range) { return number < range.first; });
    }

    void join_first() {
        if (ranges_.front().first != next_) return;
        next_ = ranges_.front().last;
        ranges_.erase(ranges_.begin());
    }

    bool add_beyond(std::uint32_t seq) {
        const auto after = ranges_.begin() + (above(seq) - ranges_.begin());
        const bool has_before = after != ranges_.begin();
        if (has_before && seq < (after - 1)->last) return false;
        const bool joins_before = has_before && (after - 1)->last == seq;
        const bool joins_after = after != ranges_.end() && after->first == seq + 1;
        if (joins_before && joins_after) {
            (after - 1)->last = after->last;
            ranges_.erase(after);
        } else if (joins_before) {
            ++(after - 1)->last;
        } else if (joins_after) {
            --after->first;
        } else {
            ranges_.insert(after, {seq, seq + 1});
        }
        return true;
    }

    std::vector<SeqRange> ranges_;
    std::uint32_t next_ = 0;
};

}  // namespace ccatune
