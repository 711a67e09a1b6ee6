// SPDX-License-Identifier: MIT
// A token-bucket policer: it passes conforming packets at once and drops the others.
//
// Each flow has its own bucket, or the flows of a client share one.
// The rate may change at given times, for example when a quota is used up or renewed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/time.hpp"
#include "path/element.hpp"
#include "path/token_bucket.hpp"

namespace ccatune {

struct RateChange {
    Instant at;
    std::uint64_t rate_bytes_per_s = 0;  // at least 1
};

struct PolicerConfig {
    std::uint64_t rate_bytes_per_s = 0;
    std::uint64_t bucket_bytes = 0;
    bool per_flow = false;            // else one bucket per client
    std::vector<RateChange> changes;  // ascending; only policers use them
};

// The bucket of each flow, out of n buckets.
struct BucketOfFlow {
    std::vector<std::uint32_t> bucket;
    std::uint32_t n = 0;
};

class Policer final : public Element {
public:
    Policer(const PolicerConfig& config, BucketOfFlow buckets)
        : bucket_of_(std::move(buckets.bucket)),
          buckets_(buckets.n, TokenBucket(config.rate_bytes_per_s, config.bucket_bytes)),
          changes_(config.changes) {}

private:
    void arrive(Instant now, const Packet& packet) override {
        while (changed_ < changes_.size() && changes_[changed_].at <= now) [[unlikely]]
            change(changes_[changed_++]);
        if (buckets_[bucket_of_[packet.flow]].take(now, kWireBytes))
            pass(now, packet);
        else
            drop();
    }

    void change(const RateChange& to) {
        for (TokenBucket& bucket : buckets_) bucket.set_rate(to.at, to.rate_bytes_per_s);
    }

    std::vector<std::uint32_t> bucket_of_;
    std::vector<TokenBucket> buckets_;
    std::vector<RateChange> changes_;
    std::size_t changed_ = 0;
};

}  // namespace ccatune
