#include "distribute/training_backup.h"

#include <fmt/ranges.h>

#include <sstream>

#include "base/raise.h"
#include "base/timeline.h"
#include "base/worker_texts.h"
#include "cohort/internal/torch_random.h"
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
  checkpoint_.track("backup_and_restore", Trackable::bytes([this] { return join_texts(saved_); },
                                                           [this](const std::string& all) {
                                                             saved_ = split_texts(all);
                                                           }));
}

std::vector<std::string> TrainingBackup::texts_of_all(const std::string& own,
                                                      const std::string& what) const {
  return strategy_.extended().gather_from_workers(own, "backup: " + what);
}

void TrainingBackup::share(const std::string& what, const std::function<void()>& part) const {
  const std::exception_ptr thrown = capture_exception(part);
  throw_first_failure("Backup", thrown, texts_of_all(outcome_text(thrown), what));
}

void TrainingBackup::begin(const FindPlace& find) {
  save(find);
  if (several_workers(strategy_) != nullptr) restore();
}

void TrainingBackup::save(const FindPlace& find) {
  const TimelineSpan span("backup", "backup");
  TrainingPlace place;
  share("whether the place was found", [&] { place = find(); });
  const std::string random =
      join_texts({text_of(random::default_generator().state()), torch_random_state()});
  std::vector<std::string> all{std::to_string(place.steps)};
  for (std::string& text : texts_of_all(random, "random numbers")) all.push_back(std::move(text));
  for (std::string& text : texts_of_all(place.position, "positions"))
    all.push_back(std::move(text));
  saved_ = std::move(all);
  const auto scope = strategy_.scope();  // also objects without variables are saved by the chief
  manager_.save(place.steps);
  if (auto* workers = several_workers(strategy_)) workers->end_newcomer();
}

std::string TrainingBackup::find_latest() {
  std::string latest;
  share("whether the folder was read", [&] {
    if (gives_up()) throw Error(last_loss_);
    if (!strategy_.extended().should_checkpoint()) return;
    if (!lock_) lock_.emplace(options_.folder);
    latest = manager_.latest_checkpoint().value_or("");
  });
  return texts_of_all(latest, "the latest one")[0];
}

std::optional<TrainingPlace> TrainingBackup::restore() {
  const std::string latest = find_latest();
  if (latest.empty()) return std::nullopt;
  TrainingPlace place;
  share("whether it was restored", [&] {
    const auto scope = strategy_.scope();
    checkpoint_.restore(latest);
    place = take_own(latest);
  });
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
  const std::vector<std::string> random = split_texts(saved_[1 + own]);
  random::default_generator().restore(numbers_of(random.at(0)));
  restore_torch_random(random.at(1));
  return {.steps = std::stoll(saved_[0]), .position = saved_[1 + count + own]};
}

void TrainingBackup::restore_objects() {
  if (manager_.restore_latest()) return;
  raise(Code::NotFound, "[BackupAndRestore] there is no good backup in '{}'", options_.folder);
}

bool TrainingBackup::is_lost_worker(const Status& why) const {
  return several_workers(strategy_) != nullptr && is_loss(why.code);
}

void TrainingBackup::note_loss(const Status& why, int64_t steps) {
  const bool same = why.message == last_loss_.message && steps == last_loss_steps_;
  same_losses_ = same ? same_losses_ + 1 : 1;
  last_loss_ = why;
  last_loss_steps_ = steps;
}

void TrainingBackup::await_workers() {
  several_workers(strategy_)->rejoin(options_.rejoin_timeout);
}

}  // namespace cohort::internal
