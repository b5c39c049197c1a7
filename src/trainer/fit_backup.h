#pragma once

#include <functional>
#include <optional>
#include <string>

#include "distribute/strategies/training_backup.h"
#include "trainer/trainer_impl.h"

namespace cohort::internal {

// Lets fit() go on after a crash: a TrainingBackup of the model, the optimizer, the metrics, the
// callbacks and the figures so far. Does nothing without a directory.
class Backup {
 public:
  Backup(TrainerImpl& trainer, const FitOptions& options);
  ~Backup();
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;

  // Where an epoch is. Without a position the next epoch begins at the beginning of the data.
  struct Place {
    TrainerImpl::Totals totals = {};
    std::string position = {};
    int64_t walks = 0;     // the number of the next pass over the data
    bool ended = false;    // the epoch has ended, and the next one goes on from the position
    bool stopped = false;  // a callback stopped the training; only the validation is left
  };
  // Restores all but the callbacks from the last backup and returns its place. nullopt without a
  // backup.
  std::optional<Place> restore(History& history);
  void restore_callbacks() const;
  // Makes the first backup, where restore() found none.
  void begin(const Place& place, const History& history);
  // Whether a backup is due after that many steps.
  bool is_due(int64_t steps) const;
  using FindPlace = std::function<Place()>;
  void save(const FindPlace& find, const History& history);
  // Lets other runs use the directory. Called before the process ends without destructors.
  void release_directory();

  // Whether the training can go on from the last backup after this error.
  bool can_recover(const Status& why) const;
  // Waits until all tasks are there again and says so in the log. The next restore() throws an
  // error that was met too often.
  void await_tasks(const Status& why);

 private:
  // Fills `progress_` and `callbacks_`. Returns where this worker is.
  TrainingPlace collect(const Place& place, const History& history);

  TrainerImpl& trainer_;
  const FitOptions& options_;
  std::string progress_;  // as it is in the files
  std::vector<std::string> callbacks_;
  std::optional<TrainingBackup> backup_;
};

}  // namespace cohort::internal
