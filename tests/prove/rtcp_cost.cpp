// SPDX-License-Identifier: MIT
// The cost that R-TCP adds to an ACK of its base algorithms, in the core alone. The inputs of simulated flows under
// R-TCP are recorded, and replayed in turn to the algorithm with R-TCP and to the one without it. Prints a line of JSON
// for each base and phase; argument: the number of passes.
//
//   idle        no policer: nothing has triggered R-TCP
//   estimating  behind a policer, from the trigger to the classification: all candidates live
//   limited     from there on: estimate, tokens, cap and probes
//
// Policers and round trips are those of the operators 1 to 3 of R-TCP 2026 (Table 1), each behind accesses of 20, 50
// and 100 Mbit/s, with jitter of up to 2 ms by four seeds: 36 flows, so that a predictor of branches does not know them
// by heart. A pass takes each flow once, from states that were kept of its phase's beginning, without R-TCP and with
// it. What R-TCP adds to a flow is the median of the differences over the passes: who takes the processor away
// meanwhile takes it from few of them. The figures are means over the ACKs of all flows.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/rtcp_algorithm.hpp"
#include "simulation/simulation.hpp"

using namespace ccatune;

namespace {

constexpr std::uint32_t kHash = 1;
constexpr std::uint32_t kFilePkts = 4000;       // more than any bucket, and all that a pass can take of a flow
constexpr std::size_t kMostSteps = 500;         // of a flow in a phase
constexpr std::uint64_t kSeeds = 4;
constexpr std::uint32_t kMostPasses = 10'000;

struct Limiter {
    std::uint64_t bytes_per_s, bucket_bytes;
    std::int64_t rtt_ms;
};
constexpr std::array<Limiter, 3> kOperators = {
    {{258'750, 733'000, 36}, {162'500, 385'000, 18}, {130'000, 223'000, 21}}};
constexpr std::array<double, 3> kAccessBytesPerS = {2.5e6, 6.25e6, 12.5e6};

// --- what a flow was told

// Window mode: with the window that the call found, which is then the algorithm's.
struct Step {
    enum class Kind : std::uint8_t { ack, grow, ssthresh, undo, event, loss };

    Kind kind;
    std::uint32_t waiting_pkts = 0, acked_pkts = 0;
    cca_window window{};
    union {
        cca_ack ack{};
        cca_event event;
        cca_loss loss;
    };
};

struct Script {
    cca_start start{};
    std::vector<Step> steps;
    std::uint64_t outcome = 0;  // of all that was decided
};

void note(std::uint64_t* outcome, std::uint64_t word) { *outcome = (*outcome ^ word) * 0x100000001b3u; }
void note(std::uint64_t* outcome, const cca_window& window) {
    note(outcome, std::uint64_t{window.cwnd_pkts} << 32 | window.ssthresh_pkts);
}
void note(std::uint64_t* outcome, const cca_decision& decision) {
    note(outcome, decision.pacing_bytes_per_s);
    note(outcome, decision.cwnd_pkts);
}

RtcpRows no_rows() {
    rtcp_params params;
    cca_params_init(&params, CCA_ID_rtcp_cubic);
    return {params, {nullptr, 0, kHash}};
}

class TappedCubic {
public:
    explicit TappedCubic(Script* script) : core_(no_rows(), {nullptr, 0}), script_(script) {}

    void start(const cca_start& start, cca_window* window) {
        script_->start = start;
        core_.start(start, window);
    }
    void weigh(std::uint64_t now_us, std::uint32_t waiting_pkts) {
        waiting_pkts_ = waiting_pkts;
        core_.weigh(now_us, waiting_pkts);
    }
    void on_ack(const cca_ack& ack, cca_window* window) {
        Step& step = add(Step::Kind::ack, *window);
        step.waiting_pkts = waiting_pkts_;
        step.ack = ack;
        core_.on_ack(ack, window);
        note(&script_->outcome, *window);
    }
    void grow(cca_window* window, std::uint32_t acked_pkts) {
        add(Step::Kind::grow, *window).acked_pkts = acked_pkts;
        core_.grow(window, acked_pkts);
        note(&script_->outcome, *window);
    }
    std::uint32_t ssthresh(cca_window* window) {
        add(Step::Kind::ssthresh, *window);
        const std::uint32_t pkts = core_.ssthresh(window);
        note(&script_->outcome, pkts);
        return pkts;
    }
    std::uint32_t undo(const cca_window* window) {
        add(Step::Kind::undo, *window);
        const std::uint32_t pkts = core_.undo(window);
        note(&script_->outcome, pkts);
        return pkts;
    }
    void on_event(const cca_event& event) {
        add(Step::Kind::event, {}).event = event;
        core_.on_event(event);
    }

private:
    Step& add(Step::Kind kind, const cca_window& window) {
        Step& step = script_->steps.emplace_back();
        step.kind = kind;
        step.window = window;
        return step;
    }

