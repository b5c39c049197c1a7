#pragma once

#include <atomic>

namespace cohort::internal {

// While one lives, SIGTERM and SIGINT that come while steps are made do not end the process: fit()
// makes a backup at the end of the step first. A second signal, and a signal while no steps are
// made, end the process at once. Signals that the program handles or ignores are left alone.
class EndSignals {
 public:
  EndSignals();
  // A signal that fit() had no use for ends the process now.
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  // While one lives, this process makes steps.
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
