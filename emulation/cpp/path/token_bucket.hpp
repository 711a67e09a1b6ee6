// SPDX-License-Identifier: MIT
// A bucket of B bytes that fills at R bytes per second and is full at first.
// A packet conforms if the bucket holds its bytes, which it then removes.
// So at most B + R t bytes conform in any time t.
//
// The arithmetic is exact, in nano-bytes: R in whole bytes per second times whole nanoseconds.
// Bounds: B < 2^32, so B in nano-bytes is below 4.3e18 < 2^63.
// A refill is computed only if it fits into the missing tokens.
// ready_at() adds at most R to the missing tokens; R is at most 1.25e10 (1e5 Mbit/s).
#pragma once

#include <cstdint>
#include <stdexcept>

#include "common/time.hpp"

namespace ccatune {

class TokenBucket {
public:
    TokenBucket(std::uint64_t rate_bytes_per_s, std::uint64_t bucket_bytes)
        : rate_bytes_per_s_(rate_bytes_per_s), full_(bucket_bytes * kNano), tokens_(full_) {
        if (rate_bytes_per_s == 0 || rate_bytes_per_s > 12'500'000'000 || bucket_bytes > UINT32_MAX)
            throw std::invalid_argument("bucket: expected a rate of 1 to 1.25e10 bytes/s and less than 2^32 bytes");
    }

    // From `at` on the bucket fills at another rate.
    // at: not before the time of an earlier call.
    void set_rate(Instant at, std::uint64_t rate_bytes_per_s) {
        refill(at);
        rate_bytes_per_s_ = rate_bytes_per_s;
    }

    // Takes the bytes if the bucket holds them.
    // now: not before the time of an earlier call.
    bool take(Instant now, std::uint32_t bytes) {
        refill(now);
        if (tokens_ < bytes * kNano) return false;
        tokens_ -= bytes * kNano;
        return true;
    }

    // Returns when take() of `bytes`, at most B, will succeed, as of the last call of take().
    Instant ready_at(std::uint32_t bytes) const {
        if (tokens_ >= bytes * kNano) return at_;
        const std::uint64_t missing = bytes * kNano - tokens_;
        return at_ + Duration{static_cast<std::int64_t>((missing + rate_bytes_per_s_ - 1) / rate_bytes_per_s_)};
    }

private:
    static constexpr std::uint64_t kNano = 1'000'000'000;

    void refill(Instant now) {
        const auto elapsed_ns = static_cast<std::uint64_t>((now - at_).ns);
        at_ = now;
        if (elapsed_ns > (full_ - tokens_) / rate_bytes_per_s_)
            tokens_ = full_;
        else
            tokens_ += elapsed_ns * rate_bytes_per_s_;
    }

    std::uint64_t rate_bytes_per_s_;
    std::uint64_t full_, tokens_;  // nano-bytes
    Instant at_{};                 // the time to which tokens_ belongs
};

}  // namespace ccatune
