#include "ops/run_context.h"

namespace cohort::internal {

struct Cancellation::Waker {
  void call() {
    const std::lock_guard one_at_a_time(calling);
    if (wake) wake();
  }
  void end() {
    const std::lock_guard one_at_a_time(calling);
    wake = nullptr;
  }

  Turn calling;
  std::function<void()> wake;  // guarded by calling; empty after the listener's end
};

void Cancellation::cancel(Status status) {
  std::map<int, std::shared_ptr<Waker>> wakers;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_.load(std::memory_order_relaxed)) return;
    status_ = std::move(status);
    cancelled_.store(true, std::memory_order_release);
    wakers = wakers_;
  }
  for (const auto& [id, waker] : wakers) waker->call();
}

Cancellation::Listener::Listener(Cancellation& cancellation, std::function<void()> wake)
    : cancellation_(cancellation), waker_(std::make_shared<Waker>()) {
  waker_->wake = std::move(wake);
  {
    const std::lock_guard lock(cancellation_.mutex_);
    id_ = cancellation_.next_id_++;
    cancellation_.wakers_[id_] = waker_;
    if (!cancellation_.cancelled()) return;
  }
  waker_->call();
}

Cancellation::Listener::~Listener() {
  {
    const std::lock_guard lock(cancellation_.mutex_);
    cancellation_.wakers_.erase(id_);
  }
  waker_->end();
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
