// SPDX-License-Identifier: MIT
// The elements on one side of the bottleneck, in the order in which a packet passes them.
// The last element passes packets to a sink.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "path/element.hpp"
#include "path/holding.hpp"
#include "path/link.hpp"
#include "path/loss.hpp"
#include "path/token_bucket.hpp"

namespace ccatune {

using ElementConfig = std::variant<LinkConfig, PolicerConfig, ShaperConfig, RandomLossConfig, GilbertElliottConfig,
                                   DelayerConfig, ClockConfig, BaseDelayConfig>;

// The inputs of the elements besides their own configuration.
struct PathContext {
    std::uint64_t seed = 0;
    std::uint64_t first_stream = 0;        // first stream of random numbers; each element has 2^32 streams
    std::vector<std::uint32_t> client_of;  // the client of each flow
};

class Path {
public:
    using Sink = std::function<void(Instant, const Packet&)>;

    Path(const std::vector<ElementConfig>& configs, const PathContext& context, Sink sink) : end_(std::move(sink)) {
        std::uint64_t stream = context.first_stream;
        for (const ElementConfig& config : configs) {
            elements_.push_back(std::visit([&](const auto& c) { return make(c, context, stream); }, config));
            stream += std::uint64_t{1} << 32;
        }
        for (std::size_t i = 0; i < elements_.size(); ++i)
            elements_[i]->lead_to(i + 1 < elements_.size() ? static_cast<Outlet*>(elements_[i + 1].get()) : &end_);
    }
    Path(const Path&) = delete;  // its elements point to end_
    Path& operator=(const Path&) = delete;

    bool empty() const { return elements_.empty(); }
    std::size_t size() const { return elements_.size(); }
    Element& operator[](std::size_t i) { return *elements_[i]; }
    const Element& operator[](std::size_t i) const { return *elements_[i]; }

    void take(Instant now, const Packet& packet) { elements_.front()->take(now, packet); }

    Duration wait_of_probe(Instant now) const {
        Duration wait{};
        for (const auto& element : elements_) wait = wait + element->wait_of_probe(now);
        return wait;
    }

private:
    struct End final : Outlet {
        explicit End(Sink s) : sink(std::move(s)) {}
        void take(Instant now, const Packet& packet) override { sink(now, packet); }
        Sink sink;
    };
    using Made = std::unique_ptr<Element>;

    static BucketOfFlow buckets(const PolicerConfig& config, const PathContext& context) {
        BucketOfFlow out;
        for (std::uint32_t flow = 0; flow < context.client_of.size(); ++flow) {
            out.bucket.push_back(config.per_flow ? flow : context.client_of[flow]);
            out.n = std::max(out.n, out.bucket.back() + 1);
        }
        return out;
    }
    static Made make(const LinkConfig& c, const PathContext&, std::uint64_t) { return std::make_unique<LinkElement>(c); }
    static Made make(const PolicerConfig& c, const PathContext& context, std::uint64_t) {
        return std::make_unique<Policer>(c, buckets(c, context));
    }
    static Made make(const ShaperConfig& c, const PathContext& context, std::uint64_t) {
        return std::make_unique<Shaper>(c, buckets(c.bucket, context));
    }
    static Made make(const RandomLossConfig& c, const PathContext& context, std::uint64_t stream) {
        const auto flows = static_cast<std::uint32_t>(context.client_of.size());
        return std::make_unique<RandomLoss>(c, context.seed, stream, flows);
    }
    static Made make(const GilbertElliottConfig& c, const PathContext& context, std::uint64_t stream) {
        return std::make_unique<GilbertElliott>(c, context.seed, stream);
    }
    static Made make(const DelayerConfig& c, const PathContext& context, std::uint64_t stream) {
        return std::make_unique<Delayer>(c, context.seed, stream);
    }
    static Made make(const ClockConfig& c, const PathContext& context, std::uint64_t stream) {
        return std::make_unique<Clock>(c, context.seed, stream);
    }
    static Made make(const BaseDelayConfig& c, const PathContext&, std::uint64_t) {
        return std::make_unique<BaseDelay>(c);
    }

    End end_;
    std::vector<Made> elements_;
};

}  // namespace ccatune
