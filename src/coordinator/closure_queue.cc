#include "coordinator/closure_queue.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr std::chrono::milliseconds kCancelAgain{20};

Status cancelled(std::string_view why) {
  return {.code = Code::Cancelled,
          .message = fmt::format("[Coordinator] the function did not run: {}", why)};
}

// Whether a worker, which may have come later than what each had its own of, has all arguments.
bool has_arguments(const Closure& closure, int worker) {
  return std::ranges::all_of(closure.remote, [worker](const auto& argument) {
    return !argument || argument->results.size() == 1 ||
           static_cast<size_t>(worker) < argument->results.size();
  });
}

}  // namespace

ClosureQueue::ClosureQueue(int64_t capacity, int workers, std::function<void()> cancel_running,
                           Grouping grouping)
    : capacity_(capacity),
      cancel_running_(std::move(cancel_running)),
      grouping_(std::move(grouping)),
      only_(static_cast<size_t>(workers)),
      group_(grouping_.size) {}

void ClosureQueue::append(const ClosurePtr& closure) {
  std::deque<ClosurePtr>& into =
      closure->worker ? only_[static_cast<size_t>(*closure->worker)] : any_;
  // Those behind one that is of a group may have to wait for it.
  closure->in_group ? into.push_front(closure) : into.push_back(closure);
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
  for (const std::optional<RemoteArgument>& argument : closure->remote) {
    for (const auto& result : argument ? argument->results : RemoteArguments::Results()) {
      if (result->status() != RemoteValueStatus::NotReady) continue;
      waiters_[result.get()].push_back(closure);
      ++closure->missing;
    }
  }
  closure->missing == 0 ? append(closure) : void(++waiting_);
  throw_error(lock);
  lock.unlock();
  closure->worker ? to_do_.notify_all() : to_do_.notify_one();
}

void ClosureQueue::join() {
  Lock lock(mutex_);
  ++joining_;
  changed_.wait(lock, [&] { return stopped_ || (!cancelling_ && (error_ || idle())); });
  if (!stopped_ && !error_ && group_.has_gradients()) update_rest(lock);
  --joining_;
  changed_.notify_all();
  if (stopped_) throw Error(*stopped_);
  throw_error(lock);
}

void ClosureQueue::update_rest(Lock& lock) {
  const Updates updates = group_.updates();
  group_.restart();
  updating_ = true;
  lock.unlock();
  const Status status = capture_status([&] { grouping_.update_rest(updates); });
  lock.lock();
  updating_ = false;
  changed_.notify_all();
  if (!status.ok() && !error_) error_ = status;
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
  std::vector<ClosurePtr> all(any_.begin(), any_.end());
  for (std::deque<ClosurePtr>& closures : only_) {
    all.insert(all.end(), closures.begin(), closures.end());
    closures.clear();
  }
  for (const auto& [result, closures] : waiters_) {
    all.insert(all.end(), closures.begin(), closures.end());
  }
  any_.clear();
  waiters_.clear();
  for (const ClosurePtr& closure : all) drop(closure, why);
}

void ClosureQueue::drop(const ClosurePtr& closure, const Status& why) {
  if (closure->result->status() != RemoteValueStatus::NotReady) return;
  closure->result->fail(why);
  group_.leave(*closure);
  open_.erase(closure->number);
  --waiting_;
  wake(*closure->result);
}

void ClosureQueue::wake(const RemoteResult& result) {
  auto found = waiters_.extract(&result);
  if (found.empty()) return;
  const Status error = result.error();
  for (const ClosurePtr& closure : found.mapped()) {
    if (!error.ok()) {
      drop(closure, error);
    } else if (--closure->missing == 0) {
      --waiting_;
      append(closure);
      to_do_.notify_all();
    }
  }
  changed_.notify_all();
}

std::deque<ClosurePtr>* ClosureQueue::source_for(int worker) {
  if (cancelling_ || paused_ > 0 || stopped_) return nullptr;
  std::deque<ClosurePtr>& own = only_[static_cast<size_t>(worker)];
  if (!may_run(own, worker)) return may_run(any_, worker) ? &any_ : nullptr;
  const bool own_first = !may_run(any_, worker) || own.front()->number < any_.front()->number;
  return own_first ? &own : &any_;
}

bool ClosureQueue::may_run(const std::deque<ClosurePtr>& from, int worker) const {
  return !from.empty() && group_.admits(*from.front()) && has_arguments(*from.front(), worker);
}

ClosurePtr ClosureQueue::take(int worker, const std::stop_token& stop) {
  // With the mutex: who has just seen that there is nothing to do must not miss it.
  const std::stop_callback wake_up(stop, [this] {
    const std::lock_guard lock(mutex_);
    to_do_.notify_all();
  });
  Lock lock(mutex_);
  std::deque<ClosurePtr>* from = nullptr;
  to_do_.wait(lock, [&] { return stop.stop_requested() || (from = source_for(worker)); });
  if (stop.stop_requested()) return nullptr;
  ClosurePtr closure = std::move(from->front());
  from->pop_front();
  group_.begin(*closure);
  const bool was_full = capacity_ > 0 && waiting_ >= capacity_;
  --waiting_;
  ++running_;
  if (was_full) changed_.notify_all();
  return closure;
}

void ClosureQueue::settle(const ClosurePtr& closure) {
  --running_;
  open_.erase(closure->number);
  wake(*closure->result);
  if (running_ == 0) changed_.notify_all();
}

Status ClosureQueue::succeed(const ClosurePtr& closure, Results results) {
  Lock lock(mutex_);  // who sees the result finds it settled
  if (group_.finish(*closure)) {
    const Updates updates = group_.updates();
    lock.unlock();
    const Status status = capture_status([&] { grouping_.update(updates); });
    lock.lock();
    if (!status.ok()) {
      group_.take_back(*closure);
      return status;
    }
    group_.restart();
    to_do_.notify_all();
  }
  closure->result->set(std::move(results.tensors), std::move(results.kept));
  settle(closure);
  return {};
}

void ClosureQueue::fail(const ClosurePtr& closure, const Status& status) {
  const std::lock_guard lock(mutex_);
  if (!cancelling_ && !error_) error_ = status;
  closure->result->fail(status);
  group_.leave(*closure);
  settle(closure);
  to_do_.notify_all();
  changed_.notify_all();
}

void ClosureQueue::put_back(const ClosurePtr& closure) {
  const std::lock_guard lock(mutex_);
  if (error_ || cancelling_ || stopped_) {
    closure->result->fail(stopped_ ? *stopped_ : cancelled("another one failed meanwhile"));
    group_.leave(*closure);
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

void ClosureQueue::add_worker() {
  const std::lock_guard lock(mutex_);
  only_.emplace_back();
  if (grouping_.size > 0) group_.grow();
  to_do_.notify_all();
}

void ClosureQueue::restart_group() {
  const std::lock_guard lock(mutex_);
  group_.restart();
  to_do_.notify_all();
}

void ClosureQueue::stop(const Status& why) {
  Lock lock(mutex_);
  if (!stopped_) stopped_ = why;
  cancel_waiting(*stopped_);
  changed_.notify_all();
  cancel_until_idle(lock);
}

}  // namespace cohort::internal
