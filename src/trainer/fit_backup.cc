#include "trainer/fit_backup.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/mutex.h"
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
    log_info("[Trainer] goes on after step {}, from '{}'", found->steps, options_.backup);
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
  return backup_ && options_.backup_steps > 0 && steps % options_.backup_steps == 0;
}

void Backup::save(const FindPlace& find, const History& history) {
  if (backup_) backup_->save([&] { return collect(find(), history); });
}

bool Backup::can_recover(const Status& why) const {
  if (!backup_ || backup_->gives_up()) return false;
  return backup_->is_lost_worker(why) || trainer_.runner->is_loss(why);
}

void Backup::await_tasks(const Status& why) {
  log_warning("[Trainer] after step {}: {}; goes back to the last backup when all tasks are there",
              trainer_.progress.step, why.to_string());
  backup_->note_loss(why, trainer_.progress.step);
  trainer_.runner->await_tasks();
  if (backup_->is_lost_worker(why)) backup_->await_workers();
}

namespace {

// Signals belong to the process, so this state does, too.
constexpr std::array kSignals{SIGTERM, SIGINT};
Mutex mutex;
int users = 0;                                     // guarded by mutex
std::array<bool, kSignals.size()> installed = {};  // guarded by mutex
std::atomic<int> signal_received = 0;
std::atomic<int64_t> received_at = 0;  // when the first signal came, in ms; 0: none came
std::atomic<int> fits_under_way = 0;   // how many calls of fit() make steps
static_assert(std::atomic<int>::is_always_lock_free);  // for the handler, and so is the next line
static_assert(std::atomic<int64_t>::is_always_lock_free);

// A task may get SIGTERM from its launcher and from the service manager that stops the launcher.
constexpr int64_t kSameRequestMs = 2000;

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // safe in a handler
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// The handler first notes the signal and then looks whether steps are made. ~Steps and ~EndSignals
// do the opposite, so that one of the two sees the other.
void note_signal(int signal) {
  const int64_t now = now_ms();
  int64_t before = 0;
  const bool first = received_at.compare_exchange_strong(before, now);
  if (first) signal_received = signal;
  const bool insists = !first && (signal == SIGINT || now - before >= kSameRequestMs);
  if (insists || fits_under_way == 0) end_by(signal);
}

bool is_default(int signal) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  return (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL;
}

}  // namespace

EndSignals::EndSignals() {
  const std::lock_guard lock(mutex);
  if (users++ > 0) return;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    installed[i] = is_default(kSignals[i]) && sigaction(kSignals[i], &action, nullptr) == 0;
  }
}

EndSignals::~EndSignals() {
  if (received() != 0) end();
  const std::lock_guard lock(mutex);
  if (--users > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (installed[i]) std::signal(kSignals[i], SIG_DFL);
  }
}

EndSignals::Steps::Steps() { ++fits_under_way; }
EndSignals::Steps::~Steps() { --fits_under_way; }

int EndSignals::received() { return signal_received; }

void EndSignals::end() {
  std::fflush(nullptr);
  end_by(received());
  _exit(128 + received());  // reached where the signal is blocked
}

}  // namespace cohort::internal
