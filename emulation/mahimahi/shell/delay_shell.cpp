// SPDX-License-Identifier: MIT
// A shell in the manner of Mahimahi's mm-delay, with a delay that changes over time:
//
//   delay-shell [--begin FIFO] TRACE COMMAND [ARGUMENT...]
//
// It runs the command in a network namespace of its own, as the user who started the shell.
// Each packet in or out is delayed by the delay in force when it entered, in order (delay_steps.hpp).
// mm-delay has one delay for ever, and netem reorders packets when the delay falls.
//
// TRACE     delays by time (delay_trace.hpp). They begin when the shell starts
// --begin   The first delay holds until the FIFO has a line with a time in s since 1970, and the delays begin then.
//           mm-link inside starts later than this shell, and only its log says when its own trace began
//
// The command's environment has MAHIMAHI_BASE, the address of the outermost shell's surroundings, as with mm-delay.
// It requires root or setuid root, for the namespace and the devices. The exit status is that of the command.
//
// Limits: a packet leaves when a timer wakes the shell, some tens of us late. Addresses are not translated (tun.hpp).
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <array>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <optional>
#include <vector>

#include "common/delay_steps.hpp"
#include "delay_trace.hpp"
#include "tun.hpp"

namespace ccatune {
namespace {

constexpr int kUsage = 2;
constexpr std::size_t kMostBytes = 65'536;
// Packets that are read from a device before the other one has its turn.
constexpr int kMostAtOnce = 64;

struct Options {
    std::string begin, trace;
    char** command;
};

Instant clock_of(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return {static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec};
}

Instant now_here() { return clock_of(CLOCK_MONOTONIC); }

// Within its scope the process has the rights of the user who started the shell.
// It therefore opens no file that this user may not open.
class AsUser {
public:
    AsUser() : effective_(geteuid()) {
        if (seteuid(getuid()) < 0) fail("seteuid");
    }
    ~AsUser() {
        if (seteuid(effective_) < 0) std::abort();
    }
    AsUser(const AsUser&) = delete;
    AsUser& operator=(const AsUser&) = delete;

private:
    uid_t effective_;
};

// When the delays begin. Before that the first one holds.
class Beginning {
public:
    explicit Beginning(const std::string& fifo) {
        if (fifo.empty()) {
            at_ = now_here();
            return;
        }
        const AsUser as_user;
        // Opened for writing as well, because a FIFO without a writer is always ready to read.
        fifo_ = open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
        if (fifo_ < 0) fail(fifo);
    }

    int fifo() const { return fifo_; }

    Instant in_trace(Instant now) const { return at_ && *at_ < now ? Instant{} + (now - *at_) : Instant{}; }

    void read_line() {
        char text[64];
        const ssize_t bytes = read(fifo_, text, sizeof text);
        if (bytes > 0) line_.append(text, static_cast<std::size_t>(bytes));
        if (line_.find('\n') == std::string::npos) return;
        const Duration since_1970 = Duration::from_s(std::strtod(line_.c_str(), nullptr));
        at_ = now_here() + (Instant{since_1970.ns} - clock_of(CLOCK_REALTIME));
        line_.clear();
    }

private:
    int fifo_ = -1;
    std::string line_;
    std::optional<Instant> at_;
};

// The packets from one device to the other.
class Direction {
public:
    Direction(int from, int to, const DelaySteps& steps) : from_(from), to_(to), steps_(steps) {}

    void take(const Beginning& beginning) {
        for (int n = 0; n < kMostAtOnce; ++n) {
            const ssize_t bytes = read(from_, buffer_.data(), buffer_.size());
            if (bytes <= 0) return;
            const Instant now = now_here();
            const Instant leaves_at = order_.leaves_at(now, steps_.at(beginning.in_trace(now)));
            held_.push_back({leaves_at, {buffer_.begin(), buffer_.begin() + bytes}});
        }
    }

    Instant next_at() const { return held_.empty() ? Instant::never() : held_.front().leaves_at; }

    // A device that does not take a packet drops it.
    void release(Instant now) {
        while (!held_.empty() && held_.front().leaves_at <= now) {
            const auto& bytes = held_.front().bytes;
            if (write(to_, bytes.data(), bytes.size()) < 0 && errno == EBADFD) fail("write");
            held_.pop_front();
        }
    }

private:
    struct Held {
        Instant leaves_at;
        std::vector<char> bytes;
    };

