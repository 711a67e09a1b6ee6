// SPDX-License-Identifier: MIT
// What a sender knows of each segment (RFC 6675, with the marks that RACK sets
// in place of DupThresh's):
//
//   una                                      next
//    | arrived | in flight | lost | in flight |   not sent yet
//
//   in flight   sent, neither arrived nor taken for lost; a segment that is sent
//               again is in flight again
//   to resend   lost and not sent again: the lowest number goes first
//
// A block that an ACK repeats costs one look: the first segment of a run of
// arrived ones knows where the run ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/packet.hpp"
#include "common/ring.hpp"

namespace ccatune {

struct Segment {
    std::uint32_t sent_us;        // the last time
    std::uint32_t delivered_us;   // of the connection, when this was sent, and ...
    std::uint32_t first_sent_us;  // ... when the flight began that it was sent in
    union {
        std::uint32_t delivered_pkts;  // of the connection, when this was sent
        std::uint32_t run_end;         // once arrived: all before it have arrived too
    };
    std::uint32_t tx;
    std::uint32_t tx_inflight_pkts;  // when this was sent, itself among them
    std::uint32_t lost_before_pkts;  // of the connection, when this was sent
    bool arrived, lost, resent, app_limited;
};
static_assert(sizeof(Segment) == 32, "a segment in flight is what a flow's memory goes into");

class Scoreboard {
public:
    std::uint32_t una() const { return una_; }
    std::uint32_t next() const { return next_; }
    std::uint32_t in_flight() const { return in_flight_; }
    std::uint32_t sacked() const { return sacked_; }
    std::uint32_t lost() const { return lost_count_; }
    std::uint32_t lost_total() const { return lost_total_; }
    bool has_outstanding() const { return next_ != una_; }
    bool has_lost() const { return lost_count_ != 0; }
    bool is_outstanding(std::uint32_t seq) const { return seq - una_ < next_ - una_; }
    Segment& operator[](std::uint32_t seq) { return segments_[seq]; }
    const Segment& operator[](std::uint32_t seq) const { return segments_[seq]; }

    // The next new segment, in flight.
    Segment& send_new() {
        segments_.reserve(una_, next_);
        ++in_flight_;
        Segment& segment = segments_[next_++];
        segment = Segment{};
        return segment;
    }

    // An outstanding segment once more; one that is in flight is so still once.
    Segment& send_again(std::uint32_t seq) {
        Segment& segment = segments_[seq];
        if (segment.lost) {
            segment.lost = false;
            if (--lost_count_ == 0) lost_.clear();
            ++in_flight_;
        }
        segment.resent = true;
        return segment;
    }

    // Calls delivered(segment, seq) for what [first, last) shows anew.
    template <class Delivered>
    void take_block(SeqRange block, Delivered&& delivered) {
        block.first = std::max(block.first, una_);  // of an ACK that was overtaken
        if (block.first >= block.last || block.last > next_) return;
        for (std::uint32_t seq = block.first; seq < block.last;) {
            Segment& segment = segments_[seq];
            if (segment.arrived) {
                seq = segment.run_end;
                continue;
            }
            delivered(segment, seq);
            arrive(segment);
            ++sacked_;
            segment.run_end = ++seq;
        }
        Segment& first = segments_[block.first];
        first.run_end = std::max(first.run_end, block.last);
    }

    // The same for all below `cumulative`, which then are no longer outstanding.
    template <class Delivered>
    void take_cumulative(std::uint32_t cumulative, Delivered&& delivered) {
        for (; una_ < cumulative; ++una_) {
            Segment& segment = segments_[una_];
            if (segment.arrived) {
                --sacked_;
                continue;
            }
            delivered(segment, una_);
            arrive(segment);
        }
    }

    void lose(std::uint32_t seq) {
        Segment& segment = segments_[seq];
        segment.lost = true;
        --in_flight_;
        ++lost_count_;
        ++lost_total_;
        lost_.push_back(seq);
        std::push_heap(lost_.begin(), lost_.end(), std::greater<>{});
    }

    // The lowest number that is to be sent again; there is one.
    std::uint32_t first_lost() {
        while (!is_outstanding(lost_.front()) || !segments_[lost_.front()].lost) pop_lost();
        return lost_.front();
    }

    // Whether anything outstanding was lost and has not arrived since, sent again or not.
    bool has_unrepaired() const {
        if (has_lost()) return true;
        for (std::uint32_t seq = una_; seq != next_; ++seq)
            if (segments_[seq].resent && !segments_[seq].arrived) return true;
        return false;
    }

    // None was lost after all.
    void find_all() {
        for (std::uint32_t seq = una_; seq != next_; ++seq) segments_[seq].lost = false;
        in_flight_ += lost_count_;
        lost_count_ = 0;
        lost_.clear();
    }

    // Whether the counts are those of the marks; for tests.
    bool is_consistent() const {
        std::uint32_t flying = 0, lost = 0, arrived = 0;
        for (std::uint32_t seq = una_; seq != next_; ++seq) {
            const Segment& segment = segments_[seq];
            arrived += segment.arrived;
            lost += segment.lost;
            flying += !segment.arrived && !segment.lost;
            if (segment.arrived && segment.lost) return false;
        }
        return flying == in_flight_ && lost == lost_count_ && arrived == sacked_;
    }

private:
    void arrive(Segment& segment) {
        segment.arrived = true;
        if (!segment.lost) {
            --in_flight_;
            return;
        }
        segment.lost = false;
        if (--lost_count_ == 0) lost_.clear();
    }

    void pop_lost() {
        std::pop_heap(lost_.begin(), lost_.end(), std::greater<>{});
        lost_.pop_back();
    }

    Window<Segment> segments_{16};     // [una_, next_)
    std::vector<std::uint32_t> lost_;  // a heap, the lowest on top; some are lost no more
    std::uint32_t una_ = 0, next_ = 0;
    std::uint32_t in_flight_ = 0, sacked_ = 0, lost_count_ = 0;
    std::uint32_t lost_total_ = 0;  // taken for lost so far, each time anew
};

}  // namespace ccatune
