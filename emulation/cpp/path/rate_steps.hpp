// SPDX-License-Identifier: MIT
// A rate that changes in steps: each rate holds until the time of the next step, the last one for ever.
// A packet in transmission when the rate changes continues at the new rate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/time.hpp"

namespace ccatune {

struct RateStep {
    Instant at;
    double bytes_per_s;  // 0: an outage
};

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
