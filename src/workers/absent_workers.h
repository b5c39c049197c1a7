#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/activity.h"
#include "workers/worker_list.h"

namespace cohort::internal {

// What is said of workers that have not come. Not thread-safe.
class AbsentWorkers {
 public:
  // `workers` must stay.
  explicit AbsentWorkers(const WorkerList& workers);

  // Why that one cannot be reached.
  void set_reason(int worker, std::string reason) { reasons_[worker] = std::move(reason); }
  std::string describe(const std::vector<int>& absent) const;
  // After 2 s, then after twice that time, and so on. A wait that takes long is noted in the
  // process's Activity, too.
  void log_now_and_then(const std::vector<int>& absent);
  // They have come, or are not waited for any more.
  void end_wait() { note_ = {}; }
  // Throws DeadlineExceeded with their names.
  [[noreturn]] void give_up(const std::vector<int>& absent) const;

 private:
  using Clock = std::chrono::steady_clock;

  void note(const std::vector<int>& absent);
  double waited() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  const WorkerList& workers_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point next_log_;
  std::map<int, std::string> reasons_;
  std::vector<int> noted_;  // who is missing in note_
  WaitNote note_;
};

}  // namespace cohort::internal
