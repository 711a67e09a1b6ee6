// SPDX-License-Identifier: MIT
// Runs independent pieces of work on threads.
// Each piece writes to its own place, so the result does not depend on the number of threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ccatune {

using Cancel = std::atomic<bool>;

// Calls work(i, cancel) for i in [0, count).
// Meanwhile the caller's thread calls `watch(done)` about ten times per second.
// If that throws, cancel becomes true, no further piece begins, and the exception is passed on.
// The first exception of a piece has the same effect.
inline void run_pool(std::size_t count, unsigned threads, const std::function<void(std::size_t, const Cancel&)>& work,
                     const std::function<void(std::size_t)>& watch) {
    std::atomic<std::size_t> next{0}, done{0};
    Cancel cancelled{false};
    std::exception_ptr failure;
    std::mutex mutex;
    std::condition_variable finished;
    unsigned running = std::max(1u, threads);

    auto worker = [&] {
        while (!cancelled) {
            const std::size_t i = next.fetch_add(1);
            if (i >= count) break;
            try {
                work(i, cancelled);
                done.fetch_add(1);
            } catch (...) {
                const std::scoped_lock lock(mutex);
                if (!failure) failure = std::current_exception();
                cancelled = true;
            }
        }
        const std::scoped_lock lock(mutex);
        --running;
        finished.notify_one();
    };
    std::vector<std::jthread> pool;
    for (unsigned i = 0, n = running; i < n; ++i) pool.emplace_back(worker);
    try {
        std::unique_lock lock(mutex);
        while (!finished.wait_for(lock, std::chrono::milliseconds(100), [&] { return running == 0; })) {
            lock.unlock();
            watch(done);
            lock.lock();
        }
    } catch (...) {
        cancelled = true;
        throw;  // the pool's destructor waits for the pieces under way, which see `cancelled`
    }
    pool.clear();
    if (failure) std::rethrow_exception(failure);
    watch(done);
}

}  // namespace ccatune
