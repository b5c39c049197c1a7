#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "cohort/backup.h"

namespace cohort::internal {

// Keeps other runs away from a directory of backups while this object lives. The operating system
// frees the directory when the process ends, however it ends, so that a restarted run is not
// refused.
//
// Runs on other hosts are noticed where the file system shares flock() between hosts, as NFS and
// the usual cluster file systems do. Where it does not, a run that finds the note of another host's
// run warns, because that run may have been killed or may still be there.
class BackupLock {
 public:
  // Makes the directory where needed. Throws FailedPrecondition, naming host, process and run, when
  // another run has it.
  explicit BackupLock(const std::string& directory);
  ~BackupLock();

 private:
  const std::string path_;
  const FileDescriptor file_;
};

// The state of a training: how many steps are made, and the position of this worker in the data.
struct TrainingPlace {
  int64_t steps = 0;
  std::string position = {};
  int64_t part = 0;    // the number of the BackupAndRestore::run() that makes the steps
  bool ended = false;  // whether the data of that run() has ended
};

// Saves a training in files and restores it: the program's objects and, for each worker, its random
// numbers (Cohort's and torch's), its replicas' copies of variables that each replica writes alone,
// and its position in the data. All workers make all calls together,
// in the same order, and an error on one worker is thrown on all. From the first restore() on, the
// chief keeps other runs away from the directory. Not thread-safe.
class TrainingBackup {
 public:
  TrainingBackup(Strategy& strategy, const std::vector<Checkpoint::Item>& objects,
                 const BackupOptions& options);

  // Says where this worker is, after it has made what the objects keep.
  using FindPlace = std::function<TrainingPlace()>;
  // Saves the first backup. Several workers restore it at once, so that all have the same objects.
  void begin(const FindPlace& find);
  // Saves a backup. Returns when the chief has written it.
  void save(const FindPlace& find);
  // Sets objects and random numbers to what they were in the last backup. Returns nullopt without a
  // backup. Throws InvalidArgument when the backup is of fewer workers, or of another number of
  // workers or replicas in the middle of the data, and FailedPrecondition when another run uses the
  // directory.
  std::optional<TrainingPlace> restore();
  // Restores what the last restore() restored, on this process only.
  void restore_again() { take_own(restored_); }
  // Restores the program's objects only, on this process only, from the last backup if it has them.
  void restore_objects();

  // Runs `part` on each worker and throws on all workers if it failed on one. `what` names the
  // part.
  void share(const std::string& what, const std::function<void()>& part) const;

  // Whether the error is the loss of another worker, which may be started again.
  bool is_lost_worker(const Status& why) const;
  // Records an error that looks like the loss of a worker, after so many steps. The same error at
  // the same step again and again is not a loss: when it came too often here, the next restore()
  // throws it on all workers.
  void note_loss(const Status& why, int64_t steps);
  // Lets other runs use the directory, for a process that ends without destructors.
  void release_directory() { lock_.reset(); }
  // The chief warns that the backup is of a training that has ended, after so many steps.
  void warn_of_end(int64_t steps) const;
  bool gives_up() const { return same_losses_ > kMaxSameLosses; }
  // Waits until all workers are there again. Throws DeadlineExceeded when they do not come in time.
  void await_workers();

 private:
  static constexpr int kMaxSameLosses = 2;

  // The texts of all workers, by worker. `what` says what the texts are for.
  std::vector<std::string> texts_of_all(const std::string& own, const std::string& what) const;
  // The prefix of the last backup that the chief finds.
  std::string find_latest();
  // Restores the backup with that prefix on this process.
  TrainingPlace take_own(const std::string& prefix);
  // Throws InvalidArgument unless this worker can go on from the position that a backup of `count`
  // workers has for it.
  void check_origin(const std::string& prefix, size_t count, int64_t replicas) const;

  Strategy& strategy_;
  const BackupOptions options_;
  // The text of `steps`, `part`, `ended` and the number of replicas; then, for each worker, its
  // random numbers and the copies of its replicas; then the workers' positions.
  std::vector<std::string> saved_;
  std::string restored_;  // the prefix of the backup that was restored last
  Checkpoint checkpoint_;
  CheckpointManager manager_;
  std::optional<BackupLock> lock_;  // of the chief
  Status last_loss_;
  int64_t last_loss_steps_ = 0;
  int same_losses_ = 0;  // how often that error was met at that step, one after the other
};

}  // namespace cohort::internal
