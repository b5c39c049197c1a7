#pragma once

namespace cohort::internal {

// While one lives, SIGTERM makes event() readable instead of ending the process at once, unless the
// program handles that signal itself.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // A file descriptor; it stays readable from the first signal on. -1 when there is none.
  int event() const;
};

}  // namespace cohort::internal
