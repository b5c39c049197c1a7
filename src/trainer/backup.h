#pragma once

#include <optional>
#include <string>

#include "trainer/trainer_impl.h"

namespace cohort::internal {

// What fit() keeps in a folder to go on after a crash: model, optimizer, metrics, callbacks, the
// figures so far and the position in the data.
class Backup {
 public:
  // Without a folder it does nothing.
  Backup(TrainerImpl& trainer, const FitOptions& options, const DistributedDataset& dataset);

  // What the last backup says, where there is one. The epoch that it is in goes on with `input`.
  struct Restored {
    TrainerImpl::Totals totals;
    std::optional<DistributedIterator> input;  // none: the next epoch begins
  };
  std::optional<Restored> restore(History& history);

  // Behind a step, when one is due; `input` is where the next step will read.
  void after_step(const TrainerImpl::Totals& totals, DistributedIterator& input,
                  const History& history);
  void after_epoch(const History& history);

 private:
  void save();

  TrainerImpl& trainer_;
  const FitOptions& options_;
  const DistributedDataset& dataset_;
  std::string progress_;  // as it is in the files
  std::string position_;
  std::vector<std::string> callbacks_;
  std::optional<CheckpointManager> manager_;
};

}  // namespace cohort::internal
