#pragma once

#include <map>
#include <string>

#include "base/mutex.h"
#include "cohort/error.h"

namespace cohort::internal {

// What is to be done when a function did not run to its end.
enum class FailureKind {
  Function,         // its own fault
  Transient,        // try again
  Worker,           // its worker is lost
  ParameterServer,  // a parameter server is lost, or does not answer
};

struct FailureLimits {
  int ps_failures;
  int timeouts;
  // The defaults, from the environment where it says so.
  static FailureLimits of(int workers);
};

// Tells failures apart. Counts those that are forgiven a few times. Thread-safe.
class FailureClassifier {
 public:
  explicit FailureClassifier(const FailureLimits& limits) : limits_(limits) {}

  FailureKind classify(const Status& status);
  // Counts a report of this server's failure. Whether it is one too many.
  bool is_lost(const std::string& ps);

 private:
  const FailureLimits limits_;
  Mutex mutex_;
  std::map<std::string, int> ps_failures_;  // guarded by mutex_, as the next
  int timeouts_ = 0;
};

// What a function ended with while everything was being cancelled: that somebody was lost meanwhile
// is no failure of its own.
Status told_when_cancelling(const Status& status);

// The parameter server that a failure names: "/job:ps/replica:0/task:0"; "" when none.
std::string parameter_server_in(const Status& status);

}  // namespace cohort::internal
