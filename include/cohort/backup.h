#pragma once

#include "cohort/checkpoint.h"
#include "cohort/internal/durations.h"
#include "cohort/multi_worker.h"

// Training that continues after the loss of workers or of the whole program.

namespace cohort {

// BackupOptions sets where and how often a BackupAndRestore saves.
struct BackupOptions {
  // Where the backups are; all workers must see it, and no other run may use it.
  std::string directory = {};
  int64_t every_steps = 100;
  int max_to_keep = 2;
  // How long the other workers wait for the restart of a lost worker.
  std::chrono::milliseconds rejoin_timeout{300'000};
};

// BackupReport counts what has happened so far.
struct BackupReport {
  int64_t steps = 0;  // of all run() calls, and of the runs that this run continues
  // Of the last run() call, after the backup from which it continued; the same on all workers. 0 if
  // the backup was made at the end of the data.
  int64_t new_steps = 0;
  int64_t recoveries = 0;  // how often this process returned to a backup
  int64_t lost_steps = 0;  // steps that were repeated after a recovery, in total
};

// BackupAndRestore trains over a dataset, saves backups, and continues from them after a failure.
//
//   BackupAndRestore backup(strategy, {{"model", model}, {"optimizer", optimizer}},
//                           {.directory = directory, .every_steps = 50});
//   backup.run(strategy.distribute_dataset(dataset), [&](const DistributedElement& batch) {
//     strategy.run([&](const Tensor& x) { model(x); }, batch);
//   });
//
// A backup has the objects, the position in the data and the random numbers, including torch's. A
// restarted program continues from the last backup. If a worker is lost, the other workers wait for
// its restart. Then all workers return to the last backup and continue with the same result as
// without the loss. Only the steps since that backup are lost; the log has their number.
//
// Each run() call trains over its data once, so a loop over epochs can call run() for each epoch. A
// restarted program makes the same calls again: calls that were complete make no step, and the
// interrupted call continues. After its data has ended, a call makes no step even if the dataset
// has become longer, and logs a warning. To train longer, make more calls. For a new training,
// choose another directory or delete this one.
//
// All workers call the same functions. What they compute together between two run() calls, such as
// an evaluation, they compute only if BackupReport::new_steps is not 0: a restarted worker passes
// over complete calls while the others wait for it in a later call. Create variables before run(),
// and set seeds before creating the dataset. From the first run() until the destructor or the end
// of the process, other runs cannot use the directory. All workers throw if a backup cannot be
// written or read. Not thread-safe.
class BackupAndRestore {
 public:
  using Step = std::function<void(const DistributedElement& element)>;

  // Throws InvalidArgument if the directory is empty, or if every_steps or max_to_keep is below 1.
  BackupAndRestore(Strategy& strategy, const std::vector<Checkpoint::Item>& objects,
                   const BackupOptions& options);
  ~BackupAndRestore();
  BackupAndRestore(const BackupAndRestore&) = delete;
  BackupAndRestore& operator=(const BackupAndRestore&) = delete;

  // Calls `step` for each element, or for each element after the last backup. Rethrows errors of
  // `step`, except the loss of a worker. Throws DeadlineExceeded if a lost worker does not return
  // in time, InvalidArgument if the backup is of another number of workers or replicas, and
  // FailedPrecondition, with host, process and run, if another run uses the directory.
  BackupReport run(const DistributedDataset& data, const Step& step);
  const BackupReport& report() const;

 private:
  struct Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace cohort
