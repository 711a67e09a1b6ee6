// SPDX-License-Identifier: MIT
// A TCP sender that follows Linux, in whole segments.
// This file holds its actions.
// Its state, and the rules behind its decisions, have one file per concept:
//
//   connection.hpp   marks and samples of an ACK, loss episodes, notifications
//   scoreboard.hpp   which segment has arrived, is lost, is in flight (RFC 6675)
//   rack.hpp         which segment is lost: time, reordering window, DSACKs (RFC 8985)
//   loss_probe.hpp   the probe for losses at the tail, which no ACK reports (RFC 8985)
//   rto.hpp          round-trip time, timeout (RFC 6298)
//   undo.hpp         which loss episode was spurious (RFC 3522, 5682, 3708)
//   rate_sample.hpp  delivery rate, application-limited marks
//   cwnd_usage.hpp   whether cwnd limits the sender
//   pacer.hpp        bursts at the pacing rate
//   window_algorithm.hpp, prr.hpp   the host of window mode
//
//            first loss                     timeout
//   OPEN ---------------> RECOVERY ----------------------> LOSS <--+ timeout
//    ^ ^                     |  ^   a retransmission is lost |     |
//    | |                     |  +----------------------------+     |
//    | +-- all outstanding at its start is ACKed, or undone -+-----+
//    |     (a new RECOVERY begins at once if a segment sent since is lost)
//
// on_ack() takes these steps, in this order:
// delivered segments (blocks, then the cumulative number), samples, undo, end of an episode,
// losses, the algorithm, timers, sending.
// As in Linux there is one timer: a timeout, a probe, or the end of the reordering window.
//
// The rest of the engine uses start(), supply(), on_ack(), on_timer() and timer_at(), and receives packets by `send`.
//
// DEVIATION: A probe that repeats a segment in flight does not count twice as in flight.
// Probes, and the segment that a timeout retransmits, are not paced.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "sender/connection.hpp"

namespace ccatune {

class Sender : public Connection {
public:
    // size_pkts: how many segments the application has at first; kNoNumber: data without end.
    Sender(std::uint32_t flow, std::unique_ptr<Algorithm> algorithm, std::uint32_t size_pkts)
        : Connection(flow, std::move(algorithm), size_pkts) {}

    // handshake_rtt: the RTT of the exchange of SYNs, which is not simulated.
    template <class Send>
    void start(Instant now, Duration handshake_rtt, Send&& send) {
        cca_start start{};
        start.now_us = now.us();
        start.rtt_us = static_cast<u32>(handshake_rtt.us());
        start.cwnd_pkts = kInitialWindow;
        start.mss_bytes = kMssBytes;
        last_rtt_us_ = start.rtt_us;
        rto_.sample(last_rtt_us_, false);
        pacer_.restart(now);
        used_at_ = last_sent_at_ = now;
        running_ = true;
        algorithm_->start(start);
        rates_.run_dry(0);
        send_what_may(now, send);
    }

    // The window that the receiver's SYN offers.
    // Without this call the receive window never limits the sender.
    void offer_window(std::uint32_t window_pkts) { window_end_ = window_pkts; }

    void stop() { running_ = false; }

    // Call when all data that the application will ever have is acknowledged.
    void end() { algorithm_->on_end(); }

    // Returns whether a segment is outstanding or may be sent, so that a timer must be set.
    bool is_busy() const { return board_.has_outstanding() || may_send_new(); }

    // The application has more data: size_pkts in total from now on.
    // On an idle connection a new transfer begins.
    template <class Send>
    void supply(Instant now, std::uint32_t size_pkts, Send&& send) {
        const bool was_quiet = !board_.has_outstanding() && board_.next() == size_pkts_;
        if (board_.next() == size_pkts_) note_dryness();
        size_pkts_ = size_pkts;
        if (was_quiet) end_silence(now);
        send_what_may(now, send);
    }

    // Returns the next time at which on_timer() may have something to do.
    Instant timer_at() const { return waits_for_pacing_ ? std::min(pacer_.next_at(), wake_at_) : wake_at_; }

    template <class Send>
    void on_timer(Instant now, Send&& send) {
        if (now >= wake_at_) {
            if (now >= timer_at_) fire(now, send);
            wake_at_ = timer_at_;
        }
        send_what_may(now, send);
    }

