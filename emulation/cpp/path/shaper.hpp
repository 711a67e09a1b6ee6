// SPDX-License-Identifier: MIT
// A token-bucket shaper: it passes conforming packets at once and queues the others until they conform.
// It drops packets that find its queue full.
// Conforming packets pass at the speed at which they arrived: a bucket does not limit the peak rate.
//
// Each flow has its own bucket and queue, or the flows of a client share one of each.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/ring.hpp"
#include "path/element.hpp"
#include "path/policer.hpp"
#include "path/token_bucket.hpp"
#include "simulation/heap.hpp"

namespace ccatune {

struct ShaperConfig {
    PolicerConfig bucket;
    std::uint64_t queue_bytes = 0;
};

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
