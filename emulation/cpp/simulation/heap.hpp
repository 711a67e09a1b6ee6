// SPDX-License-Identifier: MIT
// Finds the source of the next event.
// This heap of sources also knows the place of each source, so that the time of one can be changed.
// A source has one pending entry.
// Between equal times the lower number decides, which keeps runs reproducible.
//
// A node has four children.
// Times stand beside the numbers, and the four children share a cache line.
// So a step down reads one line, and a heap for a thousand flows is six steps deep.
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
    // Returns the source that would be first without the current first one.
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

    // Entries beyond the last source keep these values, which come after all others.
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

    // The root is alone at the end of line 0; the children of place p fill line p + 1.
    const Entry& at_place(std::size_t place) const {
        const std::size_t slot = place + kChildren - 1;
        return lines_[slot / kChildren].entries[slot % kChildren];
    }

    void put(std::size_t place, const Entry& entry) {
        const std::size_t slot = place + kChildren - 1;
        lines_[slot / kChildren].entries[slot % kChildren] = entry;
        place_[entry.source] = static_cast<std::uint32_t>(place);
    }

    // Returns the least of four siblings.
    // first: the place of the first sibling.
    std::size_t least_child(std::size_t first) const {
        std::size_t least = first;
        for (std::size_t child = first + 1; child < first + kChildren; ++child)
            if (at_place(child) < at_place(least)) least = child;
        return least;
    }

    // Puts the entry at this place or at one above it.
    void rise(std::size_t place, const Entry& entry) {
        while (place > 0) {
            const std::size_t parent = (place - 1) / kChildren;
            if (!(entry < at_place(parent))) break;
            put(place, at_place(parent));
            place = parent;
        }
        put(place, entry);
    }

    // Puts the entry at this place or at one below it.
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
    std::vector<std::uint32_t> place_;  // the place of each source
};

}  // namespace ccatune
