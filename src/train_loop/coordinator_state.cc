#include "train_loop/coordinator_state.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {

bool CoordinatorState::is_clean(Code code) const {
  const auto& clean = options_.clean_stop_codes;
  return code == Code::Ok || std::find(clean.begin(), clean.end(), code) != clean.end();
}

void CoordinatorState::request_stop(const std::exception_ptr& error) {
  const bool failed = !is_clean(status_of(error).code);
  const std::lock_guard lock(mutex_);
  if (joined_ && failed) std::rethrow_exception(error);
  if (!stop_ && failed) error_ = error;
  stop_ = true;
  stopped_.notify_all();
}

bool CoordinatorState::should_stop() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

bool CoordinatorState::wait_for_stop(std::optional<std::chrono::milliseconds> timeout) const {
  std::unique_lock lock(mutex_);
  const auto stopped = [&] { return stop_; };
  if (timeout) return stopped_.wait_for(lock, *timeout, stopped);
  stopped_.wait(lock, stopped);
  return true;
}

void CoordinatorState::clear_stop() {
  const std::lock_guard lock(mutex_);
  stop_ = false;
  joined_ = false;
  error_ = nullptr;
}

std::exception_ptr CoordinatorState::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void CoordinatorState::stop_on_exception(const std::function<void()>& body) {
  const std::exception_ptr thrown = capture_exception(body);
  if (thrown != nullptr) request_stop(thrown);
}

void CoordinatorState::register_thread(std::shared_ptr<CoordinatedThread> thread) {
  if (!thread) raise(Code::InvalidArgument, "[Coordinator] the thread to wait for is null");
  const std::lock_guard lock(mutex_);
  std::erase_if(threads_, [](const auto& known) { return !known->running(); });
  threads_.push_back(std::move(thread));
}

CoordinatedThreads CoordinatorState::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_;
}

void CoordinatorState::set_joined() {
  CoordinatedThreads gone;  // destroyed without the mutex
  const std::lock_guard lock(mutex_);
  gone.swap(threads_);
  joined_ = true;
}

bool CoordinatorState::joined() const {
  const std::lock_guard lock(mutex_);
  return joined_;
}

}  // namespace cohort::internal
