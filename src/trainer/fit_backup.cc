#include "trainer/fit_backup.h"

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

// MessagePack keeps doubles exactly, infinite ones and NaN included.
std::string to_bytes(const TrainingProgress& progress, const Backup::Place& place,
                     const History& history) {
  const Json json = {{"epoch", progress.epoch},
                     {"step_of_epoch", progress.step_of_epoch},
                     {"examples", place.totals.examples},
                     {"loss", place.totals.loss},
                     {"walks", place.walks},
                     {"ended", place.ended},
                     {"stopped", place.stopped},
                     {"history", history.epochs}};
  const std::vector<uint8_t> bytes = Json::to_msgpack(json);
  return {bytes.begin(), bytes.end()};
}

Json from_bytes(const std::string& bytes, const std::string& directory) {
  Json json = Json::from_msgpack(bytes, true, false);
  if (json.is_object() && json.contains("history")) return json;
  raise(Code::DataLoss, "[Trainer] '{}' has no backup of a Trainer; choose another directory",
        directory);
}

}  // namespace

Backup::Backup(TrainerImpl& trainer, const FitOptions& options)
    : trainer_(trainer), options_(options), callbacks_(options.callbacks.size()) {
  if (options.backup.empty()) return;
  std::vector<Checkpoint::Item> objects = {{"model", trainer.model.state},
                                           {"optimizer", trainer.optimizer},
                                           {"progress", kept_in(progress_)}};
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    objects.emplace_back("callback_" + std::to_string(i), kept_in(callbacks_[i]));
  }
  for (size_t i = 0; i < trainer.options.metrics.size(); ++i) {
    objects.emplace_back("metric_" + std::to_string(i), trainer.options.metrics[i].metric());
  }
  backup_.emplace(trainer.strategy, objects, BackupOptions{.directory = options.backup});
  trainer.runner->set_restore([this] { backup_->restore_objects(); });
}

Backup::~Backup() { trainer_.runner->set_restore(nullptr); }

std::optional<Backup::Place> Backup::restore(History& history) {
  if (!backup_) return std::nullopt;
  const std::optional<TrainingPlace> found = backup_->restore();
  if (!found) return std::nullopt;
  const Json json = from_bytes(progress_, options_.backup);
  trainer_.progress.epoch = json.at("epoch");
  trainer_.progress.step = found->steps;
  trainer_.progress.step_of_epoch = json.at("step_of_epoch");
  trainer_.progress.examples = json.at("examples");
  history.epochs = json.at("history").get<std::vector<Logs>>();
  if (found->steps > 0) {
    log_info("[Trainer] the training goes on after step {}, from '{}'", found->steps,
             options_.backup);
  }
  return Place{.totals = {.loss = json.at("loss"), .examples = json.at("examples")},
               .position = found->position,
               .walks = json.value("walks", json.at("epoch").get<int64_t>()),
               .ended = json.value("ended", found->position.empty()),
               .stopped = json.value("stopped", false)};
}

void Backup::restore_callbacks() const {
  for (size_t i = 0; i < callbacks_.size(); ++i) options_.callbacks[i]->restore(callbacks_[i]);
}

TrainingPlace Backup::collect(const Place& place, const History& history) {
  progress_ = to_bytes(trainer_.progress, place, history);
  for (size_t i = 0; i < callbacks_.size(); ++i) callbacks_[i] = options_.callbacks[i]->save();
  return {.steps = trainer_.progress.step, .position = place.position};
}

void Backup::begin(const Place& place, const History& history) {
  if (backup_) backup_->begin([&] { return collect(place, history); });
}

bool Backup::is_due(int64_t steps) const {
  return backup_ && options_.backup_steps && steps % *options_.backup_steps == 0;
}

void Backup::save(const FindPlace& find, const History& history) {
  if (backup_) backup_->save([&] { return collect(find(), history); });
}

void Backup::release_directory() {
  if (backup_) backup_->release_directory();
}

bool Backup::can_recover(const Status& why) const {
  if (!backup_ || backup_->gives_up()) return false;
  return backup_->is_lost_worker(why) || trainer_.runner->is_loss(why);
}

void Backup::await_tasks(const Status& why) {
  log_warning(
      "[Trainer] after step {}: {}; the training goes back to the last backup when all tasks have "
      "returned",
      trainer_.progress.step, why.to_string());
  backup_->note_loss(why, trainer_.progress.step);
  trainer_.runner->await_tasks();
  if (backup_->is_lost_worker(why)) backup_->await_workers();
}

}  // namespace cohort::internal
