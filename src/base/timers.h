#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace cohort::internal {

// Calls functions at later times. One thread of the process serves all Timers, so the functions
// must be short and must not wait for each other. Thread-safe.
class Timers {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Key = std::pair<Time, uint64_t>;

  Timers() = default;
  // Drops the calls that are not due, and waits for a call that runs on the other thread.
  ~Timers();
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;

  Key at(Time time, std::function<void()> call);
  // Drops the call if it has not begun. Does not wait for a call that runs.
  void forget(const Key& key);

 private:
  std::atomic<bool> used_ = false;  // whether at() was ever called
};

}  // namespace cohort::internal
