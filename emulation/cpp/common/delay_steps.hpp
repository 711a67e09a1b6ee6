// SPDX-License-Identifier: MIT
// A propagation delay that changes in steps, and packets that stay in order under it:
//
//   leaves_n = max(enters_n + delay(enters_n), leaves_(n-1))
//
// The delay in force when a packet enters applies to it.
// A packet never overtakes the ones before it, so after a fall of the delay some packets leave together.
// The simulator (path/holding.hpp) and the shell of real runs (emulation/mahimahi/shell) share this file.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/time.hpp"

namespace ccatune {

struct DelayStep {
    Instant at;
    Duration delay;  // of one direction
};

class DelaySteps {
public:
    // The first step is at 0, and times ascend.
    // period: longer than the time of the last step; 0: the last delay stays.
    DelaySteps(std::vector<DelayStep> steps, Duration period) : steps_(std::move(steps)), period_(period) {
        const auto later = [](const DelayStep& a, const DelayStep& b) { return a.at >= b.at; };
        if (steps_.empty() || steps_[0].at.ns != 0 ||
            std::adjacent_find(steps_.begin(), steps_.end(), later) != steps_.end() ||
            (period_.ns != 0 && period_.ns <= steps_.back().at.ns))
            throw std::invalid_argument("delays: expected times that ascend from 0, and a period after the last");
    }

    // now: at least 0.
    Duration at(Instant now) const {
        const Instant in_period{period_.ns == 0 ? now.ns : now.ns % period_.ns};
        const auto after = std::upper_bound(steps_.begin(), steps_.end(), in_period,
                                            [](Instant t, const DelayStep& step) { return t < step.at; });
        return (after - 1)->delay;
    }

private:
    std::vector<DelayStep> steps_;
    Duration period_;
};

class Order {
public:
    // Returns when a packet leaves that enters now.
    // now: not before that of an earlier call.
    Instant leaves_at(Instant now, Duration delay) { return last_ = std::max(last_, now + delay); }

private:
    Instant last_{};
};

}  // namespace ccatune
