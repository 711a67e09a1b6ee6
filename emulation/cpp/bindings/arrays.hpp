// SPDX-License-Identifier: MIT
// Converts results to NumPy arrays and dictionaries, with types that the stub can express.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <functional>
#include <type_traits>
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

// An array with a value of each row.
// value: a member of the row, or a function of it.
template <class Row, class Value>
auto column(const std::vector<Row>& rows, Value value, std::vector<std::size_t> shape = {}) {
    std::vector<std::decay_t<std::invoke_result_t<Value, const Row&>>> values;
    values.reserve(rows.size());
    for (const Row& row : rows) values.push_back(std::invoke(value, row));
    return owned(std::move(values), shape.empty() ? std::vector<std::size_t>{rows.size()} : std::move(shape));
}

}  // namespace ccatune
