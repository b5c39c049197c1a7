#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/thread.h"
#include "checkpoint/shard.h"
#include "cohort/checkpoint.h"

namespace cohort::internal {

// Runs saves one after the other: at once, or on a thread of its own. At most one is under way, so
// that values that wait to be written do not pile up. Thread-safe. At its end it waits, and logs
// what went wrong and nobody has heard of.
class SaveQueue {
 public:
  explicit SaveQueue(bool asynchronous) : asynchronous_(asynchronous) {}
  ~SaveQueue();
  SaveQueue(const SaveQueue&) = delete;
  SaveQueue& operator=(const SaveQueue&) = delete;

  // Waits for the save before this one, and throws what that met, instead of doing this one.
  using Save = std::function<void(BytesWritten& progress)>;
  void run(const std::string& prefix, int64_t bytes_total, Save save);
  // Throws what the save before met.
  void wait();
  SaveProgress progress() const;
  bool is_asynchronous() const { return asynchronous_; }

 private:
  void finish(std::unique_lock<std::mutex>& turn);
  void perform(const Save& save);
  void begin(const std::string& prefix, int64_t bytes_total);

  const bool asynchronous_;
  std::mutex turn_;  // held by who starts or awaits a save
  Thread thread_;    // guarded by turn_
  BytesWritten bytes_written_{0};
  mutable std::mutex mutex_;
  SaveProgress progress_;  // guarded by mutex_, as is what follows
  Status status_;          // of the save before
};

}  // namespace cohort::internal
