// SPDX-License-Identifier: MIT
// Prefetches memory before it is used.
// With many flows in a simulation the data of a flow has left the nearest caches since the flow's last event.
// With few flows it is still there, and prefetching would only cost time.
#pragma once

#include <cstddef>

namespace ccatune {

inline constexpr std::size_t kLineBytes = 64;

inline void fetch(const void* what, std::size_t bytes) {
    const char* from = static_cast<const char*>(what);
    for (std::size_t offset = 0; offset < bytes; offset += kLineBytes) __builtin_prefetch(from + offset);
}

}  // namespace ccatune
