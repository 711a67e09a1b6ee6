// SPDX-License-Identifier: MIT
#include "sender.hpp"

#include <limits>
#include <stdexcept>

namespace ccatune {

Sender::Sender(const FlowConfig& config, Path path) : config_(config), path_(path), host_(make_host(config)) {}

void Sender::start(Instant now, Duration handshake_rtt) {
    rto_.add(handshake_rtt);
    last_rtt_ = handshake_rtt;
    host_->start({.now_us = now.us(),
                  .rtt_us = static_cast<std::uint32_t>(handshake_rtt.us()),
                  .cwnd_pkts = config_.initial_cwnd_pkts,
                  .delivered_pkts = 0,
                  .mss_bytes = config_.mss_bytes});
    next_send_ = now;
    send_allowed(now);
}

void Sender::stop() {
    stopped_ = true;
    pace_at_ = rto_at_ = Instant::never();
}

// --- sending ----------------------------------------------------------------

bool Sender::next_segment(std::uint32_t& seq) {
    if (board_.has_lost() && board_.next_lost(seq)) return true;
    seq = board_.next();
    return config_.size_pkts == 0 || seq < config_.size_pkts;
}

void Sender::transmit(std::uint32_t seq, Instant now) {
    if (board_.next_tx() == std::numeric_limits<std::uint32_t>::max())
        throw std::overflow_error("flow: expected fewer than 2^32 packets; shorten the run");
    counts_.retransmitted_pkts += seq != board_.next();
    ++counts_.sent_pkts;
    const std::uint32_t tx = board_.transmit(seq, now);
    path_.send(seq, tx, now);
    if (rto_at_ == Instant::never()) arm_rto(now);
}

void Sender::send_allowed(Instant now) {
    pace_at_ = Instant::never();
    if (stopped_) return;
    if (host_->pacing_bytes_per_s() != pacing_bytes_per_s_) {
        pacing_bytes_per_s_ = host_->pacing_bytes_per_s();
        const std::uint64_t mss_ns = std::uint64_t{config_.mss_bytes} * 1'000'000'000;
        pacing_gap_ = {pacing_bytes_per_s_ ? static_cast<std::int64_t>(mss_ns / pacing_bytes_per_s_) : 0};
    }
    for (;;) {
        cwnd_limited_ = board_.inflight_pkts() >= host_->cwnd_pkts();
        if (cwnd_limited_) return;
        if (now < next_send_) {
            pace_at_ = next_send_;
            return;
        }
        std::uint32_t seq;
        if (!next_segment(seq)) {
            board_.mark_app_limited();
            return;
        }
        transmit(seq, now);
        next_send_ = now + pacing_gap_;
    }
}

// --- being told -------------------------------------------------------------

Duration Sender::on_ack(const Ack& ack, Instant now) {
    Delivery delivery;
    board_.on_ack(ack, now, rto_.min_rtt(), delivery);
    if (stopped_ || delivery.delivered_pkts == 0) return {};
    if (delivery.oldest_rtt.ns != 0) {
        rto_.add(delivery.oldest_rtt);
        last_rtt_ = delivery.newest_rtt;
    }
    if (delivery.cumulative) rto_.reset_backoff();
    follow_losses(delivery, ack, now);
    tell_host(delivery, now);
    arm_rto(now);
    send_allowed(now);
    return delivery.newest_rtt;
}

void Sender::on_timer(Instant now) {
    if (rto_at_ <= now)
        time_out(now);
    send_allowed(now);
}

void Sender::time_out(Instant now) {
    ++counts_.timeouts;
    if (phase_ == Phase::kOpen) episode_tx_ = board_.next_tx();
    phase_ = Phase::kLoss;
    episode_end_ = board_.next();
    board_.lose_all();
    tell_event(CCA_TIMEOUT, now);
    rto_.back_off();
    arm_rto(now);
}

void Sender::follow_losses(const Delivery& delivery, const Ack& ack, Instant now) {
    if (phase_ != Phase::kOpen) {
        if (delivery.cumulative && ack.echo_tx < episode_tx_)
            undo(now);
        else if (board_.una() >= episode_end_)
            leave(now);
    }
    if (phase_ == Phase::kOpen && delivery.lost_pkts != 0) enter_recovery(now);
}

void Sender::enter_recovery(Instant now) {
    ++counts_.recoveries;
    phase_ = Phase::kRecovery;
    episode_tx_ = board_.next_tx();
    episode_end_ = board_.next();
    tell_event(CCA_RECOVERY_ENTERED, now);
}

void Sender::leave(Instant now) {
    phase_ = Phase::kOpen;
    tell_event(CCA_RECOVERY_LEFT, now);
}

void Sender::undo(Instant now) {
    ++counts_.undone;
    phase_ = Phase::kOpen;
    board_.revive_lost();
    rto_.reset_backoff();
    tell_event(CCA_UNDO, now);
}

void Sender::tell_event(cca_event_kind kind, Instant now) {
    const cca_event event{.kind = kind,
                          .now_us = now.us(),
                          .inflight_pkts = board_.inflight_pkts(),
                          .cwnd_pkts = host_->cwnd_pkts(),
                          .mss_bytes = config_.mss_bytes};
    host_->on_event(event, counts_.sent_pkts);
}

void Sender::tell_host(const Delivery& delivery, Instant now) {
    const cca_ack ack{.now_us = now.us(),
                      .rtt_us = static_cast<std::uint32_t>(delivery.newest_rtt.us()),
                      .acked_pkts = delivery.delivered_pkts,
                      .lost_pkts = delivery.lost_pkts,
                      .inflight_pkts = board_.inflight_pkts(),
                      .delivered_pkts = board_.delivered_pkts(),
                      .rate_pkts = delivery.has_rate ? delivery.rate_pkts : 0,
                      .rate_interval_us = delivery.has_rate ? static_cast<std::uint32_t>(delivery.rate_interval.us()) : 0,
                      .cwnd_pkts = host_->cwnd_pkts(),
                      .mss_bytes = config_.mss_bytes,
                      .app_limited = delivery.app_limited,
                      .cwnd_limited = cwnd_limited_};
    host_->on_ack(ack, counts_.sent_pkts);
}

}  // namespace ccatune
