// SPDX-License-Identifier: MIT
// The receiver of a flow.
// The timing of its ACKs follows Linux.
//
//   at once   The first 16 segments, and 16 after a duplicate or a silence (quick ACKs).
//             A silence is longer than the receiver's own retransmission timeout.
//             The receiver sends no data, so only the handshake has given it an RTT.
//             Each segment that is out of order, fills a hole, or is a duplicate (RFC 5681 section 4.2).
//             The ACK reports a duplicate by DSACK (RFC 2883).
//             The last segment of a transfer, because it is shorter than the others:
//             Linux acknowledges a short segment as soon as the application has read it.
//   else      Every `ack_every` segments, or after a delay.
//             The delay is `delay` at first.
//             It grows if the gap between two segments is more than half of `delay` and less than the delay:
//             the new delay is half of the old one plus the gap, up to 200 ms.
//             Shorter gaps bring it back to `delay`.
//   stretch   segments that arrive within `burst_gap` of each other form a burst, as GRO merges them:
//             one ACK for up to `burst_pkts` segments (1: off)
//   window    what the window (receive_window.hpp) and the free buffer allow.
//             The application reads at once, unless it is a proxy, which reads as the other side takes data.
//             An ACK without a segment reports that a read at least doubled the window (Linux, tcp_cleanup_rbuf).
//   echo      the segment that was expected next at the last ACK;
//             with delayed ACKs this is the earlier one (RFC 7323 section 4.3)
//   blocks    the range with the newest segment, then the ranges reported before
//
// Sources for Linux: Sarolahti, Kuznetsov 2002, section 3; RFC 1122 4.2.3.2.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "common/packet.hpp"
#include "common/time.hpp"
#include "receiver/arrivals.hpp"
#include "receiver/receive_window.hpp"
#include "sender/rto.hpp"

namespace ccatune {

struct ReceiverConfig {
    std::uint32_t ack_every = 2;
    Duration delay = Duration::from_ms(40);
    std::uint32_t quick_acks = 16;
    std::uint32_t burst_pkts = 1;
    Duration burst_gap = Duration::from_us(50);
    std::uint32_t window_pkts = 1u << 30;
    bool autotune = false;
    std::optional<std::uint32_t> buffer_pkts;  // of a proxy, for data that it has not sent on
};

class Receiver {
public:
    explicit Receiver(const ReceiverConfig& config)
        : config_(config), window_(config.window_pkts, config.autotune), delay_(config.delay), quick_(config.quick_acks) {}

    // The connection is established.
    void start(Duration handshake_rtt) {
        RtoEstimator rto;
        rto.sample(static_cast<std::uint32_t>(handshake_rtt.us()), false);
        timeout_ = rto.timeout();
    }

    Instant timer_at() const { return unacked_ ? deadline_ : Instant::never(); }
    std::uint32_t in_order() const { return arrivals_.next(); }
    std::uint32_t window_pkts() const {
        return config_.buffer_pkts ? std::min(window_.pkts(), *config_.buffer_pkts - buffered_pkts()) : window_.pkts();
    }
    // Segments in order that the application has not read.
    std::uint32_t buffered_pkts() const { return arrivals_.next() - read_; }

    // The proxy has no more need of the segments below `next`.
    // Returns true if an ACK must report the window.
    bool read(std::uint32_t next, Ack* ack) {
        read_ = next;
        const std::uint32_t left = offered_end_ - arrivals_.next(), pkts = window_pkts();
        return pkts != 0 && pkts >= 2 * left && flush(ack);
    }

    // Returns true if the ACK must be sent.
    bool take(Instant now, const Packet& packet, Ack* ack) {
        const bool had_hole = arrivals_.has_hole();
        const bool in_order = packet.seq == arrivals_.next();
        const bool is_new = arrivals_.add(packet.seq);
        echo(packet);
        if (is_new) {
            window_.take(now, arrivals_.next());
            adapt(now);
        } else {
            duplicate_ = packet.seq;
            quick_ = config_.quick_acks;
        }
        if (!in_order && is_new) remember(packet.seq);
        ++unacked_;
        if (!in_order || had_hole || quick_ != 0 || packet.ends_transfer) return flush(ack);
        return ends_delay(now) && flush(ack);
    }

