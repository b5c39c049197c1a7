#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/activity.h"

namespace cohort::internal {

// How long this worker has been in meetings with others. Thread-safe.
class MeetingClock {
 public:
  using Clock = std::chrono::steady_clock;
  // Counts for as long as it lives.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(MeetingClock& clock) : clock_(clock) {}
    ~Scope() {
      const Clock::duration lasted = Clock::now() - began_;
      clock_.total_ += lasted.count();
      note_group_wait(lasted);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MeetingClock& clock_;
    const Clock::time_point began_ = Clock::now();
  };

  Clock::duration total() const { return Clock::duration(total_.load()); }

 private:
  std::atomic<Clock::rep> total_{0};
};

// What a worker does by itself between two meetings, in seconds.
struct BusyTimes {
  std::vector<float> total = {};  // by worker
  std::vector<float> input = {};  // of that, getting elements of datasets
};

// Finds the worker that all others wait for.
class SlowWorkerWatch {
 public:
  static constexpr int64_t kSteps = 20;      // that one finding is about
  static constexpr double kSlower = 1.2;     // how many times as long as the others it takes
  static constexpr double kLeastGap = 2e-3;  // seconds that the others wait; less is not logged

  struct Finding {
    size_t worker;
    double seconds;         // that its steps take, on average
    double input_seconds;   // of that, getting elements of datasets
    double others_seconds;  // that the steps of the others take
  };

  // Adds one step. Returns a finding if a worker was slow in the last steps. It looks after kSteps
  // steps, then after twice as many, and so on; once no worker is slow, after kSteps again.
  std::optional<Finding> add(const BusyTimes& busy);

 private:
  std::vector<double> sums_;
  std::vector<double> input_sums_;
  int64_t steps_ = 0;
  int64_t next_ = kSteps;
};

}  // namespace cohort::internal
