#include "base/timeline.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/text.h"
#include "base/thread.h"

namespace cohort::internal {
namespace {

constexpr char kTraceFileVariable[] = "COHORT_TRACE_FILE";
constexpr size_t kMaxEvents = 1'000'000;
constexpr auto kWriteEvery = std::chrono::milliseconds(500);

double microseconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e3;
}

// Keeps events for a while, because making text of an event takes longer than keeping it.
// Thread-safe.
class Timeline {
 public:
  explicit Timeline(const char* path)
      : file_(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
  ~Timeline() { write(); }

  void write() {
    const std::lock_guard lock(mutex_);
    write_all();
  }

  int row(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto [found, fresh] =
        rows_.try_emplace(std::string(name), static_cast<int>(rows_.size()));
    if (fresh) {
      text_ +=
          fmt::format(R"({{"name":"thread_name","ph":"M","pid":0,"tid":{},"args":{{"name":"{}"}}}})"
                      "\n",
                      found->second, escape_quotes(name));
    }
    return found->second;
  }

  void add(int row, const char* category, std::string name, TimelineTime begin, TimelineTime end) {
    const std::lock_guard lock(mutex_);
    if (++count_ > kMaxEvents) return;
    events_.push_back({row, category, std::move(name), begin, end});
    if (end < next_write_) return;
    next_write_ = end + kWriteEvery;
    write_all();
  }

 private:
  struct Event {
    int row;
    const char* category;
    std::string name;
    TimelineTime begin, end;
  };

  void write_all() {  // mutex_ is held
    for (const Event& event : events_) {
      fmt::format_to(
          std::back_inserter(text_),
          R"({{"name":"{}","cat":"{}","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":0,"tid":{}}})"
          "\n",
          escape_quotes(event.name), event.category, microseconds(event.begin.time_since_epoch()),
          microseconds(event.end - event.begin), event.row);
    }
    events_.clear();
    // A failed write loses events and does not disturb the program.
    [[maybe_unused]] const ssize_t written = ::write(file_, text_.data(), text_.size());
    text_.clear();
  }

  const int file_;
  Mutex mutex_;
  std::map<std::string, int, std::less<>> rows_;  // guarded by mutex_, as all below
  std::vector<Event> events_;
  std::string text_;  // not written yet
  size_t count_ = 0;
  TimelineTime next_write_ = {};
};

Timeline& timeline() {
  static Timeline made(std::getenv(kTraceFileVariable));
  return made;
}

thread_local ThreadStep thread_step;

void add_part(const char* part, TimelineTime began, TimelineTime ended) {
  add_to_timeline(timeline_row(), part, part, began, ended);
}

void add_step(int row, int64_t number, TimelineTime began, TimelineTime ended) {
  add_to_timeline(row, "step", number < 0 ? "step" : fmt::format("step {}", number), began, ended);
}

}  // namespace

std::atomic<int8_t> timeline_switch = -1;

bool find_timeline_switch() {
  const bool on = std::getenv(kTraceFileVariable) != nullptr;
  timeline_switch.store(on ? 1 : 0, std::memory_order_relaxed);
  return on;
}

int timeline_row(std::string_view name) { return timeline().row(name); }

int timeline_row() {
  thread_local const int row = timeline_row(thread_name());
  return row;
}

void add_to_timeline(int row, const char* category, std::string name, TimelineTime begin,
                     TimelineTime end) {
  timeline().add(row, category, std::move(name), begin, end);
}

void write_timeline() {
  if (timeline_is_on()) timeline().write();
}

void TimelineSpan::begin(const char* category, std::string_view name) {
  category_ = category;
  name_ = name;
  began_ = std::chrono::steady_clock::now();
}

void TimelineSpan::end() {
  add_to_timeline(row_ ? *row_ : timeline_row(), category_, std::move(name_), began_,
                  std::chrono::steady_clock::now());
}

void StepSpan::begin() {
  const TimelineTime now = std::chrono::steady_clock::now();
  outer_ = std::exchange(thread_step, {.is_open = true, .began = now, .forward_began = now});
}

void StepSpan::end() {
  add_step(timeline_row(), thread_step.number, thread_step.began, std::chrono::steady_clock::now());
  thread_step = *outer_;
}

void note_forward() {
  if (!timeline_is_on()) return;
  thread_step.forward_began = std::chrono::steady_clock::now();
  thread_step.recorded = std::nullopt;
  if (!thread_step.is_open) thread_step.began = thread_step.forward_began;
}

void note_module_use(uint64_t recorded) {
  if (!timeline_is_on() || thread_step.is_open) return;
  const bool is_forward = thread_step.forward_began != TimelineTime();
  if (is_forward && thread_step.recorded != recorded) return;
  note_forward();
  thread_step.recorded = recorded;
}

BackwardSpan::BackwardSpan() {
  if (!timeline_is_on()) return;
  const TimelineTime now = std::chrono::steady_clock::now();
  const TimelineTime forward = std::exchange(thread_step.forward_began, TimelineTime());
  if (forward != TimelineTime()) add_part("forward", forward, now);
  began_ = now.time_since_epoch().count();
}

BackwardSpan::~BackwardSpan() {
  if (began_ == 0) return;
  add_part("backward", TimelineTime(std::chrono::nanoseconds(began_)),
           std::chrono::steady_clock::now());
}

void OptimizerSpan::set_number(int64_t number) {
  if (is_kept()) thread_step.number = number;
}

void OptimizerSpan::end() {
  const TimelineTime now = std::chrono::steady_clock::now();
  add_part("optimizer", began_, now);
  if (thread_step.is_open) {
    thread_step.forward_began = now;  // of the next update in this step, if any
    return;
  }
  const ThreadStep made = std::exchange(thread_step, {});
  if (made.began != TimelineTime()) add_step(timeline_row(), made.number, made.began, now);
}

int traced_step_row(const std::string& device) {
  return thread_step.is_open ? timeline_row() : timeline_row(device);
}

void add_traced_step(int row, int64_t number, TimelineTime began, TimelineTime ended) {
  if (thread_step.is_open) {
    thread_step.number = number;
  } else {
    add_step(row, number, began, ended);
  }
}

}  // namespace cohort::internal
