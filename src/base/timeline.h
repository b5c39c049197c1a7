#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace cohort::internal {

// What this process did when. `cohort run --trace` has the tasks write it, each to the file that
// the variable COHORT_TRACE_FILE names: one event of Chrome's trace format in a line, times in
// microseconds of the steady clock. Where there is no such variable nothing is kept. Any thread.

using TimelineTime = std::chrono::steady_clock::time_point;

bool timeline_is_on();
// The number of the row with that name, and of the calling thread's.
int timeline_row(std::string_view name);
int timeline_row();
// Something that lasted from `begin` to `end`. It is kept for a moment and then written; only the
// first million of a process are.
void add_to_timeline(int row, const char* category, std::string name, TimelineTime begin,
                     TimelineTime end);

// Something that lasts as long as the object lives, in the row of its thread.
class [[nodiscard]] TimelineSpan {
 public:
  TimelineSpan(const char* category, std::string_view name);
  ~TimelineSpan();
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;

 private:
  const char* const category_;
  std::string name_;
  const TimelineTime began_;
};

}  // namespace cohort::internal
