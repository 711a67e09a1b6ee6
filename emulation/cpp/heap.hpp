// SPDX-License-Identifier: MIT
// Which source acts next: a heap of sources with their places, so that the time
// of one can be moved. A source has one pending entry; equal times are settled by
// the lower number, which keeps runs reproducible.
//
// Four children a node, times beside the numbers: a step down compares what lies
// in one or two cache lines, and a thousand flows are six steps deep.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "time.hpp"

namespace ccatune {

class SourceHeap {
public:
    explicit SourceHeap(std::size_t sources) : heap_(sources), place_(sources) {
        for (std::uint32_t i = 0; i < sources; ++i) {
            heap_[i] = {Instant::never(), i};
            place_[i] = i;
        }
    }

    std::uint32_t first() const { return heap_[0].source; }
    Instant first_at() const { return heap_[0].at; }
    Instant at(std::uint32_t source) const { return heap_[place_[source]].at; }

    void move(std::uint32_t source, Instant at) {
        const std::size_t place = place_[source];
        const Instant before = heap_[place].at;
        if (at == before) return;
        if (at < before)
            rise(place, {at, source});
        else
            sink(place, {at, source});
    }

private:
    static constexpr std::size_t kChildren = 4;

    struct Entry {
        Instant at;
        std::uint32_t source;

        bool operator<(const Entry& other) const {
            return at < other.at || (at == other.at && source < other.source);
        }
    };

    void put(std::size_t place, const Entry& entry) {
        heap_[place] = entry;
        place_[entry.source] = static_cast<std::uint32_t>(place);
    }

    // The entry is for this place or one above it.
    void rise(std::size_t place, const Entry& entry) {
        while (place > 0) {
            const std::size_t parent = (place - 1) / kChildren;
            if (!(entry < heap_[parent])) break;
            put(place, heap_[parent]);
            place = parent;
        }
        put(place, entry);
    }

    // The entry is for this place or one below it.
    void sink(std::size_t place, const Entry& entry) {
        for (;;) {
            const std::size_t first = place * kChildren + 1;
            if (first >= heap_.size()) break;
            const std::size_t end = std::min(first + kChildren, heap_.size());
            std::size_t least = first;
            for (std::size_t child = first + 1; child < end; ++child)
                if (heap_[child] < heap_[least]) least = child;
            if (!(heap_[least] < entry)) break;
            put(place, heap_[least]);
            place = least;
        }
        put(place, entry);
    }

    std::vector<Entry> heap_;
    std::vector<std::uint32_t> place_;  // of each source in heap_
};

}  // namespace ccatune
