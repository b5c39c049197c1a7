#pragma once

#include <condition_variable>
#include <functional>
#include <map>

#include "base/mutex.h"
#include "base/thread.h"
#include "transport/connection.h"

namespace cohort::internal {

// Calls functions when their time has come, on one thread; they should be short. What is not due
// when it is destroyed is never called. Thread-safe.
class Timers {
 public:
  using Key = std::pair<Deadline, uint64_t>;

  ~Timers();
  Key at(Deadline time, std::function<void()> call);
  // Does not wait for a call that runs already.
  void forget(const Key& key);

 private:
  void work(const std::stop_token& stop);

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<Key, std::function<void()>> calls_;  // guarded by mutex_, as all below
  uint64_t next_ = 0;
  Thread thread_;  // made with the first call
};

}  // namespace cohort::internal
