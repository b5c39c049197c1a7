#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/mutex.h"
#include "cohort/error.h"

namespace cohort::internal {

// Why a function did not run to its end.
enum class FailureKind {
  Function,         // its own fault
  Transient,        // try again
  Worker,           // its worker is lost
  ParameterServer,  // a parameter server is lost, or does not answer
};

struct FailureLimits {
  int ps_failures;
  int timeouts;
  // The defaults, or what the environment says.
  static FailureLimits of(int workers);
};

// Counts incidents. All functions that run during an incident meet it, and it counts once. A minute
// between a failure and the begin of the next function that fails resets the count. Not
// thread-safe.
class Incidents {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes kHealthy{1};

  // Notes a failure at `now` of a function that began at `begun`. The failure belongs to the last
  // incident unless the function began after that incident was noted. Returns the number of
  // incidents.
  int note(Time begun, Time now);
  // Says that the last incident went on until now.
  void extend(Time now) { last_ = now; }

 private:
  int count_ = 0;
  Time noted_{};  // when the last incident was noted
  Time last_{};   // when the last failure was noted
};

// Classifies failures and counts the kinds that are forgiven a few times. Thread-safe.
class FailureClassifier {
 public:
  using Time = Incidents::Time;

  explicit FailureClassifier(const FailureLimits& limits) : limits_(limits) {}

  // Classifies the failure of a function that began to run at `begun`.
  FailureKind classify(const Status& status, Time begun, Time now = Time::clock::now());
  // Notes a failure of this server. Returns whether the server has failed too often.
  bool is_lost(const std::string& ps, Time begun, Time now = Time::clock::now());

 private:
  const FailureLimits limits_;
  Mutex mutex_;
  std::map<std::string, Incidents> ps_failures_;  // guarded by mutex_, as the next
  Incidents timeouts_;
};

// The error of a function that ended while all functions were being cancelled. A task that was lost
// meanwhile is not a failure of the function.
Status error_when_cancelling(const Status& status);

// The parameter server that an error names: "/job:ps/replica:0/task:0"; "" when it names none.
std::string parameter_server_in(const Status& status);

}  // namespace cohort::internal
