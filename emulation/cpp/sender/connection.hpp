// SPDX-License-Identifier: MIT
// This part of a sender keeps its state and draws conclusions, but transmits nothing.
// It processes ACKs, detects losses, begins and ends loss episodes, and notifies the algorithm.
// sender.hpp describes how the parts work together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "algorithms/algorithm.hpp"
#include "common/packet.hpp"
#include "common/time.hpp"
#include "sender/cwnd_usage.hpp"
#include "sender/loss_probe.hpp"
#include "sender/pacer.hpp"
#include "sender/rack.hpp"
#include "sender/rate_sample.hpp"
#include "sender/rto.hpp"
#include "sender/scoreboard.hpp"
#include "sender/undo.hpp"

namespace ccatune {

struct SenderCounters {
    std::uint64_t sent = 0;
    std::uint64_t retransmitted = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t undone = 0;  // loss episodes found spurious and undone
    std::uint64_t probes = 0;

    SenderCounters operator-(const SenderCounters& before) const {
        return {sent - before.sent, retransmitted - before.retransmitted, timeouts - before.timeouts,
                undone - before.undone, probes - before.probes};
    }
};

class Connection {
public:
    const Algorithm& algorithm() const { return *algorithm_; }
    const SenderCounters& counters() const { return counters_; }
    const Scoreboard& scoreboard() const { return board_; }
    std::uint32_t in_flight() const { return board_.in_flight(); }
    std::uint32_t acked_pkts() const { return board_.una(); }
    // That the application has given it so far; kNoNumber: data without end.
    std::uint32_t size_pkts() const { return size_pkts_; }
    bool is_complete() const { return board_.una() == size_pkts_; }
    Duration last_rtt() const { return Duration::from_us(last_rtt_us_); }
    // RFC 6298; 0 if there is no sample.
    Duration smoothed_rtt() const { return Duration::from_us(rto_.srtt_us()); }

protected:
    Connection(std::uint32_t flow, std::unique_ptr<Algorithm> algorithm, std::uint32_t size_pkts)
        : flow_(flow), algorithm_(std::move(algorithm)), size_pkts_(size_pkts) {}

    enum class State : std::uint8_t { open, recovery, loss };
    enum class Timer : std::uint8_t { none, timeout, probe, reorder };

    // The segments that one ACK newly delivered.
    struct Delivery {
        Segment newest;                    // the one that was transmitted last
        std::uint32_t pkts = 0;
        std::uint32_t oldest_sent_us = 0;  // send times of segments that were sent only once;
        std::uint32_t newest_sent_us = 0;
        bool has_originals = false;        // without originals, both times are invalid
        bool shows_forward = false;
    };

    // --- receiving --------------------------------------------------------------

    Delivery take(std::uint32_t now_us, const Ack& ack) {
        Delivery delivery;
        rack_.begin_ack();
        // The echo of an ACK with a hole belongs to a segment before the hole, so it says nothing about the blocks.
        // The echo of an ACK that advances belongs to the segment that advanced it.
        const auto beyond_hole = [&](const Segment& segment, std::uint32_t seq) {
            take_segment(now_us, segment, seq, kNoNumber, &delivery);
        };
        for (std::uint32_t i = 0; i < ack.block_count; ++i) board_.take_block(ack.blocks[i], beyond_hole);
        board_.take_cumulative(ack.cumulative, [&](const Segment& segment, std::uint32_t seq) {
            take_segment(now_us, segment, seq, ack.echo_tx, &delivery);
        });
        // The sum saturates.
        // The receiver never withdraws a window that it offered.
        const std::uint32_t room = kNoNumber - ack.cumulative;
        window_end_ = std::max(window_end_, ack.cumulative + std::min(ack.window_pkts, room));
        return delivery;
    }

    void take_segment(std::uint32_t now_us, const Segment& segment, std::uint32_t seq, std::uint32_t echo_tx,
                      Delivery* delivery) {
        if (delivery->pkts++ == 0 || segment.tx > delivery->newest.tx) delivery->newest = segment;
        bool is_known = true;
        if (!segment.retransmitted) {
            take_original(segment, delivery);
        } else {
            // An older echo shows that an earlier transmission arrived (RFC 8985 section 6.2).
            // So does an ACK that comes sooner than the minimum RTT.
            is_known = echo_tx >= segment.tx && now_us - segment.sent_us >= rto_.min_rtt_us();
        }
        rack_.deliver(segment, seq, now_us, is_known);
    }

