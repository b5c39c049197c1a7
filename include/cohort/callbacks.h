#pragma once

#include "cohort/internal/delegating_callback.h"

// The callbacks for Trainer::fit that most programs use.
//
//   trainer.fit(dataset, {.epochs = 50,
//                         .validation = data::from_tensor_slices(x, y).batch(256),
//                         .callbacks = {std::make_shared<EarlyStopping>(),
//                                       std::make_shared<CsvLogger>("epochs.csv")}});

namespace cohort {

// Whether a smaller or a larger figure is better. Auto: larger if the figure's name contains
// "accuracy" or "auc", else smaller.
enum class MonitorMode { Auto, Min, Max };

// Options of ModelCheckpoint.
struct ModelCheckpointOptions {
  std::string directory = {};
  std::string monitor = "val_loss";
  MonitorMode mode = MonitorMode::Auto;
  bool keep_last = true;  // "directory/last" after each epoch
  bool keep_best = true;  // "directory/best" when the figure has improved
};
// ModelCheckpoint keeps the last and the best state of the training in files. To load one, call
// trainer.checkpoint().read("directory/best").
class ModelCheckpoint : public internal::DelegatingCallback {
 public:
  // Throws InvalidArgument if the directory is empty.
  explicit ModelCheckpoint(const ModelCheckpointOptions& options);
};

// Options of EarlyStopping.
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  MonitorMode mode = MonitorMode::Auto;
  double min_delta = 0;  // an improvement is larger than this
  int patience = 3;      // epochs without improvement before the end
  // Whether fit() ends with the values that the model's variables had after the best epoch,
  // whatever ended it. The optimizer stays as it is. These values take memory and are part of
  // backups.
  bool restore_best_weights = false;
};
// EarlyStopping ends the training when a figure has stopped improving. A program that is started
// again with the same FitOptions::backup does not continue a training that EarlyStopping ended. A
// new fit() without a backup counts from the beginning.
class EarlyStopping : public internal::DelegatingCallback {
 public:
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});
};

// LearningRateScheduler sets the learning rate before each epoch to rate(epoch, current rate). The
// first epoch is 1. If the rate should change at each step, give the optimizer a schedule instead.
class LearningRateScheduler : public internal::DelegatingCallback {
 public:
  explicit LearningRateScheduler(std::function<double(int epoch, double rate)> rate);
};

// Options of ReduceOnPlateau.
struct ReduceOnPlateauOptions {
  std::string monitor = "val_loss";
  MonitorMode mode = MonitorMode::Auto;
  double min_delta = 1e-4;
  double factor = 0.1;  // of the new rate to the old one
  int patience = 10;    // epochs without improvement before each reduction
  double min_rate = 0;
};
// ReduceOnPlateau lowers the learning rate when a figure has stopped improving.
class ReduceOnPlateau : public internal::DelegatingCallback {
 public:
  explicit ReduceOnPlateau(const ReduceOnPlateauOptions& options = {});
};

// CsvLogger appends a line for each epoch to a CSV file: "epoch,accuracy,loss,...". Throws
// InvalidArgument if the file has lines with other columns. If the training resumes from a backup
// and repeats the last epoch in the file, the new line replaces the old one.
class CsvLogger : public internal::DelegatingCallback {
 public:
  explicit CsvLogger(std::string path);
};

// Options of TensorBoard.
struct TensorBoardOptions {
  std::string directory = {};
  // Steps between two records of the loss so far, examples per second and the learning rate. Empty:
  // records only after epochs.
  std::optional<int64_t> every_steps = 100;
};
// TensorBoard writes figures for TensorBoard: the figures of steps under "step/", those of epochs
// under "epoch/". When a training resumes, TensorBoard drops the earlier figures of the steps that
// are repeated.
class TensorBoard : public internal::DelegatingCallback {
 public:
  // Throws InvalidArgument if the directory is empty, or if every_steps is below 1.
  explicit TensorBoard(const TensorBoardOptions& options);
};

// The functions of a LambdaCallback. An empty function does nothing.
struct LambdaCallbacks {
  std::function<void(Trainer&)> on_fit_begin = nullptr;
  std::function<void(Trainer&)> on_epoch_begin = nullptr;
  std::function<void(Trainer&, const Logs&)> on_step_end = nullptr;
  std::function<void(Trainer&, const Logs&)> on_epoch_end = nullptr;
  std::function<void(Trainer&)> on_fit_end = nullptr;
};
// LambdaCallback calls functions, so that a callback needs no class of its own.
class LambdaCallback : public internal::DelegatingCallback {
 public:
  explicit LambdaCallback(LambdaCallbacks functions);
};

}  // namespace cohort
