// SPDX-License-Identifier: MIT
// The sending end: first version, correct under loss. Its whole interface to
// the simulation is on_ack(), on_timer() and next_at(), so that a sender with
// all of Linux's mechanisms can take its place.
//
//              loss found                    timeout
//      OPEN ---------------> RECOVERY ---------------------> LOSS
//        ^                      |                              |
//        +--- all that was sent before the episode arrived ----+
//        +--- or the originals did: spurious, undone -----------+
//
// Spurious: an ACK advances una and echoes a transmission older than the first
// one of the episode (Eifel, RFC 3522): the original was not lost.
//
// Segments go out when the window has room and the pacing time has come, lost
// ones first. Pacing spaces payload: mss / rate, as Linux's internal pacing.
// Not here yet: tail-loss probe, reordering window, TSO bursts, receive window.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "config.hpp"
#include "host.hpp"
#include "path.hpp"
#include "rto.hpp"
#include "scoreboard.hpp"

namespace ccatune {

enum class Phase : std::uint8_t { kOpen, kRecovery, kLoss };

struct SenderCounts {
    std::uint32_t sent_pkts = 0;
    std::uint32_t retransmitted_pkts = 0;
    std::uint32_t timeouts = 0;
    std::uint32_t recoveries = 0;
    std::uint32_t undone = 0;
};

class Sender {
public:
    Sender(const FlowConfig& config, Path path);

    // handshake_rtt: what the flow starts out knowing.
    void start(Instant now, Duration handshake_rtt);
    void stop();

    // Returns the RTT that the ACK measured, zero if none.
    Duration on_ack(const Ack& ack, Instant now);
    void on_timer(Instant now);
    Instant next_at() const { return std::min(pace_at_, rto_at_); }

    const Host& host() const { return *host_; }
    const Path& path() const { return path_; }
    const SenderCounts& counts() const { return counts_; }
    Phase phase() const { return phase_; }
    std::uint32_t inflight_pkts() const { return board_.inflight_pkts(); }
    std::uint32_t delivered_pkts() const { return board_.delivered_pkts(); }
    Duration last_rtt() const { return last_rtt_; }
    bool complete() const { return config_.size_pkts != 0 && board_.una() == config_.size_pkts; }

private:
    void send_allowed(Instant now);
    bool next_segment(std::uint32_t& seq);
    void transmit(std::uint32_t seq, Instant now);
    void follow_losses(const Delivery& delivery, const Ack& ack, Instant now);
    void enter_recovery(Instant now);
    void leave(Instant now);
    void undo(Instant now);
    void time_out(Instant now);
    void tell_host(const Delivery& delivery, Instant now);
    void tell_event(cca_event_kind kind, Instant now);
    void arm_rto(Instant now) { rto_at_ = board_.empty() ? Instant::never() : now + rto_.timeout(); }

    FlowConfig config_;
    Path path_;
    std::unique_ptr<Host> host_;
    Scoreboard board_;
    RtoEstimator rto_;
    SenderCounts counts_;
    Phase phase_ = Phase::kOpen;
    std::uint32_t episode_end_ = 0;  // segments below were sent before the episode
    std::uint32_t episode_tx_ = 0;   // its first transmission
    Instant pace_at_ = Instant::never();
    Instant rto_at_ = Instant::never();
    Instant next_send_;              // pacing
    std::uint64_t pacing_bytes_per_s_ = 0;
    Duration pacing_gap_;            // at that rate
    Duration last_rtt_;
    bool cwnd_limited_ = false;
    bool stopped_ = false;
};

}  // namespace ccatune
