#pragma once

namespace cohort::internal {

// While an EndSignals lives, a SIGTERM or SIGINT that comes during steps does not end the process
// at once: fit() makes a backup at the end of the step first. A second SIGINT ends the process at
// once, and so do a SIGTERM that comes 2 s after the first signal or later, and a signal outside
// steps. An earlier SIGTERM is the same request once more. Signals that the program handles or
// ignores are left alone.
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

  // The signal that asked the process to end; 0 when none did. After a signal the process makes its
  // last step and does not wait for tasks that are lost.
  static int received();
  // Ends the process by that signal, as if it had just come. The timeline is written before.
  [[noreturn]] static void end();
};

}  // namespace cohort::internal
