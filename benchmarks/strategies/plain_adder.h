#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace cohort::bench {

// The least that an all-reduce is: threads that add up their slices of the same vectors into one
// buffer. As many threads as vectors, one of them the caller, meet before and after each
// addition.
class PlainAdder {
 public:
  PlainAdder(size_t vectors, int64_t size)
      : parts_(vectors), crowded_(vectors > std::thread::hardware_concurrency()) {
    for (size_t i = 0; i < vectors; ++i) sources_.emplace_back(static_cast<size_t>(size), i + 1.f);
    total_.resize(static_cast<size_t>(size));
    for (size_t part = 1; part < parts_; ++part)
      threads_.emplace_back([this, part] { work(part); });
  }
  ~PlainAdder() {
    order(0);
    for (std::thread& thread : threads_) thread.join();
  }

  void run(int times) {
    order(times);
    add_repeatedly(0, times);
  }

 private:
  void order(int times) {
    times_ = times;
    orders_.fetch_add(1);
    orders_.notify_all();
  }

  void work(size_t part) {
    for (unsigned seen = 0;;) {
      orders_.wait(seen);
      seen = orders_.load();
      if (times_ == 0) return;
      add_repeatedly(part, times_);
    }
  }

  void add_repeatedly(size_t part, int times) {
    for (int i = 0; i < times; ++i) {
      meet();
      add(part);
      meet();
    }
  }

  void meet() {
    const unsigned round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    while (round_.load(std::memory_order_acquire) == round) {
      if (crowded_) std::this_thread::yield();
    }
  }

  void add(size_t part) {
    const size_t begin = total_.size() * part / parts_;
    const size_t end = total_.size() * (part + 1) / parts_;
    const float* a = sources_[0].data();
    const float* b = sources_[1].data();
    float* sum = total_.data();
    if (sources_.size() == 2) {
#pragma GCC ivdep
      for (size_t i = begin; i < end; ++i) sum[i] = a[i] + b[i];
    } else {
      const float* c = sources_[2].data();
      const float* d = sources_[3].data();
#pragma GCC ivdep
      for (size_t i = begin; i < end; ++i) sum[i] = ((a[i] + b[i]) + c[i]) + d[i];
    }
  }

  const size_t parts_;
  const bool crowded_;
  std::vector<std::vector<float>> sources_;
  std::vector<float> total_;
  std::atomic<unsigned> orders_{0};
  std::atomic<int> times_{0};
  alignas(64) std::atomic<size_t> arrived_{0};
  alignas(64) std::atomic<unsigned> round_{0};
  std::vector<std::thread> threads_;
};

}  // namespace cohort::bench
