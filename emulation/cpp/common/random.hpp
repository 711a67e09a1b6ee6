// SPDX-License-Identifier: MIT
// Random numbers of a flow's path or of an element, by splitmix64.
// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
// The scenario's seed and the number of a stream start a generator.
// Each flow has its own stream, below 2^32; the elements of a path have streams from 2^32 on.
// So the random losses of a flow do not depend on how many packets another flow sent.
#pragma once

#include <cstdint>

namespace ccatune {

class Random {
public:
    Random(std::uint64_t seed, std::uint64_t stream) : state_(mix(seed) ^ mix(stream * kGolden + 1)) {}

    std::uint64_t next() { return mix(state_ += kGolden); }

    // Uniform over [0, 1), in steps of 2^-53.
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
    static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

    static constexpr std::uint64_t mix(std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

    std::uint64_t state_;
};

// An event of a fixed probability, decided by one comparison of integers.
// A probability of 0 draws no random number, so lossless runs pay nothing.
class Chance {
public:
    explicit Chance(double probability)
        : limit_(probability >= 1.0 ? UINT64_MAX
                                    : static_cast<std::uint64_t>(probability * 18446744073709551616.0)) {}

    bool happens(Random& random) const { return limit_ != 0 && random.next() < limit_; }

private:
    std::uint64_t limit_;
};

}  // namespace ccatune
