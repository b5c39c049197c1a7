#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

// The least that any program would have to do: plain loops over float32 in memory that the members
// share, without checks, names, or errors.
namespace cohort::bench {

struct alignas(128) Counter {
  std::atomic<uint64_t> value;
};

class Limits {
 public:
  static constexpr size_t kMembers = 16;
  static constexpr size_t kChunk = 32768;  // elements
  static constexpr size_t kSlots = 4;
  // Elements of zeroed shared memory that it needs.
  static size_t elements(int size) {
    return sizeof(Counters) / sizeof(float) + static_cast<size_t>(size) * kSlots * kChunk;
  }

  Limits(int rank, int size, float* shared)
      : rank_(rank),
        size_(size),
        counters_(*reinterpret_cast<Counters*>(shared)),
        stage_(shared + sizeof(Counters) / sizeof(float)),
        looks_(static_cast<unsigned>(size) > std::thread::hardware_concurrency() ? 50 : 20000) {}

  // Everybody's values lie in `all`; each adds up its slice for all.
  void shared(const std::vector<float*>& all, size_t count) {
    ++calls_;
    meet(counters_.in, calls_);
    const size_t part = (count / size_ + 15) / 16 * 16;
    const size_t begin = std::min(count, part * rank_);
    const size_t end = rank_ + 1 == size_ ? count : std::min(count, part * (rank_ + 1));
    if (size_ == 2) {
      add_for_all<2>(all, begin, end);
    } else {
      add_for_all<4>(all, begin, end);
    }
    meet(counters_.out, calls_);
  }

  // Everybody's values are its own; chunks are copied in and out.
  void staged(float* values, size_t count) {
    const size_t chunks = (count + kChunk - 1) / kChunk;
    size_t put = 0;
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
      for (; put < std::min(chunks, chunk + 2); ++put) {
        put_in(round_ + put, values + put * kChunk, length(count, put));
      }
      if (size_ == 2) {
        take_two(round_ + chunk, values + chunk * kChunk, length(count, chunk));
      } else {
        take_slices(round_ + chunk, values + chunk * kChunk, length(count, chunk));
      }
      counters_.done[rank_].value.store(round_ + chunk + 1, std::memory_order_release);
    }
    round_ += chunks;
  }

 private:
  struct Counters {
    Counter in[kMembers], out[kMembers], staged[kMembers], reduced[kMembers], done[kMembers];
  };

  template <size_t kSize>
  [[gnu::target("avx2"), gnu::optimize("O3")]] static void add_for_all(
      const std::vector<float*>& all, size_t begin, size_t end) {
    float* at[kSize];
    for (size_t k = 0; k < kSize; ++k) at[k] = all[k];
#pragma GCC ivdep
    for (size_t i = begin; i < end; ++i) {
      float sum = at[0][i];
      for (size_t k = 1; k < kSize; ++k) sum += at[k][i];
      for (size_t k = 0; k < kSize; ++k) at[k][i] = sum;
    }
  }
  [[gnu::target("avx2"), gnu::optimize("O3")]] static void add(float* to, const float* from,
                                                               size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) to[i] += from[i];
  }

  static size_t length(size_t count, size_t chunk) {
    return std::min(kChunk, count - chunk * kChunk);
  }
  float* slot(size_t member, uint64_t round) const {
    return stage_ + (member * kSlots + round % kSlots) * kChunk;
  }
  void await(const Counter& counter, uint64_t value) const {
    for (int look = 0; counter.value.load(std::memory_order_acquire) < value; ++look) {
      if (look < looks_) {
        __builtin_ia32_pause();
      } else {
        sched_yield();
      }
    }
  }
  void await_all(const Counter* counters, uint64_t value) const {
    for (size_t k = 0; k < size_; ++k) await(counters[k], value);
  }
  void meet(Counter* counters, uint64_t value) const {
    counters[rank_].value.store(value, std::memory_order_release);
    await_all(counters, value);
  }

  void put_in(uint64_t round, const float* values, size_t count) {
    for (size_t k = 0; round >= kSlots && k < size_; ++k) {
      if (k != rank_) await(counters_.done[k], round - kSlots + 1);
    }
    std::memcpy(slot(rank_, round), values, count * sizeof(float));
    counters_.staged[rank_].value.store(round + 1, std::memory_order_release);
  }
  void take_two(uint64_t round, float* values, size_t count) {
    await(counters_.staged[1 - rank_], round + 1);
    add(values, slot(1 - rank_, round), count);
  }
  void take_slices(uint64_t round, float* values, size_t count) {
    const size_t part = ((count + size_ - 1) / size_ + 15) / 16 * 16;
    const auto begin = [&](size_t member) { return std::min(count, part * member); };
    await_all(counters_.staged, round + 1);
    for (size_t k = 0; k < size_; ++k) {
      if (k == rank_) continue;
      add(slot(rank_, round) + begin(rank_), slot(k, round) + begin(rank_),
          begin(rank_ + 1) - begin(rank_));
    }
    counters_.reduced[rank_].value.store(round + 1, std::memory_order_release);
    for (size_t k = 0; k < size_; ++k) {
      await(counters_.reduced[k], round + 1);
      std::memcpy(values + begin(k), slot(k, round) + begin(k),
                  (begin(k + 1) - begin(k)) * sizeof(float));
    }
  }

  const size_t rank_;
  const size_t size_;
  Counters& counters_;
  float* const stage_;
  const int looks_;
  uint64_t calls_ = 0;
  uint64_t round_ = 0;
};

}  // namespace cohort::bench
