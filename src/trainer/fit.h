#pragma once

#include "trainer/backup.h"

namespace cohort::internal {

// One call of Trainer::fit.
class Fit {
 public:
  Fit(Trainer& trainer, TrainerImpl& impl, const data::Dataset& dataset, const FitOptions& options);

  // Through all losses of other tasks that a backup helps against.
  History run();

 private:
  template <typename F>
  void call(const F& f) {
    for (const std::shared_ptr<Callback>& callback : callbacks_) f(*callback);
  }

  // Whether this error was met too often at this step.
  bool happens_again(const Status& error);
  // From the last backup, or from the beginning.
  void resume();
  void train();
  void begin_epoch();
  void begin_walk();
  void run_epoch();
  std::optional<DistributedElement> next_batch();
  void finish_step(const Tensor& loss, int64_t examples);
  void end_epoch();
  // Throws Aborted when variables went back to the last backup without this loop.
  void check_restored() const;

  Trainer& trainer_;
  TrainerImpl& impl_;
  const FitOptions& options_;
  const DistributedDataset batches_;
  Backup backup_;
  Callbacks callbacks_;
  History history_;
  Backup::Place place_;  // where the running epoch is
  std::optional<DistributedIterator> input_;
  std::string last_error_;
  int64_t last_step_ = 0;
  int times_ = 0;  // that error, at that step
};

}  // namespace cohort::internal
