#include "cli/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace cohort::cli {
namespace {

// A task that dies because another did is often noticed at the same moment.
constexpr auto kSettling = std::chrono::milliseconds(300);
// Who ends so soon after a chief was started again ends by the word of the one before.
constexpr auto kFarewell = std::chrono::seconds(2);

}  // namespace

Supervisor::Supervisor(std::vector<SupervisedTask> tasks, SupervisorOptions options,
                       std::function<void(const std::string&)> say)
    : tasks_(std::move(tasks)),
      options_(std::move(options)),
      say_(std::move(say)),
      outcomes_(tasks_.size()),
      asked_(tasks_.size()) {}

void Supervisor::start() {
  for (const SupervisedTask& task : tasks_) task.host->start(task.start);
}

bool Supervisor::restart(size_t task, const Ending& ending) {
  const auto allowed = options_.max_restarts.find(tasks_[task].id.job);
  const int limit = allowed == options_.max_restarts.end() ? 0 : allowed->second;
  int& restarts = outcomes_[task].restarts;
  if (stopping_ || restarts >= limit || !ending.has_status()) return false;
  ++restarts;
  say_(fmt::format("{} died: {}. Restart {} of {}", label_of(tasks_[task].id), explain(ending),
                   restarts, limit));
  tasks_[task].host->start(tasks_[task].start);
  if (tasks_[task].id.job != "chief") return true;
  call_back_until_ = Clock::now() + kFarewell;
  call_back();
  return true;
}

void Supervisor::call_back() {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (running(i) || !outcomes_[i].ending->good()) continue;
    say_(fmt::format("{} was done, and is started again for the chief", label_of(tasks_[i].id)));
    outcomes_[i].ending.reset();
    tasks_[i].host->start(tasks_[i].start);
  }
}

void Supervisor::ended(size_t task, const Ending& ending) {
  if (!ending.good() && restart(task, ending)) return;
  Outcome& outcome = outcomes_[task];
  outcome.ending = ending;
  outcome.asked_to_stop = stopping_;
  outcome.when = Clock::now();
  if (stopping_) return ask_next();
  if (!ending.good()) {
    failed_ = true;
    stop_at_ = std::min(stop_at_, Clock::now() + kSettling);
  } else if (Clock::now() < call_back_until_ && !chief_is_done()) {
    call_back();
  } else if (everybody_trained()) {
    stop_at_ = Clock::now();
  } else if (chief_is_done()) {
    stop_at_ = std::min(stop_at_, Clock::now() + options_.grace);
  }
}

bool Supervisor::everybody_trained() const {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (trains(tasks_[i].id) && running(i)) return false;
  }
  return true;
}

bool Supervisor::chief_is_done() const {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].id.job == "chief" && !running(i)) return true;
  }
  return false;
}

void Supervisor::signal_all(int signal) {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (running(i)) tasks_[i].host->signal(i, signal);
  }
}

void Supervisor::ask_to_end() {
  stopping_ = true;
  stop_at_ = Clock::time_point::max();
  kill_at_ = Clock::now() + options_.grace;
  ask_next();
}

bool Supervisor::leads(size_t task) const {
  const auto is_chief = [](const SupervisedTask& each) { return each.id.job == "chief"; };
  const bool has_chief = std::any_of(tasks_.begin(), tasks_.end(), is_chief);
  return has_chief ? is_chief(tasks_[task]) : trains(tasks_[task].id);
}

void Supervisor::ask_next() {
  bool leaders_run = false;
  for (size_t i = 0; i < tasks_.size(); ++i) leaders_run |= running(i) && leads(i);
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (!running(i) || asked_[i] || (leaders_run && !leads(i))) continue;
    asked_[i] = true;
    tasks_[i].host->signal(i, SIGTERM);
  }
}

void Supervisor::stop(int signal) {
  if (stop_signal_ == 0) stop_signal_ = signal;
  if (!stopping_) {
    ask_to_end();
  } else {
    signal_all(SIGKILL);
  }
}

void Supervisor::tick() {
  const auto now = Clock::now();
  if (!stopping_ && now >= stop_at_) ask_to_end();
  if (stopping_ && now >= kill_at_) {
    kill_at_ = Clock::time_point::max();
    signal_all(SIGKILL);
  }
}

bool Supervisor::over() const {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (running(i)) return false;
  }
  return true;
}

std::optional<size_t> Supervisor::guilty() const {
  if (!failed_) return std::nullopt;
  std::optional<size_t> found;
  const auto weight = [&](size_t task) {
    const Outcome& outcome = outcomes_[task];
    return outcome.ending && !outcome.asked_to_stop ? weight_as_cause(*outcome.ending) : 0;
  };
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (weight(i) == 0) continue;
    if (!found || weight(i) > weight(*found) ||
        (weight(i) == weight(*found) && outcomes_[i].when < outcomes_[*found].when)) {
      found = i;
    }
  }
  return found;
}

int Supervisor::exit_code() const {
  if (const auto task = guilty()) return exit_code_of(*outcomes_[*task].ending);
  return stop_signal_ == 0 ? 0 : 128 + stop_signal_;
}

}  // namespace cohort::cli
