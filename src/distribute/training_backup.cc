#include "distribute/training_backup.h"

#include <fmt/ranges.h>

#include <sstream>

#include "base/raise.h"
#include "cohort/random.h"
#include "distribute/multi_worker_extended.h"

namespace cohort::internal {
namespace {

// Null for strategies of one process.
MultiWorkerExtended* several_workers(Strategy& strategy) {
  auto* workers = dynamic_cast<MultiWorkerExtended*>(&strategy.extended());
  return workers != nullptr && workers->num_workers() > 1 ? workers : nullptr;
}

std::string text_of(const Tensor& numbers) {
  return fmt::format("{}", fmt::join(numbers.to_vector<int64_t>(), " "));
}

Tensor numbers_of(const std::string& text) {
  std::istringstream words(text);
  std::vector<int64_t> numbers;
  for (int64_t number = 0; words >> number;) numbers.push_back(number);
  return Tensor::from(std::move(numbers));
}

// Several texts as one, each after its length.
std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += fmt::format("{} {}", text.size(), text);
  return all;
}

std::vector<std::string> separated(const std::string& all) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < all.size();) {
    const size_t space = all.find(' ', at);
    if (space == std::string::npos) break;
    const size_t size = std::stoul(all.substr(at, space - at));
    texts.push_back(all.substr(space + 1, size));
    at = space + 1 + size;
  }
  return texts;
}

const BackupOptions& checked(const BackupOptions& options) {
  if (options.folder.empty()) raise(Code::InvalidArgument, "[BackupAndRestore] needs a folder");
  if (options.every_steps < 1 || options.max_to_keep < 1) {
    raise(Code::InvalidArgument,
          "[BackupAndRestore] every_steps is {} and max_to_keep {}; both are at least 1",
          options.every_steps, options.max_to_keep);
  }
  return options;
}

}  // namespace

TrainingBackup::TrainingBackup(Strategy& strategy, const std::vector<Checkpoint::Item>& objects,
                               const BackupOptions& options)
    : strategy_(strategy),
      options_(checked(options)),
      checkpoint_(objects),
      manager_(checkpoint_, options_.folder,
               {.max_to_keep = options_.max_to_keep, .checkpoint_name = "backup"}) {
  checkpoint_.track("backup_and_restore",
                    Trackable::bytes([this] { return joined(saved_); },
                                     [this](const std::string& all) { saved_ = separated(all); }));
}

std::vector<std::string> TrainingBackup::texts_of_all(const std::string& own) const {
  return strategy_.extended().gather_from_workers(own);
}

void TrainingBackup::begin(const TrainingPlace& place) {
  save(place);
  if (several_workers(strategy_) != nullptr) restore();
}

void TrainingBackup::save(const TrainingPlace& place) {
  std::vector<std::string> all{std::to_string(place.steps)};
  const std::string random = text_of(random::default_generator().state());
  for (std::string& text : texts_of_all(random)) all.push_back(std::move(text));
  for (std::string& text : texts_of_all(place.position)) all.push_back(std::move(text));
  saved_ = std::move(all);
  const Status status = capture_status([&] { manager_.save(place.steps); });
  const std::string problem = texts_of_all(status.message)[0];
  throw_if_error(status);
  if (!problem.empty()) {
    raise(Code::FailedPrecondition, "[BackupAndRestore] the chief could not write the backup: {}",
          problem);
  }
  if (auto* workers = several_workers(strategy_)) workers->end_newcomer();
}

std::string TrainingBackup::find_latest() const {
  const bool writes = strategy_.extended().should_checkpoint();
  return texts_of_all(writes ? manager_.latest_checkpoint().value_or("") : "")[0];
}

std::optional<TrainingPlace> TrainingBackup::restore() {
  const std::string latest = find_latest();
  if (latest.empty()) return std::nullopt;
  checkpoint_.restore(latest);
  const TrainingPlace place = take_own(latest);
  if (auto* workers = several_workers(strategy_)) workers->end_newcomer();
  return place;
}

TrainingPlace TrainingBackup::take_own(const std::string& prefix) const {
  auto* const workers = several_workers(strategy_);
  const auto own = static_cast<size_t>(workers == nullptr ? 0 : workers->worker_id());
  const size_t count = saved_.empty() ? 0 : (saved_.size() - 1) / 2;
  if (own >= count) {
    raise(Code::InvalidArgument,
          "[BackupAndRestore] '{}' is of {} workers, and this is worker {}; use as many workers as "
          "before, or another folder",
          prefix, count, own);
  }
  random::default_generator().restore(numbers_of(saved_[1 + own]));
  return {.steps = std::stoll(saved_[0]), .position = saved_[1 + count + own]};
}

void TrainingBackup::restore_objects() {
  if (manager_.restore_latest()) return;
  raise(Code::NotFound, "[BackupAndRestore] there is no good backup in '{}'", options_.folder);
}

bool TrainingBackup::is_lost_worker(const Status& why) const {
  return several_workers(strategy_) != nullptr &&
         (why.code == Code::Unavailable || why.code == Code::Aborted);
}

void TrainingBackup::await_workers() {
  several_workers(strategy_)->rejoin(options_.rejoin_timeout);
}

}  // namespace cohort::internal
