#pragma once

#include <chrono>
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

// Counts what goes wrong again and again. One incident is met by all functions that run meanwhile,
// and counts once; a minute without any ends the count. Not thread-safe.
class Incidents {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes kHealthy{1};

  // Notes a failure, now, of something that began at `begun`: it belongs to the last incident
  // unless it began after that was noted. Returns how many incidents there were.
  int note(Time begun, Time now);
  // The last incident went on until now.
  void extend(Time now) { last_ = now; }

 private:
  int count_ = 0;
  Time noted_{};  // the last incident
  Time last_{};   // failure
};

// Tells failures apart. Counts those that are forgiven a few times. Thread-safe.
class FailureClassifier {
 public:
  using Time = Incidents::Time;

  explicit FailureClassifier(const FailureLimits& limits) : limits_(limits) {}

  // What a function that began to run at `begun` met.
  FailureKind classify(const Status& status, Time begun, Time now = Time::clock::now());
  // Whether this server has failed once too often, with the failure that such a function met.
  bool is_lost(const std::string& ps, Time begun, Time now = Time::clock::now());

 private:
  const FailureLimits limits_;
  Mutex mutex_;
  std::map<std::string, Incidents> ps_failures_;  // guarded by mutex_, as the next
  Incidents timeouts_;
};

// What a function ended with while everything was being cancelled: that somebody was lost meanwhile
// is no failure of its own.
Status told_when_cancelling(const Status& status);

// The parameter server that a failure names: "/job:ps/replica:0/task:0"; "" when none.
std::string parameter_server_in(const Status& status);

}  // namespace cohort::internal
