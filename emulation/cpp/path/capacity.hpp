// SPDX-License-Identifier: MIT
// What a link can carry over time: the opportunities of a recorded link, or a rate that changes in steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/time.hpp"

namespace ccatune {

// Delivery opportunities of a link, in ms. They repeat with a period, as in Mahimahi's traces.
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

struct RateStep {
    Instant at;
    double bytes_per_s;  // 0: an outage
};

// A rate that changes in steps: each rate holds until the time of the next step, the last one for ever.
// A packet in transmission when the rate changes continues at the new rate.
class RateSteps {
public:
    // The first step is at 0, times ascend, and the last rate is above 0.
    explicit RateSteps(std::vector<RateStep> steps) : steps_(std::move(steps)) {
        const auto later = [](const RateStep& a, const RateStep& b) { return a.at >= b.at; };
        if (steps_.empty() || steps_[0].at.ns != 0 || !(steps_.back().bytes_per_s > 0) ||
            std::adjacent_find(steps_.begin(), steps_.end(), later) != steps_.end())
            throw std::invalid_argument("steps: expected times that ascend from 0, and a last rate above 0");
        bytes_before_.push_back(0);
        for (std::size_t i = 1; i < steps_.size(); ++i)
            bytes_before_.push_back(bytes_before_.back() +
                                    (steps_[i].at - steps_[i - 1].at).s() * steps_[i - 1].bytes_per_s);
    }

    // Returns when a transmission of `bytes` that begins at `from` is complete.
    Instant end_of(Instant from, double bytes) const {
        for (std::size_t i = step_at(from);; ++i) {
            const double rate = steps_[i].bytes_per_s;
            const bool last = i + 1 == steps_.size();
            if (rate > 0) {
                const Instant end = from + Duration::from_s(bytes / rate);
                if (last || end <= steps_[i + 1].at) return end;
                bytes -= (steps_[i + 1].at - from).s() * rate;
            }
            from = steps_[i + 1].at;  // never beyond the last step, whose rate is above 0
        }
    }

    // Returns the whole bytes that are carried in [0, to).
    std::uint64_t bytes_until(Instant to) const {
        const std::size_t i = step_at(to);
        return static_cast<std::uint64_t>(bytes_before_[i] + (to - steps_[i].at).s() * steps_[i].bytes_per_s);
    }

private:
    std::size_t step_at(Instant at) const {
        const auto after = std::upper_bound(steps_.begin(), steps_.end(), at,
                                            [](Instant t, const RateStep& step) { return t < step.at; });
        return static_cast<std::size_t>(after - steps_.begin()) - 1;
    }

    std::vector<RateStep> steps_;
    std::vector<double> bytes_before_;  // bytes carried before each step
};

}  // namespace ccatune
