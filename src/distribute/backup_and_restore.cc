#include <fmt/ranges.h>

#include <sstream>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/backup.h"
#include "cohort/random.h"
#include "distribute/multi_worker_extended.h"
#include "distribute/worker_reductions.h"

namespace cohort {
namespace {

using internal::raise;

// Null for strategies of one process.
internal::MultiWorkerExtended* several_workers(Strategy& strategy) {
  auto* workers = dynamic_cast<internal::MultiWorkerExtended*>(&strategy.extended());
  return workers != nullptr && workers->num_workers() > 1 ? workers : nullptr;
}

// Everybody's text, by worker.
std::vector<std::string> texts_of_all(Strategy& strategy, const std::string& own) {
  auto* workers = several_workers(strategy);
  if (workers == nullptr) return {own};
  Communicator together = workers->communicator();
  return internal::texts_of_workers(together, own);
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

}  // namespace

// What a backup has besides the program's objects, and where backups are.
struct BackupAndRestore::State {
  State(const std::vector<Checkpoint::Item>& objects, const BackupOptions& options)
      : checkpoint(objects),
        manager(checkpoint, options.folder,
                {.max_to_keep = options.max_to_keep, .checkpoint_name = "backup"}) {
    checkpoint.track("backup_and_restore",
                     Trackable::bytes([this] { return joined(saved); },
                                      [this](const std::string& all) { saved = separated(all); }));
  }

  // The number of steps; then, for each worker, its random numbers and its position in the data.
  std::vector<std::string> saved;
  std::string position;  // of this worker; empty: the beginning
  Checkpoint checkpoint;
  CheckpointManager manager;
};

BackupAndRestore::BackupAndRestore(Strategy& strategy, const std::vector<Checkpoint::Item>& objects,
                                   const BackupOptions& options)
    : strategy_(strategy),
      options_(checked(options)),
      state_(std::make_unique<State>(objects, options_)) {}

BackupAndRestore::~BackupAndRestore() = default;

BackupReport BackupAndRestore::run(const DistributedDataset& data, const Step& step) {
  Status status = capture_status([&] { resume(data); });
  if (status.ok()) status = capture_status([&] { train(data, step); });
  while (!status.ok()) {
    if (!is_lost_worker(status)) throw Error(status);
    status = capture_status([&, why = status] { recover(data, why); });
    if (status.ok()) status = capture_status([&] { train(data, step); });
  }
  return report_;
}

void BackupAndRestore::train(const DistributedDataset& data, const Step& step) {
  DistributedIterator iterator =
      state_->position.empty() ? data.iterator() : data.iterator(state_->position);
  while (const auto element = iterator.next_optional()) {
    step(*element);
    ++report_.steps;
    if (report_.steps % options_.every_steps == 0) back_up(iterator);
  }
  if (report_.steps % options_.every_steps != 0) back_up(iterator);
}

void BackupAndRestore::back_up(DistributedIterator& iterator) {
  std::vector<std::string> all{std::to_string(report_.steps)};
  const std::string random = text_of(random::default_generator().state());
  for (std::string& text : texts_of_all(strategy_, random)) all.push_back(std::move(text));
  for (std::string& text : texts_of_all(strategy_, iterator.save())) {
    all.push_back(std::move(text));
  }
  state_->saved = std::move(all);
  const Status status = capture_status([&] { state_->manager.save(report_.steps); });
  // Nobody goes on before the chief has written it.
  const std::string problem = texts_of_all(strategy_, status.message)[0];
  throw_if_error(status);
  if (problem.empty()) return;
  raise(Code::FailedPrecondition, "[BackupAndRestore] the chief could not write the backup: {}",
        problem);
}

void BackupAndRestore::resume(const DistributedDataset& data) {
  auto* workers = several_workers(strategy_);
  const bool is_chief = workers == nullptr || workers->is_chief();
  const std::string found = is_chief ? state_->manager.latest_checkpoint().value_or("") : "";
  const std::string latest = texts_of_all(strategy_, found)[0];
  if (latest.empty()) {
    DistributedIterator beginning = data.iterator();
    back_up(beginning);
  } else {
    state_->checkpoint.restore(latest);
    const auto own = static_cast<size_t>(workers == nullptr ? 0 : workers->worker_id());
    const size_t count = (state_->saved.size() - 1) / 2;
    if (own >= count) {
      raise(Code::InvalidArgument,
            "[BackupAndRestore] '{}' is of {} workers, and this is worker {}", latest, count, own);
    }
    report_.steps = std::stoll(state_->saved[0]);
    random::default_generator().restore(numbers_of(state_->saved[1 + own]));
    state_->position = state_->saved[1 + count + own];
  }
  if (workers != nullptr) workers->end_newcomer();
}

bool BackupAndRestore::is_lost_worker(const Status& why) const {
  return several_workers(strategy_) != nullptr &&
         (why.code == Code::Unavailable || why.code == Code::Aborted);
}

void BackupAndRestore::recover(const DistributedDataset& data, const Status& why) {
  const int64_t reached = report_.steps;
  internal::log_warning(
      "[BackupAndRestore] after step {}: {}; waits until all workers are there again", reached,
      why.to_string());
  several_workers(strategy_)->rejoin(options_.rejoin_timeout);
  resume(data);
  ++report_.recoveries;
  report_.lost_steps += reached - report_.steps;
  internal::log_warning(
      "[BackupAndRestore] goes on from the backup of step {}: {} steps are lost and made again",
      report_.steps, reached - report_.steps);
}

}  // namespace cohort
