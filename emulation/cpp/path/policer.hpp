// SPDX-License-Identifier: MIT
// A token-bucket policer: passes what conforms at once and drops the rest.
//
// Each flow has a bucket of its own, or the flows of a client share one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "path/element.hpp"
#include "path/token_bucket.hpp"

namespace ccatune {

struct PolicerConfig {
    std::uint64_t rate_bytes_per_s = 0;
    std::uint64_t bucket_bytes = 0;
    bool per_flow = false;  // else per client
};

// Which of n buckets each flow draws from.
struct BucketOfFlow {
    std::vector<std::uint32_t> bucket;
    std::uint32_t n = 0;
};

class Policer final : public Element {
public:
    Policer(const PolicerConfig& config, BucketOfFlow buckets)
        : bucket_of_(std::move(buckets.bucket)),
          buckets_(buckets.n, TokenBucket(config.rate_bytes_per_s, config.bucket_bytes)) {}

private:
    void arrive(Instant now, const Packet& packet) override {
        if (buckets_[bucket_of_[packet.flow]].take(now, kWireBytes))
            pass(now, packet);
        else
            drop();
    }

    std::vector<std::uint32_t> bucket_of_;
    std::vector<TokenBucket> buckets_;
};

}  // namespace ccatune
