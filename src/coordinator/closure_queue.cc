#include "coordinator/closure_queue.h"

#include <algorithm>
#include <iterator>

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr std::chrono::milliseconds kCancelAgain{20};

Status cancelled(std::string_view why) {
  return {.code = Code::Cancelled,
          .message = fmt::format("[Coordinator] the function did not run: {}", why)};
}

}  // namespace

ClosureQueue::ClosureQueue(std::optional<int64_t> capacity, int workers,
                           std::function<void()> cancel_running, Grouping grouping)
    : capacity_(capacity),
      cancel_running_(std::move(cancel_running)),
      grouping_(std::move(grouping)),
      lines_(workers),
      group_(grouping_.size) {}

void ClosureQueue::add(const ClosurePtr& closure) {
  Lock lock(mutex_);
  changed_.wait(lock, [&] {
    // join() waits until nothing is left to do. Functions that are added meanwhile would keep it
    // waiting, so they wait for it.
    const bool full = capacity_ && waiting_ >= *capacity_;
    return stopped_ || (!cancelling_ && (error_ || (!full && joining_ == 0)));
  });
  if (stopped_) throw Error(*stopped_);
  closure->number = numbers_.begin();
  ++waiting_;
  is_told_ = false;
  if (!waiters_.add(closure)) lines_.append(closure);
  throw_error(lock);
  lock.unlock();
  // A thread that may not run the closure would leave it, so all threads are woken for such a one.
  const bool for_any = !closure->worker && closure->remote.empty();
  for_any ? to_do_.notify_one() : to_do_.notify_all();
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
  const int64_t number = begin_update(updates);
  lock.unlock();
  const Status status = capture_status([&] { grouping_.update_rest(updates, number); });
  lock.lock();
  updating_ = false;
  end_update();
  changed_.notify_all();
  if (!status.ok() && !error_) error_ = status;
}

// An update that is made again keeps its number, by which the servers know an update that they have
// made already.
int64_t ClosureQueue::begin_update(const Updates& updates) {
  if (!update_number_) update_number_ = numbers_.begin(static_cast<int64_t>(updates.size()));
  return *update_number_;
}

void ClosureQueue::throw_error(Lock& lock) {
  if (!error_ || cancelling_) return;
  cancelling_ = true;
  cancel_until_idle(lock);
  cancel_waiting(cancelled("another function failed before"));
  const Status error = *std::exchange(error_, std::nullopt);
  failed_ = nullptr;
  is_told_ = true;
  cancelling_ = false;
  changed_.notify_all();
  to_do_.notify_all();
  throw Error(error);
}

// A closure that was taken just now may begin to run after the cancellation, so this cancels
// repeatedly.
void ClosureQueue::cancel_until_idle(Lock& lock) {
  do {
    lock.unlock();
    cancel_running_();
    lock.lock();
  } while (!changed_.wait_for(lock, kCancelAgain, [&] { return running_ == 0; }));
}

void ClosureQueue::cancel_waiting(const Status& why) {
  std::vector<ClosurePtr> all = lines_.take_all();
  std::ranges::move(waiters_.take_all(), std::back_inserter(all));
  for (const ClosurePtr& closure : all) drop(closure, why);
}

void ClosureQueue::drop(const ClosurePtr& closure, const Status& why) {
  if (closure->result->is_settled()) return;
  closure->result->fail(why);
  leave_group(*closure);
  numbers_.end(closure->number);
  --waiting_;
  wake(*closure->result);
}

void ClosureQueue::wake(const RemoteResult& result) {
  const std::vector<ClosurePtr> waited = waiters_.take(result);
  if (waited.empty()) return;
  const Status error = result.error();
  for (const ClosurePtr& closure : waited) {
    if (!error.ok()) {
      drop(closure, error);
    } else if (closure->missing == 0 && !closure->result->is_settled()) {
      lines_.append(closure);  // no other argument has failed
    }
  }
  to_do_.notify_all();
  changed_.notify_all();
}

ClosurePtr ClosureQueue::take(int worker, const std::stop_token& stop) {
  // The mutex makes sure that a thread which has just found nothing to do does not miss the stop.
  const std::stop_callback wake_up(stop, [this] {
    const std::lock_guard lock(mutex_);
    to_do_.notify_all();
  });
  Lock lock(mutex_);
  ClosurePtr closure;
  to_do_.wait(lock, [&] { return stop.stop_requested() || (closure = next_for(worker)); });
  if (!closure) return nullptr;
  group_.begin(*closure);
  const bool was_full = capacity_ && waiting_ >= *capacity_;
  --waiting_;
  ++running_;
  if (was_full) changed_.notify_all();
  return closure;
}

void ClosureQueue::settle(const ClosurePtr& closure) {
  --running_;
  numbers_.end(closure->number);
  wake(*closure->result);
  if (running_ == 0) changed_.notify_all();
}

Status ClosureQueue::succeed(const ClosurePtr& closure, Results results) {
  Lock lock(mutex_);  // a thread that sees the result must find it settled
  if (group_.finish(*closure)) {
    const Updates updates = group_.updates();
    const int64_t number = begin_update(updates);
    lock.unlock();
    const Status status = capture_status([&] { grouping_.update(updates, number); });
    lock.lock();
    if (!status.ok()) {
      group_.take_back(*closure);
      return status;
    }
    end_update();
    group_.restart();
    to_do_.notify_all();
  }
  closure->result->set(std::move(results.tensors), std::move(results.kept));
  settle(closure);
  return {};
}

void ClosureQueue::fail(const ClosurePtr& closure, const Status& status) {
  const std::lock_guard lock(mutex_);
  if (stopped_ && status.code == Code::Cancelled) {
    ++ended_early_;
  } else if (!cancelling_ && !error_) {
    error_ = status;
    failed_ = closure->result;
  }
  closure->result->fail(status);
  leave_group(*closure);
  settle(closure);
  to_do_.notify_all();
  changed_.notify_all();
}

void ClosureQueue::put_back(const ClosurePtr& closure) {
  const std::lock_guard lock(mutex_);
  if (error_ || cancelling_ || stopped_) {
    if (stopped_) ++ended_early_;
    closure->result->fail(stopped_ ? *stopped_ : cancelled("another function failed meanwhile"));
    leave_group(*closure);
    settle(closure);
    return;
  }
  --running_;
  ++waiting_;
  lines_.append(closure);
  if (running_ == 0) changed_.notify_all();
  to_do_.notify_all();
}

ClosureQueue::Leftover ClosureQueue::stop(const Status& why) {
  Lock lock(mutex_);
  Leftover left;
  if (!stopped_) {
    stopped_ = why;
    // After an error the caller knows that the functions of the group came to nothing.
    if (!is_told_) left.gradients = group_.num_finished();
  }
  left.functions = waiting_;
  cancel_waiting(*stopped_);
  changed_.notify_all();
  cancel_until_idle(lock);
  left.functions += std::exchange(ended_early_, 0);
  if (!failed_ || !failed_->has_thrown()) left.error = error_;
  return left;
}

}  // namespace cohort::internal
