#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/thread.h"
#include "checkpoint/shard_file.h"
#include "cohort/checkpoint.h"
#include "cohort/error.h"

namespace cohort::internal {

// Runs saves one after the other: at once, or on a thread of its own. At most one save is under
// way, so that values that wait to be written do not pile up. The destructor waits, and logs an
// error that no call has thrown. Thread-safe.
class SaveQueue {
 public:
  explicit SaveQueue(bool asynchronous) : asynchronous_(asynchronous) {}
  ~SaveQueue();
  SaveQueue(const SaveQueue&) = delete;
  SaveQueue& operator=(const SaveQueue&) = delete;

  // Waits for the save before this one. If that one failed, throws its error and does not run this
  // one.
  using Save = std::function<void(BytesWritten& progress)>;
  void run(const std::string& prefix, int64_t bytes_total, Save save);
  // Throws the error of the save before.
  void wait();
  SaveProgress progress() const;
  bool is_asynchronous() const { return asynchronous_; }

 private:
  void finish(std::unique_lock<std::mutex>& turn);
  void perform(const Save& save);
  void begin(const std::string& prefix, int64_t bytes_total);

  const bool asynchronous_;
  std::mutex turn_;  // held by the thread that starts or awaits a save
  Thread thread_;    // guarded by turn_
  BytesWritten bytes_written_{0};
  mutable std::mutex mutex_;
  SaveProgress progress_;  // guarded by mutex_, as is what follows
  Status status_;          // of the save before
};

}  // namespace cohort::internal
