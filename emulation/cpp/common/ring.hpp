// SPDX-License-Identifier: MIT
// Ring buffers whose size is a power of two: a queue, and a window of slots with ever-growing numbers.
// Both double when they are full and never shrink.
// So a simulation stops allocating once it has reached its largest window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ccatune {

template <class T>
class Fifo {
public:
    explicit Fifo(std::size_t slots = 16) : slots_(slots), mask_(slots - 1) {}

    bool empty() const { return head_ == tail_; }
    std::size_t size() const { return tail_ - head_; }
    const T& front() const { return slots_[head_ & mask_]; }
    const T& back() const { return slots_[(tail_ - 1) & mask_]; }
    // Returns the n-th element after the front.
    T& operator[](std::size_t n) { return slots_[(head_ + n) & mask_]; }
    const T& operator[](std::size_t n) const { return slots_[(head_ + n) & mask_]; }
    void pop() { ++head_; }
    void clear() { head_ = tail_ = 0; }

    void push(const T& value) {
        if (size() == slots_.size()) grow();
        slots_[tail_++ & mask_] = value;
    }

private:
    void grow() {
        std::vector<T> larger(slots_.size() * 2);
        for (std::size_t i = head_; i != tail_; ++i) larger[i & (larger.size() - 1)] = slots_[i & mask_];
        slots_ = std::move(larger);
        mask_ = slots_.size() - 1;
    }

    std::vector<T> slots_;
    std::size_t mask_;
    std::size_t head_ = 0;
    std::size_t tail_ = 0;
};

// Slots for the numbers [first, last).
// The owner calls reserve() before it uses a number that is the ring's size or more beyond the first one in use.
template <class T>
class Window {
public:
    explicit Window(std::size_t slots = 16) : slots_(slots), mask_(slots - 1) {}

    T& operator[](std::uint32_t number) { return slots_[number & mask_]; }
    const T& operator[](std::uint32_t number) const { return slots_[number & mask_]; }

    // Makes room for the numbers [first, last] and keeps the content of [first, last).
    void reserve(std::uint32_t first, std::uint32_t last) {
        while (static_cast<std::size_t>(last - first) >= slots_.size()) grow(first, last);
    }

private:
    void grow(std::uint32_t first, std::uint32_t last) {
        std::vector<T> larger(slots_.size() * 2);
        const auto kept = static_cast<std::uint32_t>(slots_.size());
        for (std::uint32_t i = first; i != last && i - first < kept; ++i)
            larger[i & (larger.size() - 1)] = slots_[i & mask_];
        slots_ = std::move(larger);
        mask_ = slots_.size() - 1;
    }

    std::vector<T> slots_;
    std::size_t mask_;
};

}  // namespace ccatune
