#pragma once

#include <functional>
#include <optional>
#include <string>

#include "distribute/training_backup.h"
#include "trainer/trainer_impl.h"

namespace cohort::internal {

// What fit() keeps to go on after a crash: a TrainingBackup of the model, the optimizer, the
// metrics, the callbacks and the figures so far. Without a folder it does nothing.
class Backup {
 public:
  Backup(TrainerImpl& trainer, const FitOptions& options);
  ~Backup();
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;

  // Where an epoch is. No position: the next one is to begin, at the beginning of the data.
  struct Place {
    TrainerImpl::Totals totals = {};
    std::string position = {};
    int64_t walks = 0;   // the number of the next pass over the data
    bool ended = false;  // the epoch; the next one goes on from the position
  };
  // What the last backup says, where there is one, and this process is as it was then, but for the
  // callbacks.
  std::optional<Place> restore(History& history);
  void restore_callbacks() const;
  // The first one, where there was none.
  void begin(const Place& place, const History& history);
  // Whether a backup is due after that many steps.
  bool is_due(int64_t steps) const;
  using FindPlace = std::function<Place()>;
  void save(const FindPlace& find, const History& history);

  // Whether the training can go on from the last backup after this error; it waits until all tasks
  // are there again, and says so in the log.
  bool can_recover(const Status& why) const;
  // Throws, at the next restore(), what was met too often.
  void await_tasks(const Status& why);

 private:
  // Makes `progress_` and what callbacks keep; gives where this worker is.
  TrainingPlace collect(const Place& place, const History& history);

  TrainerImpl& trainer_;
  const FitOptions& options_;
  std::string progress_;  // as it is in the files
  std::vector<std::string> callbacks_;
  std::optional<TrainingBackup> backup_;
};

}  // namespace cohort::internal