    // Returns true if the ACK gave an RTT sample, last_rtt().
    template <class Send>
    bool on_ack(Instant now, const Ack& ack, Send&& send) {
        const std::uint32_t now_us = low_us(now);
        const std::uint32_t una = board_.una();
        cca_ack report{};
        const Delivery delivery = take(now_us, ack);
        const bool advanced = board_.una() != una;
        sample(now_us, ack, delivery, advanced, &report);
        if (is_spurious(ack, delivery, advanced)) undo_recovery(now);
        if (state_ != State::open && board_.una() >= episode_end_) leave_episode(now);
        if (probe_.take_ack(ack, advanced || delivery.pkts) && state_ == State::open) answer_probed_loss(now);
        report.lost_pkts = detect_losses(now);
        report.acked_pkts = delivery.pkts;
        if (report.acked_pkts || report.lost_pkts) report_ack(now, advanced, &report);
        const bool anew = advanced || shows_older(delivery);
        if (anew || reorder_wait_us_ || timer_ == Timer::reorder) set_timer(now, anew);
        send_what_may(now, send);
        return report.rtt_us != 0;
    }

private:
    static constexpr std::uint32_t kInitialWindow = 10;

    // --- sending ----------------------------------------------------------------

    bool has_new() const { return running_ && board_.next() < size_pkts_; }
    bool may_send_new() const { return has_new() && board_.next() < window_end_; }

    template <class Send>
    void send_what_may(Instant now, Send&& send) {
        const std::uint32_t next = board_.next();
        const bool was_outstanding = board_.has_outstanding();
        const std::uint32_t sent_pkts = algorithm_->host.sent_pkts;
        waits_for_pacing_ = false;
        while (board_.has_lost() || may_send_new()) {
            if (board_.in_flight() >= algorithm_->decision().cwnd_pkts) break;
            if (!pacer_.may_send(now)) {
                waits_for_pacing_ = true;
                break;
            }
            if (board_.has_lost())
                retransmit(now, board_.first_lost(), send);
            else
                send_new(now, send);
        }
        note_usage(now, algorithm_->host.sent_pkts != sent_pkts);
        if (board_.next() != next && timer_ != Timer::reorder)
            set_probe(now, !was_outstanding || timer_ == Timer::probe);
    }

    template <class Send>
    void send_new(Instant now, Send&& send) {
        if (!board_.has_outstanding()) rates_.begin_flight(low_us(now));
        const std::uint32_t seq = board_.next();
        transmit(now, board_.send_new(), seq, send);
    }

    template <class Send>
    void retransmit(Instant now, std::uint32_t seq, Send&& send) {
        ++counters_.retransmitted;
        Segment& segment = board_.retransmit(seq);
        rack_.retransmitted(next_tx_, seq);
        undo_.retransmitted(next_tx_);
        transmit(now, segment, seq, send);
        if (seq == board_.una() && timer_ != Timer::reorder) arm(Timer::timeout, now + rto_.timeout());
    }

    template <class Send>
    void transmit(Instant now, Segment& segment, std::uint32_t seq, Send&& send) {
        const std::uint32_t now_us = low_us(now);
        rates_.stamp(segment, now_us);
        segment.tx = next_tx_;
        segment.tx_inflight_pkts = board_.in_flight();
        segment.lost_before_pkts = board_.lost_total();
        ++counters_.sent;
        ++algorithm_->host.sent_pkts;
        last_sent_at_ = now;
        pacer_.sent(now, algorithm_->decision().pacing_bytes_per_s, algorithm_->least_burst_pkts(), kMssBytes);
        send(Packet{now, seq, next_tx_++, flow_, seq + 1 == size_pkts_, now_us});
    }

    // Linux notices that the application had no data only when it has data again, as its tcp_info shows.
    // Packets in flight until then measure the path and not the application, even if the repair of losses takes long.
    void note_dryness() {
        if (board_.in_flight() < algorithm_->decision().cwnd_pkts && !board_.has_lost())
            rates_.run_dry(board_.in_flight());
    }

    // Records how much of cwnd was used, and reports a cwnd that was partly unused for one RTO.
    void note_usage(Instant now, bool has_sent) {
        const bool is_full = board_.in_flight() >= algorithm_->decision().cwnd_pkts;
        if (has_sent || is_full) usage_.note(board_.una(), board_.next(), is_full);
        if (has_new() || is_full || board_.has_lost()) {
            used_at_ = now;
            used_pkts_ = 0;
            return;
        }
        if (!has_sent) return;
        used_pkts_ = std::max(used_pkts_, board_.next() - board_.una());
        if (now - used_at_ < rto_.timeout()) return;
        algorithm_->on_unused(used_pkts_);
        used_at_ = now;
        used_pkts_ = 0;
    }

