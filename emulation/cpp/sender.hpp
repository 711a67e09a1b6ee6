// SPDX-License-Identifier: MIT
// A bulk TCP sender, in whole segments: correct under loss, not yet Linux's to
// the letter. What it keeps of TCP:
//
//   loss detection  a transmission is lost once one that was sent at least three
//                   later was delivered; ordered by transmission, so that lost
//                   retransmissions are found too (RFC 8985 with a reordering
//                   window in segments)
//   timeout         rto.hpp; everything in flight is then taken for lost
//   undo            the ACK of an original that was taken for lost by a timeout
//                   takes that back (RFC 4015, told apart as by timestamps)
//   pacing          in pairs, as Linux sends at least two segments at a time
//                   (tcp_min_tso_segs): single ones, each waiting for the delayed
//                   ACK, would show a slow flow a round trip 40 ms too long
//   RTT             of the very transmission that an ACK answers, as timestamps tell
//                   (RFC 7323): an original that arrives behind a timeout counts,
//                   or the timeouts would never learn how long the path has become
//   delivery rate   samples with Linux's meaning: the longer of the send and the
//                   ACK interval, none when that is below the least RTT
//
// The seam to the rest of the engine: start(), supply(), on_ack(), on_timer(),
// timer_at() and the packets it hands to `send`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "algorithm.hpp"
#include "link.hpp"
#include "packet.hpp"
#include "ring.hpp"
#include "rto.hpp"
#include "time.hpp"

namespace ccatune {

struct SenderCounters {
    std::uint64_t sent = 0;
    std::uint64_t retransmitted = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t undone = 0;

    SenderCounters operator-(const SenderCounters& before) const {
        return {sent - before.sent, retransmitted - before.retransmitted, timeouts - before.timeouts,
                undone - before.undone};
    }
};

class Sender {
public:
    // size_pkts: what the application has to send.
    Sender(std::uint32_t flow, std::unique_ptr<Algorithm> algorithm, std::uint32_t size_pkts)
        : flow_(flow), algorithm_(std::move(algorithm)), size_pkts_(size_pkts) {}

    // handshake_rtt: what the exchange of SYNs, which is not simulated, has shown.
    template <class Send>
    void start(Instant now, Duration handshake_rtt, Send&& send) {
        cca_start start{};
        start.now_us = now.us();
        start.rtt_us = static_cast<u32>(handshake_rtt.us());
        start.cwnd_pkts = kInitialWindow;
        start.mss_bytes = kMssBytes;
        rto_.sample(handshake_rtt);
        last_rtt_ = handshake_rtt;
        delivered_at_ = first_sent_at_ = now;
        next_send_ = now;
        running_ = true;
        algorithm_->start(start);
        send_what_may(now, send);
    }

    void stop() { running_ = false; }

    // The application has more: size_pkts in all from now on.
    template <class Send>
    void supply(Instant now, std::uint32_t size_pkts, Send&& send) {
        size_pkts_ = size_pkts;
        send_what_may(now, send);
    }

    // The next time at which on_timer() has something to do.
    Instant timer_at() const {
        const Instant timeout = outstanding() ? timeout_at_ : Instant::never();
        return waits_for_pacing_ ? std::min(next_send_, timeout) : timeout;
    }

    template <class Send>
    void on_timer(Instant now, Send&& send) {
        if (outstanding() && now >= timeout_at_) time_out(now);
        send_what_may(now, send);
    }

    // True: the ACK gave an RTT sample, last_rtt().
    template <class Send>
    bool on_ack(Instant now, const Ack& ack, Send&& send) {
        cca_ack report{};
        const bool undo = is_spurious(ack);
        take(now, ack, &report);
        if (undo) take_back(now);
        report.lost_pkts = detect_losses(now);
        finish(now, &report);
        send_what_may(now, send);
        return report.rtt_us != 0;
    }

    const Algorithm& algorithm() const { return *algorithm_; }
    const SenderCounters& counters() const { return counters_; }
    std::uint32_t in_flight() const { return in_flight_; }
    bool is_complete() const { return una_ == size_pkts_; }
    Duration last_rtt() const { return last_rtt_; }

private:
    static constexpr std::uint32_t kInitialWindow = 10;
    static constexpr std::uint32_t kPacingQuantum = 2;
    static constexpr std::uint32_t kReordering = 3;  // RFC 5681 DupThresh

    struct Segment {
        Instant sent_at;
        Instant delivered_at;   // of the connection, when this was sent
        Instant first_sent_at;  // of the delivery-rate interval it was sent in
        std::uint32_t delivered;
        std::uint32_t tx;
        bool arrived;
        bool lost;
        bool app_limited;
        std::uint32_t tx_inflight;  // when this was sent, itself included
        std::uint32_t lost_before;  // by then
    };
    struct Transmission {
        std::uint32_t tx;
        std::uint32_t seq;
    };

    bool outstanding() const { return next_ != una_; }

    // --- sending