    RtcpCubicCore core_;
    Script* script_;
    std::uint32_t waiting_pkts_ = 0;
};

class TappedControl final : public Algorithm {
public:
    TappedControl(std::unique_ptr<Algorithm> inner, Script* script) : inner_(std::move(inner)), script_(script) {}

    void start(const cca_start& start) override {
        script_->start = start;
        inner_->start(start);
        decide();
    }
    void on_loss(const cca_loss& loss) override {
        add(Step::Kind::loss).loss = loss;
        inner_->on_loss(loss);
    }
    void on_ack(const cca_ack& ack) override {
        Step& step = add(Step::Kind::ack);
        step.waiting_pkts = host.waiting_pkts;
        step.ack = ack;
        inner_->host = host;
        inner_->on_ack(ack);
        decide();
    }
    void on_event(const cca_event& event) override {
        add(Step::Kind::event).event = event;
        inner_->on_event(event);
        decide();
    }
    bool looks_with_acks() const override { return inner_->looks_with_acks(); }

private:
    Step& add(Step::Kind kind) {
        Step& step = script_->steps.emplace_back();
        step.kind = kind;
        return step;
    }
    void decide() {
        decision_ = inner_->decision();
        least_burst_pkts_ = inner_->least_burst_pkts();
        note(&script_->outcome, decision_);
    }

    std::unique_ptr<Algorithm> inner_;
    Script* script_;
};

// A file over such an access, behind the operator's policer or without it.
template <class Pair>
Script record(const Limiter& limiter, double access_bytes_per_s, std::uint64_t seed, bool policed) {
    Script script;
    SimulationConfig config;
    config.link.rate_bytes_per_s = access_bytes_per_s;
    config.rtt = Duration::from_ms(limiter.rtt_ms);
    config.duration = Duration::from_s(120);
    config.seed = seed;
    if (policed) config.behind.push_back(PolicerConfig{limiter.bytes_per_s, limiter.bucket_bytes, false, {}});
    config.behind.push_back(DelayerConfig{1, {}, Duration::from_ms(2), true});
    std::vector<FlowConfig> flows(1);
    flows[0].algorithm = Pair::tapped(&script);
    flows[0].transfers = {{kFilePkts, {}, 1}};
    run_simulation(config, std::move(flows));
    return script;
}

// --- who is told: the core, and nothing around it

class PlainCubic {
public:
    explicit PlainCubic(const Script& script) {
        cca_params_init(&params_, CCA_ID_cubic);
        cubic_init(&state_, &params_, &script.start);
    }

    void take(const Step& step) {
        cca_window window = step.window;
        switch (step.kind) {
            case Step::Kind::ack:
                cubic_on_ack(&state_, &params_, &step.ack, &window);
                break;
            case Step::Kind::grow:
                cubic_grow(&state_, &params_, &window, step.acked_pkts);
                break;
            case Step::Kind::ssthresh:
                window.ssthresh_pkts = cubic_ssthresh(&state_, &params_, &window);
                break;
            case Step::Kind::undo:
                window.cwnd_pkts = cubic_undo(&state_, &window);
                break;
            default:
                cubic_on_event(&state_, &step.event);
        }
        window_ = window;
    }

private:
    cubic_params params_;
    cubic_state state_;
    cca_window window_{};  // that the host would take
};

class RtcpCubic {
public:
    explicit RtcpCubic(const Script& script) {
        rtcp_cubic_params_init(&params_);
        rtcp_client_init(&client_, script.start.now_us);
        rtcp_cubic_init(&state_, &params_, &client_, &script.start);
    }

