// SPDX-License-Identifier: MIT
// Which source acts next: a heap of sources with their places, so that the time
// of one can be moved. A source has one pending entry; equal times are settled by
// the lower number, which keeps runs reproducible.
//
// Four children a node, times beside the numbers, and the four in one cache line:
// a step down looks at one line, and a thousand flows are six steps deep.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/fetch.hpp"
#include "common/time.hpp"

namespace ccatune {

class SourceHeap {
public:
    explicit SourceHeap(std::size_t sources) : sources_(sources), lines_(sources / kChildren + 2), place_(sources) {
        for (std::uint32_t i = 0; i < sources; ++i) put(i, {Instant::never(), i});
    }

    std::uint32_t first() const { return at_place(0).source; }
    Instant first_at() const { return at_place(0).at; }
    // Which would be the first without that one.
    std::uint32_t second() const { return at_place(least_child(1)).source; }
    Instant at(std::uint32_t source) const { return at_place(place_[source]).at; }

    void move(std::uint32_t source, Instant at) {
        const std::size_t place = place_[source];
        const Instant before = at_place(place).at;
        if (at == before) return;
        if (at < before)
            rise(place, {at, source});
        else
            sink(place, {at, source});
    }

private:
    static constexpr std::size_t kChildren = 4;

    // Behind the last source they stay as they begin, behind every other.
    struct Entry {
        Instant at = Instant::never();
        std::uint32_t source = UINT32_MAX;

        bool operator<(const Entry& other) const {
            return at < other.at || (at == other.at && source < other.source);
        }
    };
    struct alignas(kLineBytes) Line {
        std::array<Entry, kChildren> entries;
    };
    static_assert(sizeof(Line) == kLineBytes);

    // The first is alone in the end of line 0; the children of place p fill line p + 1.
    const Entry& at_place(std::size_t place) const {
        const std::size_t slot = place + kChildren - 1;
        return lines_[slot / kChildren].entries[slot % kChildren];
    }

    void put(std::size_t place, const Entry& entry) {
        const std::size_t slot = place + kChildren - 1;
        lines_[slot / kChildren].entries[slot % kChildren] = entry;
        place_[entry.source] = static_cast<std::uint32_t>(place);
    }

    // Of the children of which that is the first.
    std::size_t least_child(std::size_t first) const {
        std::size_t least = first;
        for (std::size_t child = first + 1; child < first + kChildren; ++child)
            if (at_place(child) < at_place(least)) least = child;
        return least;
    }

    // The entry is for this place or one above it.
    void rise(std::size_t place, const Entry& entry) {
        while (place > 0) {
            const std::size_t parent = (place - 1) / kChildren;
            if (!(entry < at_place(parent))) break;
            put(place, at_place(parent));
            place = parent;
        }
        put(place, entry);
    }

    // The entry is for this place or one below it.
    void sink(std::size_t place, const Entry& entry) {
        for (;;) {
            const std::size_t first = place * kChildren + 1;
            if (first >= sources_) break;
            const std::size_t least = least_child(first);
            if (!(at_place(least) < entry)) break;
            put(place, at_place(least));
            place = least;
        }
        put(place, entry);
    }

    std::size_t sources_;
    std::vector<Line> lines_;
    std::vector<std::uint32_t> place_;  // of each source
};

}  // namespace ccatune
