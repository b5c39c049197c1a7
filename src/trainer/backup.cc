#include "trainer/backup.h"

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/raise.h"

namespace cohort::internal {
namespace {

using Json = nlohmann::json;

Trackable kept_in(std::string& text) {
  return Trackable::bytes([&text] { return text; },
                          [&text](const std::string& saved) { text = saved; });
}

// The position in the data can be kept where one process reads all of it; several workers each have
// their own, so that they begin an interrupted epoch again.
bool keeps_positions(const TrainerImpl& trainer) {
  return trainer.strategy.extended().input_context().num_input_pipelines() == 1;
}

// MessagePack, which keeps doubles as they are, infinite ones and NaN included.
std::string to_bytes(const TrainingProgress& progress, const TrainerImpl::Totals& totals,
                     const History& history) {
  const Json json = {{"epoch", progress.epoch},
                     {"step", progress.step},
                     {"step_of_epoch", progress.step_of_epoch},
                     {"examples", totals.examples},
                     {"loss", totals.loss},
                     {"history", history.epochs}};
  const std::vector<uint8_t> bytes = Json::to_msgpack(json);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Backup::Backup(TrainerImpl& trainer, const FitOptions& options, const DistributedDataset& dataset)
    : trainer_(trainer),
      options_(options),
      dataset_(dataset),
      callbacks_(options.callbacks.size()) {
  if (options.backup.empty()) return;
  Checkpoint state({{"model", trainer.model.state},
                    {"optimizer", trainer.optimizer},
                    {"progress", kept_in(progress_)},
                    {"position", kept_in(position_)}});
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    state.track("callback_" + std::to_string(i), kept_in(callbacks_[i]));
  }
  for (size_t i = 0; i < trainer.options.metrics.size(); ++i) {
    state.track("metric_" + std::to_string(i), trainer.options.metrics[i].metric());
  }
  manager_.emplace(state, options.backup,
                   CheckpointManagerOptions{.max_to_keep = 2, .checkpoint_name = "backup"});
}

std::optional<Backup::Restored> Backup::restore(History& history) {
  if (!manager_) return std::nullopt;
  const std::optional<std::string> found = manager_->restore_latest();
  if (!found) return std::nullopt;
  const Json json = Json::from_msgpack(progress_, true, false);
  if (json.is_discarded()) {
    raise(Code::DataLoss, "[Trainer] '{}' is no backup of a Trainer; choose another folder",
          *found);
  }
  trainer_.progress.epoch = json.at("epoch");
  trainer_.progress.step = json.at("step");
  trainer_.progress.step_of_epoch = json.at("step_of_epoch");
  history.epochs = json.at("history").get<std::vector<Logs>>();
  for (size_t i = 0; i < callbacks_.size(); ++i) options_.callbacks[i]->restore(callbacks_[i]);
  log_info("[Trainer] goes on behind step {}, from '{}'", trainer_.progress.step, *found);
  Restored restored = {.totals = {.loss = json.at("loss"), .examples = json.at("examples")},
                       .input = std::nullopt};
  if (!position_.empty()) restored.input = dataset_.iterator(position_);
  return restored;
}

void Backup::after_step(const TrainerImpl::Totals& totals, DistributedIterator& input,
                        const History& history) {
  const bool due =
      manager_ && options_.backup_steps > 0 && trainer_.progress.step % options_.backup_steps == 0;
  if (!due || !keeps_positions(trainer_)) return;
  position_ = input.save();
  progress_ = to_bytes(trainer_.progress, totals, history);
  save();
}

void Backup::after_epoch(const History& history) {
  if (!manager_) return;
  position_.clear();
  progress_ = to_bytes(trainer_.progress, {}, history);
  save();
}

void Backup::save() {
  for (size_t i = 0; i < callbacks_.size(); ++i) callbacks_[i] = options_.callbacks[i]->save();
  manager_->save(trainer_.progress.step);
}

}  // namespace cohort::internal
