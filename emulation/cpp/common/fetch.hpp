// SPDX-License-Identifier: MIT
// Asks for memory ahead of its use. With many flows in a simulation what an event
// touches has left the nearest caches since that flow's last one; with few it is
// there, and asking would only cost.
#pragma once

#include <cstddef>

namespace ccatune {

inline constexpr std::size_t kLineBytes = 64;

inline void fetch(const void* what, std::size_t bytes) {
    const char* from = static_cast<const char*>(what);
    for (std::size_t offset = 0; offset < bytes; offset += kLineBytes) __builtin_prefetch(from + offset);
}

}  // namespace ccatune
