// SPDX-License-Identifier: MIT
// Histograms of delays.
// Bins include their upper edge: bin k of the linear kind holds (k, k + 1] x 0.1 ms.
// So the number of delays within T is exact for every T that is a multiple of 0.1 ms and at most 1 s.
//
//   DelayHistogram   bins of 0.1 ms up to 1 s, then bins of 10 ms up to 60 s
//   LogHistogram<S>  ticks of 0.1 ms: one bin per tick up to 2^(S+1) ticks, then 2^S bins per octave up to 60 s.
//                    Width at most 2^-S of the value: 3.1 % for S = 5, 1.6 % for S = 6
//
// Delays above 60 s count as 60 s.
// A percentile is the upper edge of the bin that holds it: too high by at most one bin, never too low.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/time.hpp"

namespace ccatune {

inline constexpr std::int64_t kTickNs = 100'000;
inline constexpr std::uint32_t kMaxTicks = 600'000;  // 60 s

// Returns the delay in ticks, rounded up: 1 for (0, 0.1 ms], and also for a delay of 0.
inline std::uint32_t ticks_of(Duration delay) {
    if (delay.ns <= 0) return 1;
    const auto ticks = static_cast<std::uint64_t>(delay.ns - 1) / kTickNs + 1;
    return ticks < kMaxTicks ? static_cast<std::uint32_t>(ticks) : kMaxTicks;
}

class DelayHistogram {
public:
    static constexpr std::uint32_t kLinearBins = 10'000;
    static constexpr std::uint32_t kTicksPerCoarseBin = 100;
    static constexpr std::uint32_t kBins = kLinearBins + (kMaxTicks - kLinearBins) / kTicksPerCoarseBin + 1;

    DelayHistogram() : counts_(kBins, 0) {}

    static std::uint32_t bin_of(std::uint32_t ticks) {
        if (ticks <= kLinearBins) return ticks - 1;
        return kLinearBins + (ticks - kLinearBins - 1) / kTicksPerCoarseBin;
    }
    static std::uint32_t upper_ticks(std::uint32_t bin) {
        return bin < kLinearBins ? bin + 1 : kLinearBins + (bin - kLinearBins + 1) * kTicksPerCoarseBin;
    }

    void add(Duration delay) { ++counts_[bin_of(ticks_of(delay))]; }
    const std::vector<std::uint32_t>& counts() const { return counts_; }

private:
    std::vector<std::uint32_t> counts_;
};

template <unsigned SubBits>
struct LogBins {
    static constexpr std::uint32_t kExact = 2u << SubBits;

    static constexpr std::uint32_t bin_of(std::uint32_t ticks) {
        const std::uint32_t below = ticks - 1;  // (k, k + 1], as in the linear bins
        if (below < kExact) return below;
        const auto octave = static_cast<std::uint32_t>(std::bit_width(below)) - 1;
        const std::uint32_t sub = (below >> (octave - SubBits)) & ((1u << SubBits) - 1);
        return kExact + ((octave - SubBits - 1) << SubBits) + sub;
    }
    static constexpr std::uint32_t kBins = bin_of(kMaxTicks) + 1;

    static constexpr std::uint32_t upper_ticks(std::uint32_t bin) {
        if (bin < kExact) return bin + 1;
        const std::uint32_t octave = ((bin - kExact) >> SubBits) + SubBits + 1;
        const std::uint32_t sub = (bin - kExact) & ((1u << SubBits) - 1);
        return ((1u << SubBits) + sub + 1) << (octave - SubBits);
    }
};

template <unsigned SubBits>
class LogHistogram {
public:
    using Bins = LogBins<SubBits>;

    void add(Duration delay) { ++counts_[Bins::bin_of(ticks_of(delay))]; }
    // Prefetches the counter of a delay like this one.
    void fetch_ahead(Duration delay) const { __builtin_prefetch(&counts_[Bins::bin_of(ticks_of(delay))], 1); }
    void clear() { counts_.fill(0); }
    const std::array<std::uint32_t, Bins::kBins>& counts() const { return counts_; }

private:
    std::array<std::uint32_t, Bins::kBins> counts_{};
};

using CompactBins = LogBins<5>;  // for accounting windows, smoothed RTTs and training
using FineLog = LogHistogram<6>; // for each flow's RTT and each element's delay

}  // namespace ccatune
