// SPDX-License-Identifier: MIT
// Which source acts next: a binary heap of sources with their places, so that
// the time of one can be moved. A source has one pending entry; equal times are
// settled by the lower number, which keeps runs reproducible.
//
// One source costs a store, a thousand ten comparisons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "time.hpp"

namespace ccatune {

class SourceHeap {
public:
    explicit SourceHeap(std::size_t sources) : at_(sources, Instant::never()), heap_(sources), place_(sources) {
        for (std::uint32_t i = 0; i < sources; ++i) heap_[i] = place_[i] = i;
    }

    std::uint32_t first() const { return heap_[0]; }
    Instant first_at() const { return at_[heap_[0]]; }

    void move(std::uint32_t source, Instant at) {
        const Instant before = at_[source];
        if (at == before) return;
        at_[source] = at;
        if (heap_.size() == 1) return;
        if (at < before)
            rise(place_[source]);
        else
            sink(place_[source]);
    }

private:
    bool earlier(std::uint32_t a, std::uint32_t b) const {
        return at_[a] < at_[b] || (at_[a] == at_[b] && a < b);
    }

    void swap(std::size_t a, std::size_t b) {
        std::swap(heap_[a], heap_[b]);
        place_[heap_[a]] = static_cast<std::uint32_t>(a);
        place_[heap_[b]] = static_cast<std::uint32_t>(b);
    }

    void rise(std::size_t i) {
        while (i > 0 && earlier(heap_[i], heap_[(i - 1) / 2])) {
            swap(i, (i - 1) / 2);
            i = (i - 1) / 2;
        }
    }

    void sink(std::size_t i) {
        for (;;) {
            std::size_t child = 2 * i + 1;
            if (child >= heap_.size()) return;
            if (child + 1 < heap_.size() && earlier(heap_[child + 1], heap_[child])) ++child;
            if (!earlier(heap_[child], heap_[i])) return;
            swap(i, child);
            i = child;
        }
    }

    std::vector<Instant> at_;
    std::vector<std::uint32_t> heap_;   // sources, by time
    std::vector<std::uint32_t> place_;  // of each source in heap_
};

}  // namespace ccatune
