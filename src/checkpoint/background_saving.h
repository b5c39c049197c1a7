#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "checkpoint/shard_file.h"
#include "cohort/checkpoint.h"
#include "cohort/strategy_extended.h"

// Saves that are written while the program goes on, by one worker or by several.
namespace cohort::internal {

// Runs saves one after the other: at once, or on its own thread. At most one save is active, so
// that values do not pile up while they wait for the disk. The destructor waits, and logs an error
// that no call has thrown. Thread-safe.
class SaveQueue {
 public:
  explicit SaveQueue(bool asynchronous) : asynchronous_(asynchronous) {}
  ~SaveQueue();

  // Waits for the save before. If that save failed, throws its error and does not run this one.
  using Save = std::function<void(BytesWritten& progress)>;
  void run(const std::string& prefix, int64_t bytes_total, Save save);
  // Throws the error of the save before.
  void wait();

  // For saves that several workers make together, of which only the chief writes.
  // What wait() throws on this worker, which the caller tells the other workers.
  std::exception_ptr await_before();
  // Notes a save whose writing no call has waited for. Does nothing unless saving is asynchronous.
  void note_unawaited(const std::string& prefix, StrategyExtended* strategy);
  // Waits for the last save on all workers that made it. Throws on all of them what the chief met.
  void wait_on_all_workers(Site site);

  SaveProgress progress() const;
  bool is_asynchronous() const { return asynchronous_; }

 private:
  struct UnawaitedSave {
    std::string prefix;
    StrategyExtended* strategy;  // null if this worker saves alone
  };
  std::optional<UnawaitedSave> take_unawaited();
  void finish(std::unique_lock<Turn>& turn);
  void perform(const Save& save);
  void begin(const std::string& prefix, int64_t bytes_total);

  const bool asynchronous_;
  Turn turn_;      // of the thread that starts or awaits a save
  Thread thread_;  // guarded by turn_
  BytesWritten bytes_written_{0};
  mutable Mutex mutex_;
  SaveProgress progress_;  // guarded by mutex_, as is what follows
  Status status_;          // of the save before
  std::optional<UnawaitedSave> unawaited_;
};

// What each worker says of that checkpoint, by worker. Workers compare its name without the
// directory, which may be each worker's own: the chief alone writes. Without a strategy this worker
// saves alone.
std::vector<std::string> texts_of_all(StrategyExtended* strategy, const std::string& own,
                                      const std::string& prefix, std::string_view what);

}  // namespace cohort::internal
