#pragma once

#include "trainer/backup.h"
#include "trainer/end_signals.h"

namespace cohort::internal {

// One call of Trainer::fit. Where several workers train together, whether they go on is decided by
// all of them: callbacks, which are each worker's own, only say what they want.
class Fit {
 public:
  Fit(Trainer& trainer, TrainerImpl& impl, const data::Dataset& dataset, const FitOptions& options);

  // Through all losses of other tasks that a backup helps against.
  History run();

 private:
  template <typename F>
  void call(const F& f) {
    together([&] {
      for (const std::shared_ptr<Callback>& callback : callbacks_) f(*callback);
    });
  }
  // Runs `part` on each worker and tells the others what came of it: all stop when a callback of
  // one worker stopped the training, all make a backup when one worker was asked to end by a
  // signal, and a failure on one ends the training on all. Others than the worker that failed throw
  // Aborted.
  void together(const std::function<void()>& part);
  [[noreturn]] void throw_failures(const std::exception_ptr& own);
  // All workers: that they train alike, and from which pass on.
  int64_t agree_on_start();
  std::string settings() const;

  // From the last backup, or from the beginning.
  void resume();
  void train();
  // A backup of the running epoch.
  void save_place();
  // After a backup: ends the process if a signal asked for it.
  void end_if_asked() const;
  void begin_epoch();
  void begin_walk();
  void run_epoch();
  std::optional<DistributedElement> next_batch();
  void finish_step(const Tensor& loss, int64_t examples);
  // After FitOptions::steps_per_execution steps, and after the last ones of an epoch.
  void end_execution();
  // The figures of the epoch, those of the chief on all workers.
  Logs epoch_logs();
  void end_epoch();
  // Throws Aborted when variables went back to the last backup without this loop.
  void check_restored() const;

  Trainer& trainer_;
  TrainerImpl& impl_;
  const FitOptions& options_;
  const data::Dataset dataset_;
  const DistributedDataset batches_;
  Backup backup_;
  Callbacks callbacks_;
  History history_;
  Backup::Place place_;  // where the running epoch is
  std::optional<DistributedIterator> input_;
  bool stopping_ = false;  // on all workers
  bool leaving_ = false;   // a worker was asked to end
  std::optional<EndSignals> end_signals_;
};

}  // namespace cohort::internal
