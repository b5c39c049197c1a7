#include "checkpoint/background_saving.h"

#include <utility>

#include "base/activity.h"
#include "base/collective_purpose.h"
#include "base/log.h"
#include "base/worker_outcomes.h"
#include "ops/dispatch.h"

namespace cohort::internal {

SaveQueue::~SaveQueue() {
  const Status status = capture_status([&] { wait(); });
  if (!status.ok()) log_error("[Checkpoint] a save failed: {}", status.to_string());
}

void SaveQueue::finish(std::unique_lock<Turn>&) {
  thread_.join();
  const std::lock_guard lock(mutex_);
  throw_if_error(std::exchange(status_, {}));
}

void SaveQueue::wait() {
  std::unique_lock turn(turn_);
  finish(turn);
}

void SaveQueue::begin(const std::string& prefix, int64_t bytes_total) {
  bytes_written_ = 0;
  const std::lock_guard lock(mutex_);
  progress_ = {.writing = true, .prefix = prefix, .bytes_written = 0, .bytes_total = bytes_total};
}

void SaveQueue::perform(const Save& save) {
  Status status = capture_status([&] { save(bytes_written_); });
  const std::lock_guard lock(mutex_);
  progress_.writing = false;
  status_ = std::move(status);
}

void SaveQueue::run(const std::string& prefix, int64_t bytes_total, Save save) {
  const SavingNote saving;
  std::unique_lock turn(turn_);
  finish(turn);
  begin(prefix, bytes_total);
  if (!asynchronous_) {
    perform(save);
    finish(turn);
    return;
  }
  thread_ = Thread("cohort-save",
                   [this, save = std::move(save)](const std::stop_token&) { perform(save); });
}

SaveProgress SaveQueue::progress() const {
  const std::lock_guard lock(mutex_);
  SaveProgress now = progress_;
  now.bytes_written = bytes_written_;
  return now;
}

std::vector<std::string> texts_of_all(StrategyExtended* strategy, const std::string& own,
                                      const std::string& prefix, std::string_view what) {
  if (strategy == nullptr) return {own};
  const std::string name = prefix.substr(prefix.find_last_of('/') + 1);
  return strategy->gather_from_workers(own, fmt::format("checkpoint '{}': {}", name, what));
}

std::exception_ptr SaveQueue::await_before() {
  std::exception_ptr thrown = capture_exception([&] { wait(); });
  take_unawaited();
  return thrown;
}

void SaveQueue::note_unawaited(const std::string& prefix, StrategyExtended* strategy) {
  if (!asynchronous_) return;
  const bool several = strategy != nullptr && strategy->input_context().num_input_pipelines() > 1;
  const std::lock_guard lock(mutex_);
  unawaited_ = {prefix, several ? strategy : nullptr};
}

std::optional<SaveQueue::UnawaitedSave> SaveQueue::take_unawaited() {
  const std::lock_guard lock(mutex_);
  return std::exchange(unawaited_, std::nullopt);
}

// Only the chief knows when the files are written, so the workers exchange their outcomes. All
// workers make the same saves, so all of them have a save to wait for, or none has.
void SaveQueue::wait_on_all_workers(Site site) {
  const PlainDispatch plain;
  const CollectivePurpose purpose("checkpoint", site);
  const std::exception_ptr thrown = capture_exception([&] { wait(); });
  const std::optional<UnawaitedSave> save = take_unawaited();
  if (!save) return rethrow_if_any(thrown);
  throw_first_failure("Checkpoint", thrown,
                      texts_of_all(save->strategy, outcome_text(thrown), save->prefix,
                                   "whether the chief has written it"));
}

}  // namespace cohort::internal
