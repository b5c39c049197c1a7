#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cohort/summary.h"
#include "cohort/trainer.h"

// Callbacks for Trainer::fit that most programs use.

namespace cohort {

// Whether a figure is the better the smaller or the larger it is. Auto: larger when its name has
// "accuracy" or "auc" in it, else smaller.
enum class MonitorMode { Auto, Min, Max };

namespace internal {

// Follows one figure of the logs. A figure that does not exist is InvalidArgument, which lists
// those there are.
class Monitor {
 public:
  Monitor(std::string callback, std::string figure, MonitorMode mode, double min_delta);
  // Whether it is better than ever before by more than min_delta.
  bool improved(const Logs& logs);
  double best() const { return best_; }
  void set_best(double best) { best_ = best; }
  void forget() { best_ = worst(); }
  const std::string& figure() const { return figure_; }

 private:
  double worst() const;  // than which everything is better

  std::string callback_;
  std::string figure_;
  bool larger_is_better_;
  double min_delta_;
  double best_;
};

}  // namespace internal

struct ModelCheckpointOptions {
  std::string directory = {};
  std::string monitor = "val_loss";
  MonitorMode mode = MonitorMode::Auto;
  bool keep_last = true;  // "directory/last" after each epoch
  bool keep_best = true;  // "directory/best" whenever the figure has improved
};
// Keeps the last and the best state of the training in files. Load one with
// trainer.checkpoint().read("directory/best").
class ModelCheckpoint : public Callback {
 public:
  // Throws InvalidArgument without a directory.
  explicit ModelCheckpoint(const ModelCheckpointOptions& options);
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  std::string save() const override;
  void restore(const std::string& saved) override;

 private:
  const ModelCheckpointOptions options_;
  internal::Monitor monitor_;
};

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  MonitorMode mode = MonitorMode::Auto;
  double min_delta = 0;  // what counts as better
  int patience = 3;      // epochs without improvement that end the training
  // At the end of fit(), whatever ended it, the model's variables get the values that they had
  // after the best epoch; the optimizer stays as it is. Memory and backups hold these values too.
  bool restore_best_weights = false;
};
// A training that it has ended is not taken up again by a program that is started again with the
// same FitOptions::backup. Another fit() without one begins to wait anew.
class EarlyStopping : public Callback {
 public:
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  void on_fit_end(Trainer& trainer) override;
  std::string save() const override;
  void restore(const std::string& saved) override;

 private:
  bool is_enough() const { return waited_ > 0 && waited_ >= options_.patience; }

  const EarlyStoppingOptions options_;
  internal::Monitor monitor_;
  int waited_ = 0;
  std::vector<Tensor> best_;  // values of the model's variables, where they are to be restored
  bool restored_ = false;     // and not begun since
};

// Sets the learning rate before each epoch: rate(epoch, rate now), epochs counting from 1. For
// rates that change with each step, give the optimizer a schedule.
class LearningRateScheduler : public Callback {
 public:
  explicit LearningRateScheduler(std::function<double(int epoch, double rate)> rate);
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_begin(Trainer& trainer) override;
  std::string save() const override;
  void restore(const std::string& saved) override;

 private:
  const std::function<double(int, double)> rate_;
  double set_ = std::numeric_limits<double>::quiet_NaN();  // the rate that is to be in force
  bool restored_ = false;                                  // and not begun since
};

struct ReduceOnPlateauOptions {
  std::string monitor = "val_loss";
  MonitorMode mode = MonitorMode::Auto;
  double min_delta = 1e-4;
  double factor = 0.1;  // the rate is multiplied by it
  int patience = 10;    // epochs without improvement before that
  double min_rate = 0;
};
// Lowers the learning rate where a figure does not improve any more.
class ReduceOnPlateau : public Callback {
 public:
  explicit ReduceOnPlateau(const ReduceOnPlateauOptions& options = {});
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  std::string save() const override;
  void restore(const std::string& saved) override;

 private:
  const ReduceOnPlateauOptions options_;
  internal::Monitor monitor_;
  int waited_ = 0;
  double rate_ = std::numeric_limits<double>::quiet_NaN();    // that it has set, if any
  double before_ = std::numeric_limits<double>::quiet_NaN();  // its first change of it, if any
  bool restored_ = false;                                     // and not begun since
};

// A line for each epoch in a CSV file: "epoch,accuracy,loss,...". A file that has such lines is
// continued; one with other columns is InvalidArgument. An epoch that is run again, since it ended
// after the backup that the training goes on from, has its line written again, not twice.
class CsvLogger : public Callback {
 public:
  explicit CsvLogger(std::string path);
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  void restore(const std::string& saved) override;

 private:
  const std::string path_;
  bool restored_ = false;  // and no line written since
};

struct TensorBoardOptions {
  std::string directory = {};
  // The loss so far, examples/s and the learning rate; 0: only after epochs.
  int64_t every_steps = 100;
};
// Figures for TensorBoard: those of steps under "step/", those of epochs under "epoch/". A resumed
// training has TensorBoard drop the figures of the steps that it makes again.
class TensorBoard : public Callback {
 public:
  // Throws InvalidArgument without a directory.
  explicit TensorBoard(const TensorBoardOptions& options);
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_begin(Trainer& trainer) override;
  void on_step_end(Trainer& trainer, const Logs& so_far) override;
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  void on_fit_end(Trainer& trainer) override;
  void restore(const std::string& saved) override;

 private:
  void add(const std::string& prefix, const Logs& logs, int64_t step);

  const TensorBoardOptions options_;
  std::unique_ptr<SummaryWriter> writer_;  // the chief's
  int64_t step_seen_ = 0;                  // the step of the last call
  int64_t examples_before_ = 0;            // of the epoch, before this process took it up
  bool restored_ = false;                  // and not begun since
};

// One's own, without a class; those that are not given do nothing.
struct LambdaCallbacks {
  std::function<void(Trainer&)> on_fit_begin = nullptr;
  std::function<void(Trainer&)> on_epoch_begin = nullptr;
  std::function<void(Trainer&, const Logs&)> on_step_end = nullptr;
  std::function<void(Trainer&, const Logs&)> on_epoch_end = nullptr;
  std::function<void(Trainer&)> on_fit_end = nullptr;
};
class LambdaCallback : public Callback {
 public:
  explicit LambdaCallback(LambdaCallbacks functions) : functions_(std::move(functions)) {}
  void on_fit_begin(Trainer& trainer) override { call(functions_.on_fit_begin, trainer); }
  void on_epoch_begin(Trainer& trainer) override { call(functions_.on_epoch_begin, trainer); }
  void on_step_end(Trainer& trainer, const Logs& so_far) override {
    call(functions_.on_step_end, trainer, so_far);
  }
  void on_epoch_end(Trainer& trainer, const Logs& logs) override {
    call(functions_.on_epoch_end, trainer, logs);
  }
  void on_fit_end(Trainer& trainer) override { call(functions_.on_fit_end, trainer); }

 private:
  template <typename F, typename... Args>
  static void call(const F& f, Args&... args) {
    if (f) f(args...);
  }
  const LambdaCallbacks functions_;
};

}  // namespace cohort