    // The connection sends again with nothing in flight.
    // After one RTO of silence this is an idle restart, before that a new transfer.
    void end_silence(Instant now) {
        const Duration silence = now - last_sent_at_, timeout = rto_.timeout();
        const bool is_idle = silence >= timeout;
        if (is_idle) algorithm_->on_idle(static_cast<std::uint32_t>(std::min<std::int64_t>(silence.ns / timeout.ns, 32)));
        used_at_ = now;
        notify(is_idle ? CCA_IDLE_RESTART : CCA_TRANSFER_STARTED, now);
    }

    // --- timers -----------------------------------------------------------------

    void arm(Timer timer, Instant at) {
        timer_ = timer;
        timer_at_ = at;
        // If the time is postponed, wake_at_ stays: the early call finds nothing to do and costs the engine little.
        wake_at_ = std::min(wake_at_, at);
    }

    // Returns true if a delivered segment was sent before the last transmission of the first outstanding one.
    // The delivered segment's round trip then exceeds the age of the outstanding one.
    // So this age is no sign of a loss yet.
    bool shows_older(const Delivery& delivery) const {
        return delivery.has_originals && board_.has_outstanding() &&
               static_cast<std::int32_t>(board_[board_.una()].sent_us - delivery.oldest_sent_us) > 0;
    }

    // Call after an ACK.
    // anew: the timeout counts from now.
    void set_timer(Instant now, bool anew) {
        if (!board_.has_outstanding()) return arm(Timer::none, Instant::never());
        if (reorder_wait_us_) return arm(Timer::reorder, now + Duration::from_us(reorder_wait_us_));
        timer_ = Timer::none;
        set_probe(now, anew);
    }

    // Returns the rest of the timeout, counted from the transmission of the first outstanding segment.
    Duration rest_of_timeout(Instant now) const {
        const Duration spent = Duration::from_us(low_us(now) - board_[board_.una()].sent_us);
        return std::max(rto_.timeout() - spent, Duration::from_us(1));
    }

    // anew: the timeout counts from now; otherwise from the transmission of the first outstanding segment.
    void set_probe(Instant now, bool anew) {
        const Instant timeout_at = now + (anew ? rto_.timeout() : rest_of_timeout(now));
        const bool may_probe = state_ == State::open && !probe_.is_out() && board_.sacked() == 0;
        if (may_probe) {
            const Instant probe_at = now + LossProbe::timeout(rto_.srtt_us(), board_.in_flight());
            return arm(Timer::probe, std::min(probe_at, timeout_at));
        }
        if (anew || timer_ == Timer::none) arm(Timer::timeout, timeout_at);
    }

    template <class Send>
    void fire(Instant now, Send&& send) {
        const Timer timer = timer_;
        timer_ = Timer::none;
        timer_at_ = Instant::never();
        if (!board_.has_outstanding()) return;
        switch (timer) {
            case Timer::timeout:
                return time_out(now, send);
            case Timer::probe:
                // The answer to the probe takes a round trip, so the timeout counts from now.
                return arm(Timer::timeout, now + (send_probe(now, send) ? rto_.timeout() : rest_of_timeout(now)));
            case Timer::reorder:
                unreported_lost_pkts_ += detect_losses(now);
                if (reorder_wait_us_) return arm(Timer::reorder, now + Duration::from_us(reorder_wait_us_));
                return arm(Timer::timeout, now + rto_.timeout());
            case Timer::none:
                return;
        }
    }

    // Returns false if there was nothing to send.
    template <class Send>
    bool send_probe(Instant now, Send&& send) {
        const bool is_again = !may_send_new();
        const std::uint32_t last = board_.next() - 1;
        if (!is_again)
            send_new(now, send);
        else if (!board_[last].arrived && !board_[last].lost)
            retransmit(now, last, send);
        else
            return false;
        ++counters_.probes;
        probe_.sent(board_.next(), is_again);
        return true;
    }

    template <class Send>
    void time_out(Instant now, Send&& send) {
        ++counters_.timeouts;
        const bool is_first = state_ == State::open;
        lose_overdue(now);
        begin_episode(State::loss);
        undo_.timed_out(next_tx_, is_first);
        rto_.timed_out();
        reorder_wait_us_ = 0;
        pacer_.restart(now);
        notify(CCA_TIMEOUT, now);
        retransmit(now, board_.una(), send);
    }
};

}  // namespace ccatune
