// SPDX-License-Identifier: MIT
// The sender's record of each segment (RFC 6675, but RACK marks losses in place of DupThresh):
//
//   una                                      next
//    | arrived | in flight | lost | in flight |   not sent yet
//
//   in flight   sent, and neither arrived nor marked lost; a retransmission puts a segment in flight again
//   to repeat   lost and not yet retransmitted: the lowest number goes first
//
// A SACK block that ACKs repeat costs one lookup.
// The first segment of a run of arrived segments stores the end of that run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/packet.hpp"
#include "common/ring.hpp"

namespace ccatune {

struct Segment {
    std::uint32_t sent_us;        // time of the last transmission
    std::uint32_t delivered_us;   // last delivery to the receiver when this was sent
    std::uint32_t first_sent_us;  // start of the flight in which this was sent
    union {
        std::uint32_t delivered_pkts;  // delivered by the connection when this was sent
        std::uint32_t run_end;         // once arrived: all from here up to this number have arrived
    };
    std::uint32_t tx;
    std::uint32_t tx_inflight_pkts;  // in flight when this was sent, including it
    std::uint32_t lost_before_pkts;  // lost by the connection when this was sent
    bool arrived, lost, retransmitted, app_limited;
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

    // Returns the next new segment, which is now in flight.
    Segment& send_new() {
        segments_.reserve(una_, next_);
        ++in_flight_;
        Segment& segment = segments_[next_++];
        segment = Segment{};
        return segment;
    }

    // Marks an outstanding segment as retransmitted.
    // A segment that is still in flight is counted only once.
    Segment& retransmit(std::uint32_t seq) {
        Segment& segment = segments_[seq];
        if (segment.lost) {
            segment.lost = false;
            if (--lost_count_ == 0) lost_.clear();
            ++in_flight_;
        }
        segment.retransmitted = true;
        return segment;
    }

    // Calls delivered(segment, seq) for each segment of the block that had not arrived before.
    template <class Delivered>
    void take_block(SeqRange block, Delivered&& delivered) {
        block.first = std::max(block.first, una_);  // an ACK that was overtaken may report older segments
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

    // Calls delivered(segment, seq) for each segment below `cumulative` that had not arrived before.
    // None of them is outstanding afterwards.
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

    // Returns the lowest number to retransmit.
    // There must be a lost segment.
    std::uint32_t first_lost() {
        while (!is_outstanding(lost_.front()) || !segments_[lost_.front()].lost) pop_lost();
        return lost_.front();
    }

    // Returns whether an outstanding segment is lost, or was retransmitted and has not arrived.
    bool has_unrepaired() const {
        if (has_lost()) return true;
        for (std::uint32_t seq = una_; seq != next_; ++seq)
            if (segments_[seq].retransmitted && !segments_[seq].arrived) return true;
        return false;
    }

    // Marks all lost segments as in flight again.
    void find_all() {
        for (std::uint32_t seq = una_; seq != next_; ++seq) segments_[seq].lost = false;
        in_flight_ += lost_count_;
        lost_count_ = 0;
        lost_.clear();
    }

    // Returns whether the counters agree with the marks; for the audit and for tests.
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
    std::vector<std::uint32_t> lost_;  // a heap with the lowest on top; may contain segments that are no longer lost
    std::uint32_t una_ = 0, next_ = 0;
    std::uint32_t in_flight_ = 0, sacked_ = 0, lost_count_ = 0;
    std::uint32_t lost_total_ = 0;  // a segment counts each time it is marked lost
};

}  // namespace ccatune
