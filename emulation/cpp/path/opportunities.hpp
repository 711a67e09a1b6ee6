// SPDX-License-Identifier: MIT
// The times at which a recorded link may deliver, in ms.
// They repeat with a period, as in Mahimahi's traces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ccatune {

// Delivery opportunities of a link.
// They are immutable, and the runs that use the link share them.
struct Opportunities {
    std::vector<std::uint32_t> at_ms;  // ascending, from the start of the trace
    std::uint32_t period_ms = 0;

    Opportunities(std::vector<std::uint32_t> times_ms, std::uint32_t period)
        : at_ms(std::move(times_ms)), period_ms(period) {
        if (at_ms.empty() || period_ms == 0 || at_ms.back() > period_ms || !std::is_sorted(at_ms.begin(), at_ms.end()))
            throw std::invalid_argument("trace: expected ascending times within its period");
    }

    // Returns the number of opportunities in [from, to) ms, over as many periods as that spans.
    std::uint64_t count(std::int64_t from_ms, std::int64_t to_ms) const { return before(to_ms) - before(from_ms); }

private:
    std::uint64_t before(std::int64_t ms) const {
        const std::int64_t periods = ms / period_ms, rest = ms % period_ms;
        if (periods == 0) return below(rest);
        // An opportunity at the very end of the previous period happens at the start of this one.
        return static_cast<std::uint64_t>(periods - 1) * at_ms.size() + below(period_ms + rest) + below(rest);
    }

    std::uint64_t below(std::int64_t ms) const {
        return static_cast<std::uint64_t>(std::lower_bound(at_ms.begin(), at_ms.end(), ms) - at_ms.begin());
    }
};

}  // namespace ccatune
