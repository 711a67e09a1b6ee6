// SPDX-License-Identifier: MIT
// Invariants of every run.
// A run that requests an audit checks them at every event:
//
//   clock       never goes back, and does not stand still
//   packets     all packets sent have entered the path; all that one element passed have entered the next;
//               entered = passed + dropped + held in its queue; all that the last element passed have been received
//   ACKs        each ACK sent has arrived or is on its way; a receiver's cumulative number never decreases;
//               it never exceeds what was sent; blocks lie between it and what was sent
//   scoreboard  in flight + arrived + lost = outstanding, none negative;
//               at every 64th event, the counters agree with the marks
//   progress    a sender that waits for something, or has something to send, has set a timer
//
// If nothing is left to happen at the end of a run, all packets sent have been acknowledged.
// So every file that was not stopped is complete.
//
// A failed check throws std::logic_error, which says when and what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/packet.hpp"
#include "common/time.hpp"
#include "simulation/flow.hpp"

namespace ccatune {

class Audit {
public:
    // The counters of an element.
    // held: packets counted in its queues.
    struct Row {
        std::uint64_t entered, passed, dropped, held;
    };

    explicit Audit(std::size_t flows) : counts_(flows) {}

    void begin_event(Instant now) {
        check(now >= now_, "the clock went back to % ns", {static_cast<std::uint64_t>(now.ns)});
        at_once_ = now == now_ ? at_once_ + 1 : 0;
        now_ = now;
        check(at_once_ < kMostAtOnce, "the clock stands still");
        ++events_;
    }

    void receive(const Packet& packet, const Flow& flow) {
        ++received_;
        ++counts_[packet.flow].packets;
        check(packet.seq < flow.sender.scoreboard().next(), "flow %: received %, of which only % were sent",
              {packet.flow, packet.seq, flow.sender.scoreboard().next()});
    }

    void answer(std::uint32_t id, const Ack& ack) {
        ++answered_;
        check(ack.cumulative >= counts_[id].answered_to, "flow %: its ACKs go back to %", {id, ack.cumulative});
        counts_[id].answered_to = ack.cumulative;
    }

    void take_ack(std::uint32_t id, const Flow& flow, const Ack& ack) {
        ++taken_;
        const std::uint32_t next = flow.sender.scoreboard().next();
        check(ack.cumulative <= next, "flow %: an ACK of %, of which only % were sent", {id, ack.cumulative, next});
        for (std::uint32_t i = 0; i < ack.block_count; ++i) {
            const auto [first, last] = ack.blocks[i];
            check(ack.cumulative < first && first < last && last <= next,
                  "flow %: a block from % to % beyond an ACK of %, where % were sent",
                  {id, first, last, ack.cumulative, next});
        }
    }

    // Call after an event of the flow.
    void check_flow(std::uint32_t id, const Flow& flow) const {
        const Scoreboard& board = flow.sender.scoreboard();
        check(board.una() <= board.next() && board.una() <= flow.receiver.in_order(),
              "flow %: acknowledged %, of which % were sent and % arrived",
              {id, board.una(), board.next(), flow.receiver.in_order()});
        check(std::uint64_t{board.in_flight()} + board.sacked() + board.lost() == board.next() - board.una(),
              "flow %: % in flight, % arrived and % lost of % outstanding",
              {id, board.in_flight(), board.sacked(), board.lost(), board.next() - board.una()});
        check(counts_[id].packets <= flow.sender.counters().sent, "flow %: received % of % sent",
              {id, counts_[id].packets, flow.sender.counters().sent});
        check(!flow.started || !flow.sender.is_busy() || flow.sender.timer_at() != Instant::never(),
              "flow %: has something to do, and no timer", {id});
        if (events_ % kEventsPerCount == 0) check_marks(id, flow);
    }

    // The rows stand in the order of a packet's path.
    void check_path(std::uint64_t sent, const std::vector<Row>& rows) const {
        std::uint64_t came = sent, number = 0;
        for (const Row& row : rows) {
            check(row.entered == came && row.entered == row.passed + row.dropped + row.held,
                  "element % of the path: % came, % entered, % passed, % were dropped, % are inside",
                  {number, came, row.entered, row.passed, row.dropped, row.held});
            came = row.passed;
            ++number;
        }
        check(received_ == came, "% came to the receivers, % were received", {came, received_});
    }

    // held: ACKs in the ACK path; returning: ACKs in the propagation delay.
    void check_acks(std::uint64_t held, std::uint64_t returning) const {
        check(answered_ == taken_ + held + returning, "% ACKs left, % came, % are held, % are returning",
              {answered_, taken_, held, returning});
    }

    // Call when nothing is left to happen.
    void check_end(std::uint32_t id, const Flow& flow) const {
        const Scoreboard& board = flow.sender.scoreboard();
        check_marks(id, flow);
        check(board.una() == board.next(), "flow %: only % of % sent were acknowledged in the end",
              {id, board.una(), board.next()});
        check(flow.stop != Instant::never() || !flow.application.is_busy(), "flow %: a file did not complete", {id});
    }

private:
    static constexpr std::uint64_t kMostAtOnce = 10'000'000;
    static constexpr std::uint64_t kEventsPerCount = 64;

    struct Counts {
        std::uint64_t packets = 0;
        std::uint32_t answered_to = 0;
    };

    // Each % in the text stands for one of the figures.
    void check(bool holds, const char* text, std::initializer_list<std::uint64_t> figures = {}) const {
        if (!holds) [[unlikely]]
            fail(text, figures);
    }

    [[noreturn, gnu::noinline, gnu::cold]] void fail(const char* text, std::initializer_list<std::uint64_t> figures) const {
        std::string message = "audit at " + std::to_string(now_.ns) + " ns: ";
        const std::uint64_t* figure = figures.begin();
        for (; *text; ++text) message += *text == '%' && figure != figures.end() ? std::to_string(*figure++) : std::string(1, *text);
        throw std::logic_error(message);
    }

    void check_marks(std::uint32_t id, const Flow& flow) const {
        check(flow.sender.scoreboard().is_consistent(), "flow %: the counts are not those of the marks", {id});
    }

    Instant now_{};
    std::uint64_t events_ = 0, at_once_ = 0;
    std::uint64_t received_ = 0, answered_ = 0, taken_ = 0;
    std::vector<Counts> counts_;
};

}  // namespace ccatune
