#include "base/log.h"
#include "cohort/backup.h"
#include "distribute/training_backup.h"

namespace cohort {

BackupAndRestore::BackupAndRestore(Strategy& strategy, const std::vector<Checkpoint::Item>& objects,
                                   const BackupOptions& options)
    : every_steps_(options.every_steps),
      backup_(std::make_unique<internal::TrainingBackup>(strategy, objects, options)) {}

BackupAndRestore::~BackupAndRestore() = default;

BackupReport BackupAndRestore::run(const DistributedDataset& data, const Step& step) {
  std::optional<Status> lost;
  while (true) {
    try {
      if (lost) {
        recover(data, *lost);
      } else {
        resume(data);
      }
      train(data, step);
      return report_;
    } catch (const Error& error) {
      if (!backup_->is_lost_worker(error.status())) throw;
      lost = error.status();
      backup_->note_loss(*lost, report_.steps);
    }
  }
}

void BackupAndRestore::train(const DistributedDataset& data, const Step& step) {
  std::optional<DistributedIterator> iterator;
  backup_->share("whether the data begins", [&] {
    iterator.emplace(position_.empty() ? data.iterator() : data.iterator(position_));
  });
  while (const auto element = iterator->next_optional()) {
    step(*element);
    ++report_.steps;
    if (report_.steps % every_steps_ == 0) back_up(*iterator);
  }
  if (report_.steps % every_steps_ != 0) back_up(*iterator);
}

void BackupAndRestore::back_up(DistributedIterator& iterator) {
  backup_->save([&] { return internal::TrainingPlace{report_.steps, iterator.save()}; });
}

void BackupAndRestore::resume(const DistributedDataset& data) {
  if (const auto place = backup_->restore()) {
    report_.steps = place->steps;
    position_ = place->position;
  } else {
    backup_->begin([&] {
      position_ = data.iterator().save();
      return internal::TrainingPlace{0, position_};
    });
  }
}

void BackupAndRestore::recover(const DistributedDataset& data, const Status& why) {
  const int64_t reached = report_.steps;
  internal::log_warning(
      "[BackupAndRestore] after step {}: {}; waits until all workers are there again", reached,
      why.to_string());
  backup_->await_workers();
  resume(data);
  ++report_.recoveries;
  report_.lost_steps += reached - report_.steps;
  internal::log_warning(
      "[BackupAndRestore] goes on from the backup of step {}: {} steps are lost and made again",
      report_.steps, reached - report_.steps);
}

}  // namespace cohort