    void take(const Step& step) {
        cca_window window = step.window;
        switch (step.kind) {
            case Step::Kind::ack:
                rtcp_flow_update_share(&state_.flow, &client_, std::uint64_t{step.waiting_pkts} * kMssBytes);
                rtcp_cubic_on_ack(&state_, &params_, &client_, &step.ack, &window);
                break;
            case Step::Kind::grow:
                rtcp_cubic_grow(&state_, &params_, &client_, &window, step.acked_pkts);
                break;
            case Step::Kind::ssthresh:
                window.ssthresh_pkts = rtcp_cubic_ssthresh(&state_, &params_, &client_, &window);
                break;
            case Step::Kind::undo:
                window.cwnd_pkts = rtcp_cubic_undo(&state_, &params_, &client_, &window);
                break;
            default:
                rtcp_cubic_on_event(&state_, &params_, &client_, &step.event);
        }
        window_ = window;
    }
    void start(std::uint64_t*) {}
    void note_outcome(const Step& step, std::uint64_t* outcome) const {
        switch (step.kind) {
            case Step::Kind::ssthresh:
                return note(outcome, window_.ssthresh_pkts);
            case Step::Kind::undo:
                return note(outcome, window_.cwnd_pkts);
            case Step::Kind::ack:
            case Step::Kind::grow:
                return note(outcome, window_);
            default:
                return;
        }
    }
    const rtcp_client& client() const { return client_; }

private:
    rtcp_cubic_params params_;
    rtcp_cubic_state state_;
    rtcp_client client_;
    cca_window window_{};
};

class PlainBbr1 {
public:
    explicit PlainBbr1(const Script& script) {
        cca_params_init(&params_, CCA_ID_bbr);
        bbr1_init(&state_, &params_, &script.start, kHash, &decision_);
    }
    void take(const Step& step) {
        if (step.kind == Step::Kind::ack)
            bbr1_on_ack(&state_, &params_, &step.ack, &decision_);
        else if (step.kind == Step::Kind::event)
            bbr1_on_event(&state_, &params_, &step.event, &decision_);
    }

private:
    bbr1_params params_;
    bbr1_state state_;
    cca_decision decision_{};
};

class PlainBbr3 {
public:
    explicit PlainBbr3(const Script& script) {
        cca_params_init(&params_, CCA_ID_bbr3);
        bbr3_init(&state_, &params_, &script.start, kHash, &decision_);
    }
    void take(const Step& step) {
        if (step.kind == Step::Kind::ack)
            bbr3_on_ack(&state_, &params_, &step.ack, &decision_);
        else if (step.kind == Step::Kind::event)
            bbr3_on_event(&state_, &params_, &step.event, &decision_);
        else
            bbr3_on_loss(&state_, &params_, &step.loss);
    }

private:
    bbr3_params params_;
    bbr3_state state_;
    cca_decision decision_{};
};

// What the two of control mode have alike.
template <class Params, class State>
class RtcpControl {
public:
    void note_outcome(const Step& step, std::uint64_t* outcome) const {
        if (step.kind != Step::Kind::loss) note(outcome, decision_);
    }
    void start(std::uint64_t* outcome) const { note(outcome, decision_); }
    const rtcp_client& client() const { return client_; }

protected:
    void weigh(const Step& step) {
        rtcp_flow_update_share(&state_.flow, &client_, std::uint64_t{step.waiting_pkts} * kMssBytes);
    }

