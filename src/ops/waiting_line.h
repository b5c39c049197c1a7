#pragma once

#include <condition_variable>
#include <list>

#include "base/activity.h"
#include "base/mutex.h"
#include "ops/run_context.h"

namespace cohort::internal {

// Threads that wait at a resource, in the order of their coming. The resource's mutex guards it.
class WaitingLine {
 public:
  class Place;

  bool empty() const { return places_.empty(); }
  size_t size() const { return places_.size(); }
  // Lets the first one look again. Call it whenever what it waits for may have happened.
  void wake_first() const;

 private:
  std::list<Place*> places_;
};

// This thread's place in a line. Holds the resource's mutex for as long as it lives, except while
// it waits.
class WaitingLine::Place {
 public:
  Place(WaitingLine& line, Mutex& mutex, Cancellation& cancellation)
      : line_(line),
        cancellation_(cancellation),
        listener_(cancellation,
                  [this, &mutex] {
                    const std::lock_guard lock(mutex);
                    look_again_.notify_one();
                  }),
        lock_(mutex) {
    line_.places_.push_back(this);
  }
  ~Place() {
    line_.places_.remove(this);
    line_.wake_first();
  }

  // Calls `step` once this thread is first, and again after every wake, until it returns true or
  // throws. Returns false, at any place in the line, when the run is cancelled.
  template <typename Step>
  bool wait(const Step& step) {
    bool finished = false;
    look_again_.wait(lock_, [&] { return is_over(step, finished); });
    return finished;
  }
  // The same. A long wait is noted under the name that `what` returns, as a wait for any of the
  // other tasks.
  template <typename Step, typename What>
  bool wait(const Step& step, const What& what) {
    bool finished = false;
    const auto since = WaitNote::Clock::now();
    const auto over = [&] { return is_over(step, finished); };
    if (look_again_.wait_for(lock_, stall_limit(), over)) return finished;
    const WaitNote note(WaitKind::Tensor, what(), {kAnyTask}, since);
    look_again_.wait(lock_, over);
    return finished;
  }

 private:
  friend class WaitingLine;

  template <typename Step>
  bool is_over(const Step& step, bool& finished) {
    if (cancellation_.cancelled()) return true;
    finished = line_.places_.front() == this && step();
    return finished;
  }

  WaitingLine& line_;
  Cancellation& cancellation_;
  std::condition_variable_any look_again_;
  // Listening begins before and ends after the mutex is held.
  Cancellation::Listener listener_;
  std::unique_lock<Mutex> lock_;
};

inline void WaitingLine::wake_first() const {
  if (!places_.empty()) places_.front()->look_again_.notify_one();
}

}  // namespace cohort::internal
