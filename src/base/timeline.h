#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/internal/backward_span.h"

namespace cohort::internal {

// The timeline says what this process did when. For `cohort run --trace` each task writes its
// timeline to the file that the variable COHORT_TRACE_FILE names: one event of Chrome's trace
// format per line, with times in microseconds of the steady clock. Without the variable nothing is
// kept. Any thread may call these functions.

using TimelineTime = std::chrono::steady_clock::time_point;

extern std::atomic<int8_t> timeline_switch;  // 1: on, 0: off, -1: not known yet
bool find_timeline_switch();
inline bool timeline_is_on() {
  const int8_t known = timeline_switch.load(std::memory_order_relaxed);
  return known < 0 ? find_timeline_switch() : known > 0;
}
// The number of the row with that name, or of the calling thread's row.
int timeline_row(std::string_view name);
int timeline_row();
// Adds an event that lasted from `begin` to `end`. Events are kept for half a second and then
// written; a process writes at most a million.
void add_to_timeline(int row, const char* category, std::string name, TimelineTime begin,
                     TimelineTime end);
// Writes the events that are kept. For a process that a signal ends: no destructor runs there.
void write_timeline();

// An event that lasts as long as the object lives, in the given row or that of its thread.
class [[nodiscard]] TimelineSpan {
 public:
  TimelineSpan(const char* category, std::string_view name, std::optional<int> row = {})
      : row_(row) {
    if (timeline_is_on()) begin(category, name);
  }
  ~TimelineSpan() {
    if (category_ != nullptr) end();
  }
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;

 private:
  void begin(const char* category, std::string_view name);
  void end();

  const std::optional<int> row_;
  const char* category_ = nullptr;  // null: the event is not kept
  std::string name_;
  TimelineTime began_;
};

// A training step of this thread is a "step" with the number of its update. The parts of a step are
// "forward", "backward" (BackwardSpan) and "optimizer".

// The current step of a thread.
struct ThreadStep {
  bool is_open = false;  // a StepSpan lives
  TimelineTime began = {};
  TimelineTime forward_began = {};                  // zero: the forward pass is over
  std::optional<uint64_t> recorded = std::nullopt;  // when a torch module's use began it
  int64_t number = -1;                              // of the update, once the update is made
};

// The step of a replica, unless the step becomes part of a graph (`now` is false). Without a
// StepSpan, a step begins with the tape and ends with the update.
class [[nodiscard]] StepSpan {
 public:
  explicit StepSpan(bool now) {
    if (timeline_is_on() && now) begin();
  }
  ~StepSpan() {
    if (outer_) end();
  }
  StepSpan(const StepSpan&) = delete;
  StepSpan& operator=(const StepSpan&) = delete;

 private:
  void begin();
  void end();

  std::optional<ThreadStep> outer_;  // empty: the step is not kept
};

// The outermost tape of this thread begins to record.
void note_forward();

// The update of all variables; `now` as above.
class [[nodiscard]] OptimizerSpan {
 public:
  explicit OptimizerSpan(bool now) {
    if (timeline_is_on() && now) began_ = std::chrono::steady_clock::now();
  }
  ~OptimizerSpan() {
    if (is_kept()) end();
  }
  OptimizerSpan(const OptimizerSpan&) = delete;
  OptimizerSpan& operator=(const OptimizerSpan&) = delete;
  bool is_kept() const { return began_ != TimelineTime(); }
  // The number of the update that was made.
  void set_number(int64_t number);

 private:
  void end();

  TimelineTime began_;
};

// The row of a traced step. Inside a StepSpan it is the row of the thread. Otherwise it is the row
// of the device: any thread may run a part of the step, and one thread the parts of several
// devices.
int traced_step_row(const std::string& device);
// Adds a traced step that ended on this thread.
void add_traced_step(int row, int64_t number, TimelineTime began, TimelineTime ended);

}  // namespace cohort::internal
