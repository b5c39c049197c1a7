#include "coordinator/closure_queue.h"

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr std::chrono::milliseconds kCancelAgain{20};

Status cancelled(std::string_view why) {
  return {.code = Code::Cancelled,
          .message = fmt::format("[Coordinator] the function did not run: {}", why)};
}

}  // namespace

ClosureQueue::ClosureQueue(int64_t capacity, int workers, std::function<void()> cancel_running)
    : capacity_(capacity),
      cancel_running_(std::move(cancel_running)),
      only_(static_cast<size_t>(workers)) {}

void ClosureQueue::append(const ClosurePtr& closure) {
  std::deque<ClosurePtr>& into =
      closure->worker ? only_[static_cast<size_t>(*closure->worker)] : any_;
  into.push_back(closure);
  ++waiting_;
}

void ClosureQueue::add(const ClosurePtr& closure) {
  Lock lock(mutex_);
  changed_.wait(lock, [&] {
    const bool full = capacity_ > 0 && waiting_ >= capacity_;
    return stopped_ || (!cancelling_ && (error_ || (!full && joining_ == 0)));
  });
  if (stopped_) throw Error(*stopped_);
  closure->number = next_number_++;
  open_.insert(open_.end(), closure->number);
  append(closure);
  throw_error(lock);
  lock.unlock();
  closure->worker ? to_do_.notify_all() : to_do_.notify_one();
}

void ClosureQueue::join() {
  Lock lock(mutex_);
  ++joining_;
  changed_.wait(lock, [&] { return stopped_ || (!cancelling_ && (error_ || idle())); });
  --joining_;
  changed_.notify_all();
  if (stopped_) throw Error(*stopped_);
  throw_error(lock);
}

bool ClosureQueue::done() {
  Lock lock(mutex_);
  throw_error(lock);
  return idle();
}

void ClosureQueue::throw_error(Lock& lock) {
  if (!error_ || cancelling_) return;
  cancelling_ = true;
  cancel_until_idle(lock);
  cancel_waiting(cancelled("another one failed before"));
  const Status error = *std::exchange(error_, std::nullopt);
  cancelling_ = false;
  changed_.notify_all();
  to_do_.notify_all();
  throw Error(error);
}

// One that was taken just now may begin to run after it was told to end: so again and again.
void ClosureQueue::cancel_until_idle(Lock& lock) {
  do {
    lock.unlock();
    cancel_running_();
    lock.lock();
  } while (!changed_.wait_for(lock, kCancelAgain, [&] { return running_ == 0; }));
}

void ClosureQueue::cancel_waiting(const Status& why) {
  const auto cancel_all = [&](std::deque<ClosurePtr>& closures) {
    for (const ClosurePtr& closure : closures) {
      closure->result->fail(why);
      open_.erase(closure->number);
    }
    closures.clear();
  };
  cancel_all(any_);
  for (std::deque<ClosurePtr>& closures : only_) cancel_all(closures);
  waiting_ = 0;
}

std::deque<ClosurePtr>* ClosureQueue::source_for(int worker) {
  if (cancelling_ || paused_ > 0 || stopped_) return nullptr;
  std::deque<ClosurePtr>& own = only_[static_cast<size_t>(worker)];
  const bool own_first =
      !own.empty() && (any_.empty() || own.front()->number < any_.front()->number);
  if (own_first) return &own;
  return any_.empty() ? nullptr : &any_;
}

ClosurePtr ClosureQueue::take(int worker, const std::stop_token& stop) {
  Lock lock(mutex_);
  const std::stop_callback wake(stop, [this] { to_do_.notify_all(); });
  std::deque<ClosurePtr>* from = nullptr;
  to_do_.wait(lock, [&] { return stop.stop_requested() || (from = source_for(worker)); });
  if (stop.stop_requested()) return nullptr;
  ClosurePtr closure = std::move(from->front());
  from->pop_front();
  const bool was_full = capacity_ > 0 && waiting_ >= capacity_;
  --waiting_;
  ++running_;
  if (was_full) changed_.notify_all();
  return closure;
}

void ClosureQueue::settle(const ClosurePtr& closure) {
  --running_;
  open_.erase(closure->number);
  if (running_ == 0) changed_.notify_all();
}

void ClosureQueue::succeed(const ClosurePtr& closure, std::vector<Tensor> results) {
  const std::lock_guard lock(mutex_);  // who sees the result finds it settled
  closure->result->set(std::move(results));
  settle(closure);
}

void ClosureQueue::fail(const ClosurePtr& closure, const Status& status) {
  const std::lock_guard lock(mutex_);
  if (!cancelling_ && !error_) error_ = status;
  closure->result->fail(status);
  settle(closure);
  changed_.notify_all();
}

void ClosureQueue::put_back(const ClosurePtr& closure) {
  const std::lock_guard lock(mutex_);
  if (error_ || cancelling_ || stopped_) {
    closure->result->fail(stopped_ ? *stopped_ : cancelled("another one failed meanwhile"));
    settle(closure);
    return;
  }
  --running_;
  append(closure);
  if (running_ == 0) changed_.notify_all();
  to_do_.notify_all();
}

void ClosureQueue::report(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (!cancelling_ && !error_) error_ = status;
  changed_.notify_all();
}

bool ClosureQueue::cancelling() const {
  const std::lock_guard lock(mutex_);
  return cancelling_ || stopped_;
}

int64_t ClosureQueue::all_done_below() const {
  const std::lock_guard lock(mutex_);
  return open_.empty() ? next_number_ : *open_.begin();
}

void ClosureQueue::pause() {
  const std::lock_guard lock(mutex_);
  ++paused_;
}

void ClosureQueue::resume() {
  const std::lock_guard lock(mutex_);
  --paused_;
  to_do_.notify_all();
}

void ClosureQueue::end_running() {
  Lock lock(mutex_);
  cancel_until_idle(lock);
}

void ClosureQueue::stop(const Status& why) {
  Lock lock(mutex_);
  if (!stopped_) stopped_ = why;
  cancel_waiting(*stopped_);
  changed_.notify_all();
  cancel_until_idle(lock);
}

}  // namespace cohort::internal
