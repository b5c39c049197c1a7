#include "ops/run_context.h"

namespace cohort::internal {

void Cancellation::cancel(Status status) {
  const std::lock_guard lock(mutex_);
  if (cancelled_.load(std::memory_order_relaxed)) return;
  status_ = std::move(status);
  cancelled_.store(true, std::memory_order_release);
  for (const auto& [id, wake] : wakers_) wake();
}

Cancellation::Listener::Listener(Cancellation& cancellation, std::function<void()> wake)
    : cancellation_(cancellation) {
  const std::lock_guard lock(cancellation_.mutex_);
  id_ = cancellation_.next_id_++;
  if (cancellation_.cancelled()) wake();
  cancellation_.wakers_[id_] = std::move(wake);
}

Cancellation::Listener::~Listener() {
  const std::lock_guard lock(cancellation_.mutex_);
  cancellation_.wakers_.erase(id_);
}

RunContext& require_run(RunContext* run, std::string_view op) {
  if (run != nullptr) return *run;
  raise(Code::FailedPrecondition, "[{}] needs a graph and a session to run in", op);
}

Cancellation& cancellation_of(RunContext* run) {
  static Cancellation never;
  return run != nullptr ? run->cancellation() : never;
}

}  // namespace cohort::internal
