// SPDX-License-Identifier: MIT
// Token buckets: the bucket itself, a policer that drops packets that do not conform, and a shaper that queues them.
// Each flow has its own bucket, or the flows of a client share one. A shaper has a queue beside each bucket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/ring.hpp"
#include "common/time.hpp"
#include "path/element.hpp"
#include "simulation/heap.hpp"

namespace ccatune {

// A bucket of B bytes that fills at R bytes per second and is full at first.
// A packet conforms if the bucket holds its bytes, which it then removes.
// So at most B + R t bytes conform in any time t.
//
// The arithmetic is exact, in nano-bytes: R in whole bytes per second times whole nanoseconds.
// Bounds: B < 2^32, so B in nano-bytes is below 4.3e18 < 2^63.
// A refill is computed only if it fits into the missing tokens.
// ready_at() adds at most R to the missing tokens; R is at most 1.25e10 (1e5 Mbit/s).
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

// Passes conforming packets at once and drops the others.
// The rate may change at given times, for example when a quota is used up or renewed.
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

struct ShaperConfig {
    PolicerConfig bucket;
    std::uint64_t queue_bytes = 0;
};

// Passes conforming packets at once and queues the others until they conform. A full queue drops packets.
// Conforming packets pass at the speed at which they arrived: a bucket does not limit the peak rate.
class Shaper final : public Element {
public:
    Shaper(const ShaperConfig& config, BucketOfFlow buckets)
        : queue_bytes_(config.queue_bytes),
          line_of_(std::move(buckets.bucket)),
          lines_(buckets.n, Line{TokenBucket(config.bucket.rate_bytes_per_s, config.bucket.bucket_bytes), Fifo<Packet>(16)}),
          heap_(buckets.n) {}

    Instant next_at() const override { return heap_.first_at(); }

    std::uint64_t held() const override {
        std::uint64_t pkts = 0;
        for (const Line& line : lines_) pkts += line.queue.size();
        return pkts;
    }

    void act(Instant now) override {
        while (heap_.first_at() <= now) {
            const std::uint32_t number = heap_.first();
            Line& line = lines_[number];
            line.bucket.take(now, kWireBytes);
            const Packet packet = line.queue.front();
            line.queue.pop();
            heap_.move(number, line.queue.empty() ? Instant::never() : line.bucket.ready_at(kWireBytes));
            pass(now, packet, now - packet.queued_at);
        }
    }

private:
    struct Line {
        TokenBucket bucket;
        Fifo<Packet> queue;
    };

    void arrive(Instant now, const Packet& packet) override {
        const std::uint32_t number = line_of_[packet.flow];
        Line& line = lines_[number];
        if (line.queue.empty() && line.bucket.take(now, kWireBytes)) return pass(now, packet, Duration{});
        if ((line.queue.size() + 1) * kWireBytes > queue_bytes_) return drop();
        if (line.queue.empty()) heap_.move(number, line.bucket.ready_at(kWireBytes));
        Packet queued = packet;
        queued.queued_at = now;
        line.queue.push(queued);
    }

    std::uint64_t queue_bytes_;
    std::vector<std::uint32_t> line_of_;
    std::vector<Line> lines_;
    SourceHeap heap_;  // when the front packet of each line conforms
};

}  // namespace ccatune