    void take_original(const Segment& segment, Delivery* delivery) {
        if (!delivery->has_originals) {
            delivery->has_originals = true;
            delivery->oldest_sent_us = delivery->newest_sent_us = segment.sent_us;
        } else if (static_cast<std::int32_t>(segment.sent_us - delivery->newest_sent_us) > 0) {
            delivery->newest_sent_us = segment.sent_us;
        } else if (static_cast<std::int32_t>(segment.sent_us - delivery->oldest_sent_us) < 0) {
            delivery->oldest_sent_us = segment.sent_us;
        }
        delivery->shows_forward |= undo_.shows_forward(segment.tx);
    }

    // Only segments that were sent once give samples (RFC 6298 section 3).
    // The timeout uses the oldest one, the algorithm the newest one.
    // If all were retransmitted, the timestamp echo gives the send time (RFC 7323 section 4.1).
    void sample(std::uint32_t now_us, const Ack& ack, const Delivery& delivery, bool advanced, cca_ack* report) {
        if (delivery.has_originals || (advanced && delivery.pkts)) {
            const std::uint32_t oldest_us = delivery.has_originals ? delivery.oldest_sent_us : ack.echo_us;
            const std::uint32_t newest_us = delivery.has_originals ? delivery.newest_sent_us : ack.echo_us;
            const bool round_over = board_.una() > rtt_round_end_;
            if (round_over) rtt_round_end_ = board_.next();
            rto_.sample(now_us - oldest_us, round_over);
            last_rtt_us_ = std::max(now_us - newest_us, 1u);
            report->rtt_us = last_rtt_us_;
        }
        if (delivery.pkts) rates_.sample(now_us, delivery.pkts, delivery.newest, rto_.min_rtt_us(), report);
        if (report->rate_interval_us) {
            report->tx_inflight_pkts = delivery.newest.tx_inflight_pkts;
            lost_base_pkts_ = delivery.newest.lost_before_pkts;
        }
        if (advanced) rto_.progressed();
    }

    void report_ack(Instant now, bool advanced, cca_ack* report) {
        report->now_us = now.us();
        report->lost_pkts += unreported_lost_pkts_;
        unreported_lost_pkts_ = 0;
        report->inflight_pkts = board_.in_flight();
        report->delivered_pkts = rates_.delivered_pkts();
        if (report->tx_inflight_pkts) report->lost_since_pkts = board_.lost_total() - lost_base_pkts_;
        report->cwnd_pkts = algorithm_->decision().cwnd_pkts;
        report->mss_bytes = kMssBytes;
        report->cwnd_limited = usage_.is_limited(report->cwnd_pkts, algorithm_->is_in_slow_start());
        algorithm_->host.advanced = advanced;
        algorithm_->host.waiting_pkts = waiting_pkts();
        algorithm_->on_ack(*report);
    }

    // Returns the segments that are still to be acknowledged; kNoNumber: without end.
    // After stop() unsent data does not count, because it is never sent.
    std::uint32_t waiting_pkts() const {
        if (!running_) return board_.next() - board_.una();
        return size_pkts_ == kNoNumber ? kNoNumber : size_pkts_ - board_.una();
    }

    // --- losses -----------------------------------------------------------------

    std::uint32_t reorder_window_us() const {
        return rack_.window_us(board_, state_ != State::open, rto_.min_rtt_us(), rto_.srtt_us());
    }

    // If a retransmission is lost after a timeout, a recovery begins:
    // this loss is a new sign of congestion (RFC 5681 section 4.3).
    // Without the recovery, slow start would continue although the path still drops packets.
    std::uint32_t detect_losses(Instant now) {
        std::uint32_t lost_pkts = 0;
        bool lost_again = false;
        reorder_wait_us_ = rack_.detect(board_, low_us(now), reorder_window_us(), [&](std::uint32_t seq) {
            lost_again |= board_[seq].retransmitted;
            lose(now, seq);
            ++lost_pkts;
        });
        if (lost_pkts && (state_ == State::open || (state_ == State::loss && lost_again))) {
            begin_episode(State::recovery);
            notify(CCA_RECOVERY_ENTERED, now);
        }
        return lost_pkts;
    }

    void lose(Instant now, std::uint32_t seq) {
        board_.lose(seq);
        const Segment& segment = board_[seq];
        algorithm_->on_loss({now.us(), rates_.delivered_pkts(), segment.tx_inflight_pkts,
                             board_.lost_total() - segment.lost_before_pkts, segment.app_limited});
    }

