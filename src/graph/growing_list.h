#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <stdexcept>

namespace cohort::internal {

// A list that only grows. Elements never move, so references to them stay valid, and reading takes
// no lock: any number of threads may read while one adds.
template <typename T>
class GrowingList {
 public:
  size_t size() const { return size_.load(std::memory_order_acquire); }

  const T& at(size_t i) const {
    if (i >= size()) throw std::out_of_range("GrowingList");
    const Place place(i);
    return chunks_[place.chunk][place.offset];
  }

  // One thread at a time.
  void push_back(T value) {
    const size_t next = size_.load(std::memory_order_relaxed);
    const Place place(next);
    if (!chunks_[place.chunk]) chunks_[place.chunk] = std::make_unique<T[]>(place.length());
    chunks_[place.chunk][place.offset] = std::move(value);
    size_.store(next + 1, std::memory_order_release);
  }

 private:
  static constexpr size_t kFirstLength = 16;

  // Each chunk is twice as long as the one before.
  struct Place {
    explicit Place(size_t i)
        : chunk(std::bit_width((i + kFirstLength) / kFirstLength) - 1),
          offset(i + kFirstLength - length()) {}
    size_t length() const { return kFirstLength << chunk; }

    size_t chunk;
    size_t offset;
  };

  std::array<std::unique_ptr<T[]>, 40> chunks_;  // chunks within size_ are constant
  std::atomic<size_t> size_{0};
};

}  // namespace cohort::internal