    int from_, to_;
    const DelaySteps& steps_;
    Order order_;
    std::deque<Held> held_;
    std::vector<char> buffer_ = std::vector<char>(kMostBytes);
};

// Blocks the signals that end the shell or report the end of the command, and returns a descriptor that gives them.
int take_signals(sigset_t* before) {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&taken, number);
    if (sigprocmask(SIG_BLOCK, &taken, before) < 0) fail("sigprocmask");
    const int signals = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals < 0) fail("signalfd");
    return signals;
}

// Runs the command as the user who started the shell.
pid_t start(char** command, const sigset_t& signals_before, const std::string& address) {
    setenv("MAHIMAHI_BASE", address.c_str(), 0);  // an outer shell has already set it
    const pid_t shell = getpid(), child = fork();
    if (child < 0) fail("fork");
    if (child > 0) return child;
    sigprocmask(SIG_SETMASK, &signals_before, nullptr);
    if (setresgid(getgid(), getgid(), getgid()) < 0 || setresuid(getuid(), getuid(), getuid()) < 0) _exit(kUsage);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != shell) _exit(kUsage);
    execvp(command[0], command);
    std::fprintf(stderr, "delay-shell: %s: %s\n", command[0], std::strerror(errno));
    _exit(127);
}

// Handles the signals that came. Returns the exit status once the command has ended.
std::optional<int> handle_signals(int signals, pid_t command) {
    signalfd_siginfo came;
    while (read(signals, &came, sizeof came) == sizeof came)
        if (came.ssi_signo != SIGCHLD) kill(command, static_cast<int>(came.ssi_signo));
    int status = 0;
    if (waitpid(command, &status, WNOHANG) != command) return std::nullopt;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int forward(const Devices& devices, const DelaySteps& steps, Beginning* beginning, int signals, pid_t command) {
    Direction out(devices.inside, devices.outside, steps), in(devices.outside, devices.inside, steps);
    std::array<pollfd, 4> polled{{{devices.inside, POLLIN, 0},
                                  {devices.outside, POLLIN, 0},
                                  {signals, POLLIN, 0},
                                  {beginning->fifo(), POLLIN, 0}}};
    for (;;) {
        const Instant next = std::min(out.next_at(), in.next_at());
        const std::int64_t wait_ns = next == Instant::never() ? 0 : std::max((next - now_here()).ns, std::int64_t{0});
        const timespec wait{wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
        const timespec* most = next == Instant::never() ? nullptr : &wait;
        if (ppoll(polled.data(), polled.size(), most, nullptr) < 0 && errno != EINTR) fail("ppoll");
        if (polled[3].revents & POLLIN) beginning->read_line();
        if (polled[0].revents & POLLIN) out.take(*beginning);
        if (polled[1].revents & POLLIN) in.take(*beginning);
        const Instant now = now_here();
        out.release(now);
        in.release(now);
        if (polled[2].revents & POLLIN)
            if (const auto status = handle_signals(signals, command)) return *status;
    }
}

std::optional<Options> options_of(int argc, char** argv) {
    Options options{};
    int at = 1;
    if (at + 1 < argc && std::string(argv[at]) == "--begin") {
        options.begin = argv[at + 1];
        at += 2;
    }
    if (at + 1 >= argc) return std::nullopt;
    options.trace = argv[at];
    options.command = argv + at + 1;
    return options;
}

int run(const Options& options) {
    const auto steps = [&] {
        const AsUser as_user;
        return DelayTraceReader::read(options.trace);
    }();
    if (geteuid() != 0) throw std::runtime_error("expected root, for namespaces and devices; run it as root");
    Beginning beginning(options.begin);
    sigset_t signals_before;
    const int signals = take_signals(&signals_before);
    const Devices devices = make_devices();
    // Timers of an ordinary process are up to 50 us late otherwise.
    prctl(PR_SET_TIMERSLACK, 1);
    const pid_t command = start(options.command, signals_before, text_of(devices.outside_address));
    return forward(devices, *steps, &beginning, signals, command);
}

}  // namespace
}  // namespace ccatune

int main(int argc, char** argv) {
    const auto options = ccatune::options_of(argc, argv);
    if (!options) {
        std::fprintf(stderr, "usage: delay-shell [--begin FIFO] TRACE COMMAND [ARGUMENT...]\n");
        return ccatune::kUsage;
    }
    try {
        return ccatune::run(*options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "delay-shell: %s\n", error.what());
        return ccatune::kUsage;
    }
}
