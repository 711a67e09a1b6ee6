// SPDX-License-Identifier: MIT
// The ACKs of all flows that are in the propagation delay.
// The delay is the same for all flows, so ACKs arrive in the order in which they entered it.
// A queue needs no search for the next one, and shows which ACKs follow, so that their data can be prefetched.
//
// Between equal times the lower flow comes first.
// A flow's own ACKs stay in order, as if each flow had a queue of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/packet.hpp"
#include "common/ring.hpp"
#include "common/time.hpp"

namespace ccatune {

class ReturningAcks {
public:
    struct Item {
        Ack ack;
        std::uint32_t flow;
    };
    static_assert(alignof(Item) <= alignof(std::max_align_t), "std::stable_sort has no buffer for more");

    bool empty() const { return items_.empty(); }
    std::size_t size() const { return items_.size(); }
    Instant first_at() const { return items_.empty() ? Instant::never() : items_.front().ack.arrives_at; }
    // Call when the first ACK arrives.
    // By then, all ACKs that arrive at the same time are in the queue.
    const Item& front() {
        if (settled_ == 0) settle();
        return items_.front();
    }

    // Sets *flow to the flow of the n-th ACK after the first.
    // Returns false if there are not so many.
    bool ahead(std::size_t n, std::uint32_t* flow) const {
        if (n >= items_.size()) return false;
        *flow = items_[n].flow;
        return true;
    }

    // ack.arrives_at: not before that of an earlier call.
    void push(std::uint32_t flow, const Ack& ack) { items_.push({ack, flow}); }

    // Call after front().
    void pop() {
        items_.pop();
        --settled_;
    }

private:
    // Sorts the ACKs that share the first time of arrival by their flows.
    void settle() {
        settled_ = 1;
        bool is_ordered = true;
        while (settled_ < items_.size() && items_[settled_].ack.arrives_at == items_.front().ack.arrives_at) {
            is_ordered &= items_[settled_ - 1].flow <= items_[settled_].flow;
            ++settled_;
        }
        if (is_ordered) return;
        group_.clear();
        for (std::size_t i = 0; i < settled_; ++i) group_.push_back(items_[i]);
        std::stable_sort(group_.begin(), group_.end(), [](const Item& a, const Item& b) { return a.flow < b.flow; });
        for (std::size_t i = 0; i < settled_; ++i) items_[i] = group_[i];
    }

    Fifo<Item> items_;
    std::size_t settled_ = 0;  // how many ACKs at the front are in their final order
    std::vector<Item> group_;
};

}  // namespace ccatune
