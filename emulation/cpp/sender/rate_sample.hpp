// SPDX-License-Identifier: MIT
// Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, section 3).
// Of the segments that an ACK delivers, the one that was sent last gives a sample:
//
//   send interval   from the first transmission of its flight to its own transmission
//   ACK interval    from the last delivery before its transmission to now
//   rate            delivered in the ACK interval / the longer of the two intervals
//
// There is no sample if the longer interval is shorter than the minimum RTT.
// A sample is marked application-limited if its segment was sent while the application lacked data.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cca.h"
#include "sender/scoreboard.hpp"

namespace ccatune {

class RateSampler {
public:
    std::uint32_t delivered_pkts() const { return delivered_pkts_; }
    bool is_app_limited() const { return app_limited_until_ != 0; }

    // Call when a segment is sent with nothing outstanding: a new flight begins.
    void begin_flight(std::uint32_t now_us) { first_sent_us_ = delivered_us_ = now_us; }

    void stamp(Segment& segment, std::uint32_t now_us) const {
        segment.sent_us = now_us;
        segment.delivered_us = delivered_us_;
        segment.first_sent_us = first_sent_us_;
        segment.delivered_pkts = delivered_pkts_;
        segment.app_limited = is_app_limited();
    }

    // The application had no more data.
    // Until the segments in flight are delivered, new ones are application-limited.
    void run_dry(std::uint32_t in_flight_pkts) {
        app_limited_until_ = std::max(delivered_pkts_ + in_flight_pkts, 1u);
    }

    // An ACK delivered `pkts` segments.
    // newest: the one sent last, in its state before it arrived.
    void sample(std::uint32_t now_us, std::uint32_t pkts, const Segment& newest, std::uint32_t min_rtt_us,
                cca_ack* report) {
        delivered_pkts_ += pkts;
        delivered_us_ = now_us;
        // The counters may wrap, so their difference is compared.
        if (app_limited_until_ && static_cast<std::int32_t>(delivered_pkts_ - app_limited_until_) > 0)
            app_limited_until_ = 0;
        const std::uint32_t sending_us = newest.sent_us - newest.first_sent_us;
        const std::uint32_t acking_us = now_us - newest.delivered_us;
        const std::uint32_t interval_us = std::max(sending_us, acking_us);
        first_sent_us_ = newest.sent_us;
        report->app_limited = newest.app_limited;
        if (interval_us < min_rtt_us) return;
        report->rate_interval_us = interval_us;
        report->rate_pkts = delivered_pkts_ - newest.delivered_pkts;
    }

private:
    std::uint32_t delivered_pkts_ = 0;
    std::uint32_t delivered_us_ = 0, first_sent_us_ = 0;
    std::uint32_t app_limited_until_ = 0;  // delivered count up to which the mark is set; 0: no mark
};

}  // namespace ccatune
