// SPDX-License-Identifier: MIT
// Simulated time in integer nanoseconds.
// Instants and durations have separate types, so that neither is mistaken for the other or for another unit.
//
// 63 bits of nanoseconds are 292 years.
// Instant::never() is an instant that never comes; nothing may be added to it.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace ccatune {

struct Duration {
    std::int64_t ns = 0;

    static constexpr Duration from_us(std::int64_t us) { return {us * 1000}; }
    static constexpr Duration from_ms(std::int64_t ms) { return {ms * 1'000'000}; }
    // Rounds to the nearest nanosecond; configuration is given in seconds.
    static constexpr Duration from_s(double s) {
        return {static_cast<std::int64_t>(s * 1e9 + (s < 0 ? -0.5 : 0.5))};
    }

    constexpr std::uint64_t us() const { return static_cast<std::uint64_t>(ns) / 1000; }
    constexpr double s() const { return static_cast<double>(ns) * 1e-9; }
    constexpr auto operator<=>(const Duration&) const = default;
};

struct Instant {
    std::int64_t ns = 0;

    static constexpr Instant never() { return {std::numeric_limits<std::int64_t>::max()}; }
    static constexpr Instant from_ms(std::int64_t ms) { return {ms * 1'000'000}; }

    constexpr std::uint64_t us() const { return static_cast<std::uint64_t>(ns) / 1000; }
    constexpr double s() const { return static_cast<double>(ns) * 1e-9; }
    constexpr auto operator<=>(const Instant&) const = default;
};

constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
constexpr Duration operator*(Duration a, std::int64_t times) { return {a.ns * times}; }
constexpr Instant operator+(Instant at, Duration after) { return {at.ns + after.ns}; }
constexpr Instant operator-(Instant at, Duration before) { return {at.ns - before.ns}; }
constexpr Duration operator-(Instant later, Instant earlier) { return {later.ns - earlier.ns}; }

}  // namespace ccatune