    template <class Send>
    void send_what_may(Instant now, Send&& send) {
        waits_for_pacing_ = false;
        cwnd_limited_ = false;
        while (running_ || !lost_.empty()) {
            if (in_flight_ >= algorithm_->decision().cwnd_pkts) {
                cwnd_limited_ = true;
                return;
            }
            if (now < next_send_ && burst_ == 0) {
                waits_for_pacing_ = true;
                return;
            }
            if (!send_one(now, send)) return;
        }
    }

    template <class Send>
    bool send_one(Instant now, Send&& send) {
        while (!lost_.empty()) {
            const std::uint32_t seq = lost_.front();
            lost_.pop();
            if (seq - una_ >= next_ - una_ || !segments_[seq].lost) continue;
            ++counters_.retransmitted;
            transmit(now, seq, send);
            return true;
        }
        if (!running_) return false;
        if (next_ == size_pkts_) {  // samples up to here measure the application
            app_limited_until_ = std::max(delivered_ + in_flight_, 1u);
            return false;
        }
        segments_.reserve(una_, next_);
        transmit(now, next_++, send);
        return true;
    }

    template <class Send>
    void transmit(Instant now, std::uint32_t seq, Send&& send) {
        if (in_flight_ == 0) first_sent_at_ = delivered_at_ = now;  // a new flight: its rate starts here
        // For the first segment outstanding, also when it is sent again.
        if (seq == una_) arm_timeout(now);
        segments_[seq] = {now, delivered_at_, first_sent_at_, delivered_, next_tx_, false, false, app_limited_until_ != 0,
                          in_flight_ + 1, lost_total_};
        transmissions_.push({next_tx_, seq});
        ++in_flight_;
        ++counters_.sent;
        pace(now);
        algorithm_->on_sent(1);
        send(Packet{now, seq, next_tx_++, flow_});
    }