    // Fills in the ACK that is due.
    // The simulation calls this when the timer ends a delay or a burst.
    bool flush(Ack* ack) {
        const std::uint32_t next = arrivals_.next();
        ack->cumulative = acked_ = next;
        ack->window_pkts = window_pkts();
        offered_end_ = next + ack->window_pkts;
        ack->echo_tx = echo_tx_;
        ack->echo_us = echo_us_;
        ack->duplicate = duplicate_;
        ack->block_count = 0;
        if (arrivals_.has_hole()) put_blocks(ack);
        duplicate_ = kNoNumber;
        unacked_ = 0;
        if (quick_) --quick_;
        return true;
    }

private:
    static constexpr Duration kMaxDelay = Duration::from_ms(200);

    void echo(const Packet& packet) {
        if (packet.seq > acked_ || packet.tx < echo_tx_) return;
        echo_tx_ = packet.tx;
        echo_us_ = packet.sent_us;
    }

    void adapt(Instant now) {
        const Duration gap = now - last_at_;
        last_at_ = now;
        const Duration least = config_.delay;
        if (gap.ns <= least.ns / 2) {
            if (delay_ != least) delay_ = std::max(Duration{delay_.ns / 2} + Duration{least.ns / 2}, least);
        } else if (gap < delay_) {
            delay_ = std::clamp(Duration{delay_.ns / 2} + gap, least, std::max(least, kMaxDelay));
        } else if (gap > timeout_) {
            quick_ = config_.quick_acks;
        }
    }

    // An ordinary segment in order has arrived.
    // Returns true if its ACK is due.
    bool ends_delay(Instant now) {
        if (unacked_ == 1) deadline_ = now + delay_;
        if (unacked_ < config_.ack_every) return false;
        if (unacked_ >= config_.burst_pkts) return true;
        deadline_ = now + config_.burst_gap;
        return false;
    }

    // The newest segment comes first.
    // A number stands for the range that holds it now, and each range is listed once.
    void remember(std::uint32_t seq) {
        const std::uint32_t first = arrivals_.around(seq).first;
        std::size_t i = 0;
        while (i + 1 < recent_.size() && arrivals_.around(recent_[i]).first != first) ++i;
        for (; i > 0; --i) recent_[i] = recent_[i - 1];
        recent_[0] = seq;
    }

    void put_blocks(Ack* ack) {
        for (const std::uint32_t seq : recent_) {
            if (seq == kNoNumber || seq < arrivals_.next()) continue;
            const SeqRange range = arrivals_.around(seq);
            bool is_new = true;
            for (std::uint32_t i = 0; i < ack->block_count; ++i) is_new &= ack->blocks[i].first != range.first;
            if (is_new && range.last != range.first) ack->blocks[ack->block_count++] = range;
        }
    }

    ReceiverConfig config_;
    Arrivals arrivals_;
    ReceiveWindow window_;
    std::array<std::uint32_t, kMaxSackBlocks> recent_{kNoNumber, kNoNumber, kNoNumber};
    Duration delay_;  // delay of the next delayed ACK
    Duration timeout_ = RtoEstimator{}.timeout();
    Instant deadline_{}, last_at_{};
    std::uint32_t acked_ = 0;  // the number that the last ACK carried
    std::uint32_t unacked_ = 0, quick_;
    std::uint32_t read_ = 0, offered_end_ = 0;  // of a proxy
    std::uint32_t echo_tx_ = 0, echo_us_ = 0;
    std::uint32_t duplicate_ = kNoNumber;
};

}  // namespace ccatune
