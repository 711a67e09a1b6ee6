// SPDX-License-Identifier: MIT
// Converts results to NumPy arrays and dictionaries, with types that the stub can express.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace ccatune {

namespace nb = nanobind;

using Dict = nb::typed<nb::dict, nb::str, nb::any>;

// An array that owns its numbers.
template <class T>
nb::ndarray<nb::numpy, T> owned(std::vector<T> values, std::vector<std::size_t> shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner);
}

template <class T>
nb::ndarray<nb::numpy, T> owned(std::vector<T> values) {
    const std::size_t n = values.size();
    return owned(std::move(values), {n});
}

}  // namespace ccatune
