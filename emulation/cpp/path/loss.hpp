// SPDX-License-Identifier: MIT
// Packet loss that no queue causes.
//
//   random            each packet is lost with the same probability
//   Gilbert-Elliott   a channel with two states, each with its own loss probability.
//                     Before each packet it changes its state with probability p (good to bad) or r (bad to good):
//                       share of packets in the bad state   p / (p + r)
//                       mean length of a bad spell          1 / r packets
//                       mean loss                           (r loss_good + p loss_bad) / (p + r)
//
// Sources: Gilbert 1960, "Capacity of a burst-noise channel";
// Elliott 1963, "Estimates of error rates for codes on burst-noise channels".
// A channel starts in the good state.
// Random loss draws from one stream per flow, so the losses of one flow do not depend on the others.
// All packets share the state of a channel.
#pragma once

#include <cstdint>
#include <vector>

#include "common/random.hpp"
#include "path/element.hpp"

namespace ccatune {

struct RandomLossConfig {
    double share = 0;
};

class RandomLoss final : public Element {
public:
    RandomLoss(const RandomLossConfig& config, std::uint64_t seed, std::uint64_t stream, std::uint32_t flows)
        : chance_(config.share) {
        for (std::uint32_t flow = 0; flow < flows; ++flow) random_.emplace_back(seed, stream + flow);
    }

private:
    void arrive(Instant now, const Packet& packet) override {
        if (chance_.happens(random_[packet.flow]))
            drop();
        else
            pass(now, packet);
    }

    Chance chance_;
    std::vector<Random> random_;
};

struct GilbertElliottConfig {
    double to_bad = 0, to_good = 1;         // per packet
    double loss_good = 0, loss_bad = 1;
};

class GilbertElliott final : public Element {
public:
    GilbertElliott(const GilbertElliottConfig& config, std::uint64_t seed, std::uint64_t stream)
        : to_bad_(config.to_bad),
          to_good_(config.to_good),
          loss_good_(config.loss_good),
          loss_bad_(config.loss_bad),
          random_(seed, stream) {}

private:
    void arrive(Instant now, const Packet& packet) override {
        if ((bad_ ? to_good_ : to_bad_).happens(random_)) bad_ = !bad_;
        if ((bad_ ? loss_bad_ : loss_good_).happens(random_))
            drop();
        else
            pass(now, packet);
    }

    Chance to_bad_, to_good_, loss_good_, loss_bad_;
    Random random_;
    bool bad_ = false;
};

}  // namespace ccatune
