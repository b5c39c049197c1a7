#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/checkpoint.h"
#include "cohort/distributed_dataset.h"
#include "cohort/multi_worker.h"

// Training that survives its workers.

namespace cohort {

namespace internal {
class TrainingBackup;
}

struct BackupOptions {
  std::string directory =
      {};  // of the backups; all workers must see it, and no other run may use it
  int64_t every_steps = 100;
  int max_to_keep = 2;
  // How long the other workers wait for a lost worker to be started again.
  std::chrono::milliseconds rejoin_timeout{300'000};
};

// What has happened so far.
struct BackupReport {
  int64_t steps = 0;       // that count: of this run and of those before it that it goes on from
  int64_t recoveries = 0;  // how often this process had to go back to a backup
  int64_t lost_steps = 0;  // how many steps were made again because of that, all together
};

// Trains over a dataset and keeps backups: the objects, the position in the data, the random
// numbers, torch's included. After a restart of the whole program it goes on from the last backup.
// When a worker is lost, the others wait until it is started again; then all go back to the last
// backup and go on from there, with the same result as if nothing had happened. No more is lost
// than the steps since that backup; the log says how many.
//
//   BackupAndRestore backup(strategy, {{"model", model}, {"optimizer", optimizer}},
//                           {.directory = "backups", .every_steps = 50});
//   backup.run(strategy.distribute_dataset(batches),
//              [&](const DistributedElement& batch) { strategy.run(step, batch); });
//
// All workers do the same. Variables are made before run(), and seeds are set before the dataset is
// made. From the first run() until the end of this object, other runs are kept from the directory;
// the directory of a killed process is free. A backup that cannot be written or read is an error on
// all workers. Not thread-safe.
class BackupAndRestore {
 public:
  using Step = std::function<void(const DistributedElement& element)>;

  // InvalidArgument without a directory, or for numbers that make no sense.
  BackupAndRestore(Strategy& strategy, const std::vector<Checkpoint::Item>& objects,
                   const BackupOptions& options);
  ~BackupAndRestore();
  BackupAndRestore(const BackupAndRestore&) = delete;
  BackupAndRestore& operator=(const BackupAndRestore&) = delete;

  // Calls `step` for every element that comes after the last backup. Throws what it throws, other
  // than the loss of a worker; DeadlineExceeded when a lost worker does not come back in time;
  // FailedPrecondition, naming host, process and run, when another run uses the directory.
  BackupReport run(const DistributedDataset& data, const Step& step);
  const BackupReport& report() const { return report_; }

 private:
  void train(const DistributedDataset& data, const Step& step);
  // All workers: from the last backup, or from the beginning.
  void resume(const DistributedDataset& data);
  void back_up(DistributedIterator& iterator);
  void recover(const DistributedDataset& data, const Status& why);

  const int64_t every_steps_;
  std::unique_ptr<internal::TrainingBackup> backup_;
  std::string position_;  // of this worker; empty: the beginning
  BackupReport report_;
};

}  // namespace cohort
