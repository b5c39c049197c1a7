#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cohort/backup.h"
#include "distribute/backup_lock.h"

namespace cohort::internal {

// Where a training is: how many steps are made, and this worker's position in the data.
struct TrainingPlace {
  int64_t steps = 0;
  std::string position = {};
};

// Keeps a training in files and goes back to them: the program's objects and, of each worker, its
// random numbers (Cohort's and torch's) and its position in the data. All workers make all calls
// together, in the same order, and what fails on one of them is thrown on all. From the first
// restore() on, the chief keeps other runs away from the folder. Not thread-safe.
class TrainingBackup {
 public:
  TrainingBackup(Strategy& strategy, const std::vector<Checkpoint::Item>& objects,
                 const BackupOptions& options);

  // Says where this worker is, after it has made what the objects keep.
  using FindPlace = std::function<TrainingPlace()>;
  // The first one. Workers that came later than others have the same objects then.
  void begin(const FindPlace& find);
  // Returns when the chief has written it.
  void save(const FindPlace& find);
  // Objects and random numbers become what they were in the last backup. nullopt when there is
  // none. Throws InvalidArgument when it is of fewer workers, FailedPrecondition when another run
  // uses the folder.
  std::optional<TrainingPlace> restore();
  // The program's objects alone, on this process alone, where the last backup has them.
  void restore_objects();

  // Runs `part` on each worker and throws on all if one of them failed in it. `what` names it.
  void share(const std::string& what, const std::function<void()>& part) const;

  // Whether that is the loss of another worker, which may be started again.
  bool is_lost_worker(const Status& why) const;
  // Takes note of what looks like a loss after so many steps. The same error at the same step again
  // and again is none: after it was met too often here, the next restore() throws it, on all
  // workers.
  void note_loss(const Status& why, int64_t steps);
  bool gives_up() const { return same_losses_ > kMaxSameLosses; }
  // Waits until all workers are there again. Throws DeadlineExceeded when they do not come in time.
  void await_workers();

 private:
  static constexpr int kMaxSameLosses = 2;

  // Each worker's text, by worker, for that phase.
  std::vector<std::string> texts_of_all(const std::string& own, const std::string& what) const;
  // What the chief finds.
  std::string find_latest();
  TrainingPlace take_own(const std::string& prefix) const;

  Strategy& strategy_;
  const BackupOptions options_;
  // The number of steps; then, for each worker, its random numbers; then their positions.
  std::vector<std::string> saved_;
  Checkpoint checkpoint_;
  CheckpointManager manager_;
  std::optional<BackupLock> lock_;  // of the chief
  Status last_loss_;
  int64_t last_loss_steps_ = 0;
  int same_losses_ = 0;  // how often that error was met at that step, one after the other
};

}  // namespace cohort::internal