    void pace(Instant now) {
        const std::uint64_t rate = algorithm_->decision().pacing_bytes_per_s;
        burst_ = burst_ == 0 ? kPacingQuantum - 1 : burst_ - 1;
        if (!rate) {
            next_send_ = now;
            return;
        }
        const Duration gap{static_cast<std::int64_t>(kMssBytes * 1'000'000'000ull / rate)};
        // A timer that fired late (the window was closed) earns no burst.
        next_send_ = std::max(next_send_ + gap, now);
    }

    // --- receiving

    bool is_spurious(const Ack& ack) const {
        return timeout_tx_ != kNone && ack.newest_tx < timeout_tx_ && ack.newest - una_ < next_ - una_ &&
               !segments_[ack.newest].arrived;
    }

    void take(Instant now, const Ack& ack, cca_ack* report) {
        if (ack.newest - una_ < next_ - una_ && !segments_[ack.newest].arrived) {
            const Segment& newest = segments_[ack.newest];
            last_rtt_ = now - ack.newest_sent_at;
            rto_.sample(last_rtt_);
            report->app_limited = newest.app_limited;
            report->rtt_us = static_cast<u32>(std::max<std::uint64_t>(last_rtt_.us(), 1));
            if (newest.tx == ack.newest_tx) sample_rate(now, newest, report);
        }
        if (ack.newest_tx >= highest_tx_) highest_tx_ = ack.newest_tx + 1;
        if (ack.newest - una_ < next_ - una_) arrive(ack.newest);
        std::uint32_t una = una_;
        for (; una != ack.cumulative; ++una) arrive(una);
        report->acked_pkts = arrived_now_;
        delivered_ += arrived_now_;
        if (delivered_ > app_limited_until_) app_limited_until_ = 0;
        arrived_now_ = 0;
        delivered_at_ = now;
        if (una != una_) {
            una_ = una;
            rto_.progressed();
            arm_timeout(now);
        }
    }

    void arrive(std::uint32_t seq) {
        Segment& segment = segments_[seq];
        if (segment.arrived) return;
        segment.arrived = true;
        ++arrived_now_;
        if (segment.lost)
            segment.lost = false;  // it had left the flight before
        else
            --in_flight_;
    }

    void sample_rate(Instant now, const Segment& newest, cca_ack* report) {
        const Duration sending = newest.sent_at - newest.first_sent_at;
        const Duration acking = now - newest.delivered_at;
        const Duration interval = std::max(sending, acking);
        first_sent_at_ = newest.sent_at;
        if (interval < rto_.min_rtt()) return;
        report->rate_interval_us = static_cast<u32>(interval.us());
        rate_base_ = newest.delivered;
        report->tx_inflight_pkts = newest.tx_inflight;
        lost_base_ = newest.lost_before;
    }

    std::uint32_t detect_losses(Instant now) {
        std::uint32_t lost = 0;
        while (!transmissions_.empty() && transmissions_.front().tx + kReordering < highest_tx_) {
            const Transmission oldest = transmissions_.front();
            transmissions_.pop();
            if (oldest.seq - una_ >= next_ - una_) continue;
            Segment& segment = segments_[oldest.seq];
            if (segment.arrived || segment.lost || segment.tx != oldest.tx) continue;
            lose(now, oldest.seq);
            ++lost;
        }
        if (lost && !recovering_) {
            recovering_ = true;
            recovery_end_ = next_;
            tell(CCA_RECOVERY_ENTERED, now);
        }
        return lost;
    }

    void lose(Instant now, std::uint32_t seq) {
        Segment& segment = segments_[seq];
        segment.lost = true;
        --in_flight_;
        ++lost_total_;
        lost_.push(seq);
        algorithm_->on_loss({now.us(), delivered_, segment.tx_inflight, lost_total_ - segment.lost_before,
                             segment.app_limited});
    }

    void finish(Instant now, cca_ack* report) {
        if (recovering_ && static_cast<std::int32_t>(una_ - recovery_end_) >= 0) {
            recovering_ = false;
            timeout_tx_ = kNone;
            tell(CCA_RECOVERY_LEFT, now);
        }
        if (!report->acked_pkts && !report->lost_pkts) return;
        report->now_us = now.us();
        report->inflight_pkts = in_flight_;
        report->delivered_pkts = delivered_;
        report->rate_pkts = report->rate_interval_us ? delivered_ - rate_base_ : 0;
        report->lost_since_pkts = report->tx_inflight_pkts ? lost_total_ - lost_base_ : 0;
        report->cwnd_pkts = algorithm_->decision().cwnd_pkts;
        report->mss_bytes = kMssBytes;
        report->cwnd_limited = cwnd_limited_;
        algorithm_->on_ack(*report);
    }

    // --- timeout and its undo

    void time_out(Instant now) {
        ++counters_.timeouts;
        if (timeout_tx_ == kNone) timeout_tx_ = next_tx_;
        for (std::uint32_t seq = una_; seq != next_; ++seq)
            if (!segments_[seq].arrived && !segments_[seq].lost) lose(now, seq);
        lost_.clear();
        for (std::uint32_t seq = una_; seq != next_; ++seq)
            if (segments_[seq].lost) lost_.push(seq);
        transmissions_.clear();
        recovering_ = true;
        recovery_end_ = next_;
        next_send_ = now;
        rto_.timed_out();
        arm_timeout(now);
        tell(CCA_TIMEOUT, now);
    }

    void take_back(Instant now) {
        ++counters_.undone;
        lost_.clear();
        // What was sent again meanwhile stays sent; the rest is in flight after all.
        std::vector<Transmission> flying;
        for (std::uint32_t seq = una_; seq != next_; ++seq) {
            Segment& segment = segments_[seq];
            if (segment.arrived) continue;
            if (segment.lost) ++in_flight_;
            segment.lost = false;
            flying.push_back({segment.tx, seq});
        }
        std::sort(flying.begin(), flying.end(), [](const auto& a, const auto& b) { return a.tx < b.tx; });
        transmissions_.clear();
        for (const Transmission& transmission : flying) transmissions_.push(transmission);
        timeout_tx_ = kNone;
        recovering_ = false;
        rto_.progressed();
        arm_timeout(now);
        tell(CCA_UNDO, now);
    }

    void arm_timeout(Instant now) { timeout_at_ = now + rto_.timeout(); }

    void tell(cca_event_kind kind, Instant now) {
        cca_event event{};
        event.kind = kind;
        event.now_us = now.us();
        event.inflight_pkts = in_flight_;
        event.cwnd_pkts = algorithm_->decision().cwnd_pkts;
        event.mss_bytes = kMssBytes;
        algorithm_->on_event(event);
    }

    static constexpr std::uint32_t kNone = UINT32_MAX;

    std::uint32_t flow_;
    std::unique_ptr<Algorithm> algorithm_;
    std::uint32_t size_pkts_;
    Window<Segment> segments_;              // [una_, next_)
    Fifo<Transmission> transmissions_;      // in order of sending, not yet judged
    Fifo<std::uint32_t> lost_;              // to be sent again
    std::uint32_t una_ = 0, next_ = 0, next_tx_ = 0;
    std::uint32_t highest_tx_ = 0;          // one beyond the newest transmission delivered
    std::uint32_t in_flight_ = 0, delivered_ = 0, arrived_now_ = 0, rate_base_ = 0;
    std::uint32_t lost_total_ = 0, lost_base_ = 0;  // marked lost so far; when the sampled segment was sent
    std::uint32_t timeout_tx_ = kNone;      // first transmission after a timeout not undone
    std::uint32_t recovery_end_ = 0;
    std::uint32_t app_limited_until_ = 0;   // delivered count; 0: the application keeps up
    std::uint32_t burst_ = 0;               // segments that may go with the last one
    bool running_ = false, recovering_ = false;
    bool waits_for_pacing_ = false, cwnd_limited_ = false;
    Instant next_send_{}, delivered_at_{}, first_sent_at_{}, timeout_at_ = Instant::never();
    RtoEstimator rto_;
    Duration last_rtt_{};
    SenderCounters counters_;
};

}  // namespace ccatune
