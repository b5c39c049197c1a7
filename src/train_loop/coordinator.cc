#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/threads.h"
#include "train_loop/coordinator_state.h"

namespace cohort {
namespace internal {
namespace {

using std::chrono::milliseconds;
using Time = std::chrono::steady_clock::time_point;

milliseconds until(Time deadline) {
  const auto left =
      std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, milliseconds(0));
}

std::vector<std::string> running_names(const CoordinatedThreads& threads) {
  std::vector<std::string> names;
  for (const auto& thread : threads) {
    if (thread->running()) names.push_back(thread->name());
  }
  return names;
}

// Returns when all have ended or somebody asks to stop. A thread tells its end only to those who
// wait for it alone, so this looks at both in turn.
void wait_for_end_or_stop(const CoordinatorState& state, const CoordinatedThreads& threads) {
  constexpr milliseconds kLook{20};
  for (const auto& thread : threads) {
    while (!state.should_stop() && !thread->join_for(kLook)) {
    }
  }
}

void wait_for_end(const CoordinatedThreads& threads, milliseconds grace) {
  const Time deadline = std::chrono::steady_clock::now() + grace;
  for (const auto& thread : threads) thread->join_for(until(deadline));
}

}  // namespace
}  // namespace internal

using internal::CoordinatorState;

Coordinator::Coordinator(const CoordinatorOptions& options)
    : state_(std::make_shared<CoordinatorState>(options)) {}

Coordinator::~Coordinator() {
  const Status status = capture_status([&] {
    if (state_->joined() || state_->threads().empty()) return;
    state_->request_stop(nullptr);
    join({.ignore_live_threads = true});
  });
  if (!status.ok()) internal::log_warning("[Coordinator] ended with {}", status.to_string());
}

std::shared_ptr<CoordinatedThread> Coordinator::start_thread(std::string name,
                                                             std::function<void()> body) {
  auto thread = std::make_shared<CoordinatedThread>(
      std::move(name),
      [state = state_, body = std::move(body)] { state->stop_on_exception(body); });
  state_->register_thread(thread);
  return thread;
}

std::shared_ptr<CoordinatedThread> Coordinator::start_loop(std::string name,
                                                           std::chrono::milliseconds interval,
                                                           std::function<void()> body) {
  return start_thread(std::move(name), [state = state_, interval, body = std::move(body)] {
    do {
      if (!state->should_stop()) body();
    } while (!state->wait_for_stop(interval));
  });
}

void Coordinator::register_thread(std::shared_ptr<CoordinatedThread> thread) {
  state_->register_thread(std::move(thread));
}

void Coordinator::request_stop() { state_->request_stop(nullptr); }
void Coordinator::request_stop(const Status& error) { state_->request_stop(error); }
bool Coordinator::should_stop() const { return state_->should_stop(); }
bool Coordinator::wait_for_stop(std::optional<std::chrono::milliseconds> timeout) const {
  return state_->wait_for_stop(timeout);
}
void Coordinator::clear_stop() { state_->clear_stop(); }
void Coordinator::raise_requested_exception() const { internal::rethrow_if_any(state_->error()); }
void Coordinator::stop_on_exception(const std::function<void()>& body) {
  state_->stop_on_exception(body);
}
bool Coordinator::joined() const { return state_->joined(); }

void Coordinator::join(const JoinOptions& options) {
  for (const auto& thread : options.threads) state_->register_thread(thread);
  const CoordinatedThreads threads = state_->threads();
  internal::wait_for_end_or_stop(*state_, threads);
  internal::wait_for_end(threads, options.stop_grace_period);
  const std::vector<std::string> alive = internal::running_names(threads);
  state_->set_joined();
  internal::rethrow_if_any(state_->error());
  if (alive.empty()) return;
  const std::string told =
      fmt::format("[Coordinator] threads still run {} ms after they were asked to stop: {}",
                  options.stop_grace_period.count(), fmt::join(alive, ", "));
  if (!options.ignore_live_threads) internal::raise(Code::DeadlineExceeded, "{}", told);
  internal::log_warning("{}", told);
}

}  // namespace cohort
