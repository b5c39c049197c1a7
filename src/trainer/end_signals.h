#pragma once

#include <atomic>

namespace cohort::internal {

// While an EndSignals lives, a SIGTERM or SIGINT that comes during steps does not end the process
// at once: fit() makes a backup at the end of the step first. A second signal ends the process at
// once, and so does a signal outside steps. Signals that the program handles or ignores are left
// alone.
class EndSignals {
 public:
  EndSignals();
  // Ends the process now if a signal came that fit() did not act on.
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  // While a Steps lives, this process makes steps.
  class [[nodiscard]] Steps {
   public:
    Steps();
    ~Steps();
    Steps(const Steps&) = delete;
    Steps& operator=(const Steps&) = delete;
  };

  // The signal that asked the process to end; 0 when none did.
  static int received();
  // Ends the process by that signal, as if it had just come.
  [[noreturn]] static void end();
};

}  // namespace cohort::internal