    Params params_;
    State state_;
    rtcp_client client_;
    cca_decision decision_{};
};

class RtcpBbr1 : public RtcpControl<rtcp_bbr1_params, rtcp_bbr1_state> {
public:
    explicit RtcpBbr1(const Script& script) {
        rtcp_bbr1_params_init(&params_);
        rtcp_client_init(&client_, script.start.now_us);
        rtcp_bbr1_init(&state_, &params_, &client_, &script.start, kHash, &decision_);
    }
    void take(const Step& step) {
        if (step.kind == Step::Kind::ack) {
            weigh(step);
            rtcp_bbr1_on_ack(&state_, &params_, &client_, &step.ack, &decision_);
        } else if (step.kind == Step::Kind::event) {
            rtcp_bbr1_on_event(&state_, &params_, &client_, &step.event, &decision_);
        }
    }
};

class RtcpBbr3 : public RtcpControl<rtcp_bbr3_params, rtcp_bbr3_state> {
public:
    explicit RtcpBbr3(const Script& script) {
        rtcp_bbr3_params_init(&params_);
        rtcp_client_init(&client_, script.start.now_us);
        rtcp_bbr3_init(&state_, &params_, &client_, &script.start, kHash, &decision_);
    }
    void take(const Step& step) {
        if (step.kind == Step::Kind::ack) {
            weigh(step);
            rtcp_bbr3_on_ack(&state_, &params_, &client_, &step.ack, &decision_);
        } else if (step.kind == Step::Kind::event) {
            rtcp_bbr3_on_event(&state_, &params_, &client_, &step.event, &decision_);
        } else {
            rtcp_bbr3_on_loss(&state_, &params_, &step.loss);
        }
    }
};

struct CubicPair {
    using Plain = PlainCubic;
    using Rtcp = RtcpCubic;
    static constexpr std::size_t kExtraBytes = RTCP_EXTRA_BYTES(rtcp_cubic_state, cubic_state);
    static std::unique_ptr<Algorithm> tapped(Script* script) {
        return std::make_unique<WindowAlgorithm<TappedCubic>>(TappedCubic(script));
    }
};

struct Bbr1Pair {
    using Plain = PlainBbr1;
    using Rtcp = RtcpBbr1;
    static constexpr std::size_t kExtraBytes = RTCP_EXTRA_BYTES(rtcp_bbr1_state, bbr1_state);
    static std::unique_ptr<Algorithm> tapped(Script* script) {
        return std::make_unique<TappedControl>(
            std::make_unique<RtcpBbr1Algorithm>(no_rows(), kHash, RtcpClient{nullptr, 0}), script);
    }
};

struct Bbr3Pair {
    using Plain = PlainBbr3;
    using Rtcp = RtcpBbr3;
    static constexpr std::size_t kExtraBytes = RTCP_EXTRA_BYTES(rtcp_bbr3_state, bbr3_state);
    static std::unique_ptr<Algorithm> tapped(Script* script) {
        return std::make_unique<TappedControl>(
            std::make_unique<RtcpBbr3Algorithm>(no_rows(), kHash, RtcpClient{nullptr, 0}), script);
    }
};

// --- phases

enum class Phase { idle, estimating, limited, other };

Phase phase_of(const rtcp_client& client) {
    if (client.kind == RTCP_LIMITED) return Phase::limited;
    if (client.kind != RTCP_UNKNOWN) return Phase::other;
    return client.fit.count ? Phase::estimating : Phase::idle;
}

// A phase of a flow: its steps, and both states at its beginning.
template <class Pair>
struct Section {
    typename Pair::Plain plain;
    typename Pair::Rtcp rtcp;
    std::vector<Step> steps;
};

// The first time that a flow is in the phase, without the step that ends it; none: it never is.
template <class Pair>
std::optional<Section<Pair>> section_of(const Script& script, Phase phase) {
    typename Pair::Plain plain(script);
    typename Pair::Rtcp rtcp(script);
    std::optional<Section<Pair>> found;
    std::uint64_t outcome = 0;
    bool over = false;
    rtcp.start(&outcome);
    for (const Step& step : script.steps) {
        const bool in_it = phase_of(rtcp.client()) == phase;
        if (in_it && !found) found = Section<Pair>{plain, rtcp, {}};
        plain.take(step);
        rtcp.take(step);
        rtcp.note_outcome(step, &outcome);
        over = over || (found && (phase_of(rtcp.client()) != phase || found->steps.size() == kMostSteps));
        if (found && !over) found->steps.push_back(step);
    }
    if (outcome != script.outcome) throw std::logic_error("the core decides otherwise than in the simulator");
    return found;
}

template <class Pair>
std::vector<Section<Pair>> sections_of(Phase phase) {
    std::vector<Section<Pair>> sections;
    const auto add = [&](const Script& script) {
        auto section = section_of<Pair>(script, phase);
        if (section) sections.push_back(std::move(*section));
    };
    for (const Limiter& limiter : kOperators)
        for (const double access_bytes_per_s : kAccessBytesPerS)
            for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
                add(record<Pair>(limiter, access_bytes_per_s, seed, phase != Phase::idle));
    return sections;
}

// --- time

// Nanoseconds an ACK, and how many ACKs a pass has.
struct Cost {
    double plain_ns = 0, rtcp_ns = 0, added_ns = 0;
    std::uint32_t acks = 0;
};

// Of a flow, by passes.
struct Times {
    std::vector<double> plain_ns, rtcp_ns, added_ns;
};

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// core: a copy, which starts where the section does.
template <class Core>
double spent_ns(Core core, const std::vector<Step>& steps) {
    const auto start = std::chrono::steady_clock::now();
    for (const Step& step : steps) core.take(step);
    asm volatile("" : : "g"(&core) : "memory");  // it is looked at
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    return spent.count();
}

std::uint32_t acks_of(const std::vector<Step>& steps) {
    const auto is_ack = [](const Step& step) { return step.kind == Step::Kind::ack; };
    return static_cast<std::uint32_t>(std::count_if(steps.begin(), steps.end(), is_ack));
}

template <class Pair>
Cost cost_of(Phase phase, std::uint32_t passes) {
    const auto sections = sections_of<Pair>(phase);
    std::vector<Times> times(sections.size());
    for (std::uint32_t pass = 0; pass < passes; ++pass)
        for (std::size_t i = 0; i < sections.size(); ++i) {
            const double plain_ns = spent_ns(sections[i].plain, sections[i].steps);
            const double rtcp_ns = spent_ns(sections[i].rtcp, sections[i].steps);
            times[i].plain_ns.push_back(plain_ns);
            times[i].rtcp_ns.push_back(rtcp_ns);
            times[i].added_ns.push_back(rtcp_ns - plain_ns);
        }
    Cost cost;
    for (std::size_t i = 0; i < sections.size(); ++i) {
        cost.acks += acks_of(sections[i].steps);
        cost.plain_ns += median(times[i].plain_ns);
        cost.rtcp_ns += median(times[i].rtcp_ns);
        cost.added_ns += median(times[i].added_ns);
    }
    if (!cost.acks) throw std::logic_error("no flow was ever in this phase");
    for (double* sum : {&cost.plain_ns, &cost.rtcp_ns, &cost.added_ns}) *sum /= cost.acks;
    return cost;
}

Phase phase_named(const std::string& name) {
    if (name == "idle") return Phase::idle;
    if (name == "estimating") return Phase::estimating;
    if (name == "limited") return Phase::limited;
    throw std::invalid_argument("phase: expected idle, estimating or limited, got " + name);
}

template <class Work>
auto with_pair(const std::string& base, Work&& work) {
    if (base == "cubic") return work(CubicPair{});
    if (base == "bbr") return work(Bbr1Pair{});
    if (base == "bbr3") return work(Bbr3Pair{});
    throw std::invalid_argument("base: expected cubic, bbr or bbr3, got " + base);
}

Cost rtcp_cost(const std::string& base, const std::string& phase, std::uint32_t passes) {
    const Phase which = phase_named(phase);
    const std::uint32_t times = std::clamp(passes, 1u, kMostPasses);
    return with_pair(base, [&](auto pair) { return cost_of<decltype(pair)>(which, times); });
}

std::size_t rtcp_extra_bytes(const std::string& base) {
    return with_pair(base, [](auto pair) { return decltype(pair)::kExtraBytes; });
}

}  // namespace

int main(int argc, char** argv) {
    const auto passes = static_cast<std::uint32_t>(argc > 1 ? std::stoul(argv[1]) : 51);
    for (const std::string base : {"cubic", "bbr", "bbr3"})
        for (const std::string phase : {"idle", "estimating", "limited"}) {
            const Cost cost = rtcp_cost(base, phase, passes);
            std::printf("{\"base\": \"%s\", \"phase\": \"%s\", \"acks\": %u, \"plain_ns\": %.2f, \"rtcp_ns\": %.2f, "
                        "\"added_ns\": %.2f, \"extra_bytes\": %zu}\n",
                        base.c_str(), phase.c_str(), static_cast<unsigned>(cost.acks), cost.plain_ns, cost.rtcp_ns,
                        cost.added_ns, rtcp_extra_bytes(base));
        }
}