    void begin_episode(State state) {
        if (state_ == State::open || state == State::recovery)
            undo_.begin(board_.una(), board_.next(), rack_.first_again(board_));
        state_ = state;
        episode_end_ = board_.next();
        probe_.forget();
    }

    // A segment that was sent during an episode and lost is a new sign of congestion (RFC 5681 section 4.3).
    // So if one remains, a new recovery begins as soon as this episode ends.
    void leave_episode(Instant now) {
        const bool was_recovery = state_ == State::recovery;
        const bool goes_on = board_.has_unrepaired();
        const bool is_seen = !goes_on || !algorithm_->looks_with_acks();
        state_ = State::open;
        rack_.leave_recovery();
        undo_.left();
        if (is_seen) notify(CCA_RECOVERY_LEFT, now);
        if (!goes_on) return;
        begin_episode(State::recovery);
        if (is_seen || !was_recovery) notify(CCA_RECOVERY_ENTERED, now);
    }

    // A loss that the probe repaired is a sign of congestion too, although it needed no recovery.
    void answer_probed_loss(Instant now) {
        notify(CCA_RECOVERY_ENTERED, now);
        notify(CCA_RECOVERY_LEFT, now);
    }

    bool is_spurious(const Ack& ack, const Delivery& delivery, bool advanced) {
        bool repeated = false;
        if (ack.duplicate != kNoNumber) {
            rack_.take_duplicate(board_.una(), board_.next());
            repeated = undo_.take_duplicate(ack.duplicate);
        }
        if (state_ == State::open) return repeated;
        if (state_ == State::loss && delivery.shows_forward) return true;
        return repeated || (advanced && undo_.shows_original(ack.echo_tx));
    }

    void undo_recovery(Instant now) {
        ++counters_.undone;
        // A spurious timeout shows that segments were late, not that they were reordered.
        if (state_ != State::loss) rack_.see_reordering();
        board_.find_all();
        rack_.forget_judgements(board_);
        undo_.end();
        state_ = State::open;
        rto_.progressed();
        notify(CCA_UNDO, now);
    }

    void lose_overdue(Instant now) {
        const std::uint32_t now_us = low_us(now), window_us = reorder_window_us();
        for (std::uint32_t seq = board_.una(); seq != board_.next(); ++seq) {
            const Segment& segment = board_[seq];
            if (segment.arrived || segment.lost) continue;
            if (seq == board_.una() || rack_.is_overdue(segment, now_us, window_us)) lose(now, seq);
        }
    }

    void notify(cca_event_kind kind, Instant now) {
        cca_event event{};
        event.kind = kind;
        event.now_us = now.us();
        event.inflight_pkts = board_.in_flight();
        event.cwnd_pkts = algorithm_->decision().cwnd_pkts;
        event.mss_bytes = kMssBytes;
        algorithm_->on_event(event);
    }

    std::uint32_t flow_;
    State state_ = State::open;
    Timer timer_ = Timer::none;
    bool running_ = false, waits_for_pacing_ = false;
    std::unique_ptr<Algorithm> algorithm_;
    Instant wake_at_ = Instant::never();   // never after timer_at_
    Instant timer_at_ = Instant::never();
    Pacer pacer_;
    Scoreboard board_;
    RateSampler rates_;
    RtoEstimator rto_;
    CwndUsage usage_;
    LossProbe probe_;
    std::uint32_t size_pkts_;
    std::uint32_t window_end_ = kNoNumber;   // first segment beyond the receiver's window
    std::uint32_t next_tx_ = 0;
    std::uint32_t last_rtt_us_ = 0;
    std::uint32_t rtt_round_end_ = 0;        // ends the round trip over which RTTVAR is taken
    std::uint32_t reorder_wait_us_ = 0;      // time until the next unacknowledged segment counts as lost; 0: there is none
    std::uint32_t unreported_lost_pkts_ = 0;     // losses found by a timer, not yet reported to the algorithm
    std::uint32_t episode_end_ = 0;          // the episode ends when all below is acknowledged
    std::uint32_t lost_base_pkts_ = 0;       // total losses when the sampled segment was sent
    std::uint32_t used_pkts_ = 0;            // maximum outstanding since used_at_
    Instant used_at_{}, last_sent_at_{};
    SenderCounters counters_;
    Rack rack_;
    Undo undo_;
};

}  // namespace ccatune
