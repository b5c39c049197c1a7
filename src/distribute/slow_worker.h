#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cohort::internal {

// How long this worker has been in meetings with others. Thread-safe.
class MeetingClock {
 public:
  using Clock = std::chrono::steady_clock;
  // Counts for as long as it lives.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(MeetingClock& clock) : clock_(clock) {}
    ~Scope() { clock_.total_ += (Clock::now() - began_).count(); }
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

// Finds the worker that all others wait for, from the time that each is busy by itself between two
// meetings.
class SlowWorkerWatch {
 public:
  static constexpr int64_t kSteps = 20;      // that are looked at together
  static constexpr double kSlower = 1.2;     // so many times as long as the others
  static constexpr double kLeastGap = 2e-3;  // seconds by which they wait; less is not worth a line

  struct Finding {
    size_t worker;
    double seconds;         // that its steps take, on average
    double others_seconds;  // that the steps of the others take
  };

  // Takes in one step: how long each was busy. What the last steps say when it is time to say
  // something: after kSteps, then after twice as many, and so on.
  std::optional<Finding> add(std::span<const float> busy_seconds);

 private:
  std::vector<double> sums_;
  int64_t steps_ = 0;
  int64_t next_ = kSteps;
};

}  // namespace cohort::internal
