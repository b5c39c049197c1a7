#include "rpc/completion_queue_thread.h"

#include "base/raise.h"
#include "rpc/grpc_settings.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace cohort::internal {
namespace {

// gRPC passes tags from thread to thread with locks that ThreadSanitizer does not see, because the
// packages' libraries are built without it.
void hand_over([[maybe_unused]] void* tag) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(tag);
#endif
}
void take_over([[maybe_unused]] void* tag) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(tag);
#endif
}

using std::chrono::steady_clock;

// How long the background thread stays away from the queue after a waiter's last call. Messages for
// which no thread waits may be that late.
constexpr std::chrono::milliseconds kWaiterReturns{1};

}  // namespace

CompletionQueueThread::CompletionQueueThread(std::unique_ptr<grpc::CompletionQueue> queue)
    : queue_(std::move(queue)),
      thread_("rpc", [this](const std::stop_token&) { run_background(); }) {}

CompletionQueueThread::~CompletionQueueThread() { stop(); }

void* CompletionQueueThread::tag(Done done) {
  void* const tag = new Done(std::move(done));
  hand_over(tag);
  return tag;
}

void CompletionQueueThread::note_handled() {
  const std::lock_guard lock(mutex_);
  ++handled_;
  if (waiters_ > 0) changed_.notify_all();
}

CompletionQueueThread::Event CompletionQueueThread::handle_next(Deadline deadline) {
  void* tag = nullptr;
  bool ok = false;
  const Event event = queue_->AsyncNext(&tag, &ok, to_grpc_time(deadline));
  if (event != Event::GOT_EVENT) return event;
  take_over(tag);
  const std::unique_ptr<Done> done(static_cast<Done*>(tag));
  (*done)(ok);
  return event;
}

// Called and left with the lock, while no other thread polls.
void CompletionQueueThread::poll_here(Lock& lock, const std::function<bool()>& done,
                                      Deadline deadline) {
  poller_ = std::this_thread::get_id();
  lock.unlock();
  Event event = Event::GOT_EVENT;
  while (event == Event::GOT_EVENT) {
    event = handle_next(deadline);
    if (event == Event::GOT_EVENT) note_handled();
    if (done()) break;
  }
  lock.lock();
  poller_ = std::thread::id();
  if (event == Event::SHUTDOWN) {
    ended_ = true;
    background_.notify_all();
  }
  if (waiters_ > 0) changed_.notify_all();
}

bool CompletionQueueThread::poll_until(const std::function<bool()>& done, Deadline deadline) {
  if (done()) return true;
  if (is_polling_here()) {  // inside a `done` function
    while (!done()) {
      if (handle_next(deadline) != Event::GOT_EVENT) return done();
      note_handled();
    }
    return true;
  }
  Lock lock(mutex_);
  if (waiters_++ == 0) first_waiter_came_ = steady_clock::now();
  for (;;) {
    const uint64_t seen = handled_;
    lock.unlock();
    const bool enough = done();
    lock.lock();
    if (enough || ended_ || steady_clock::now() >= deadline) break;
    if (handled_ != seen) continue;  // by another thread, after done() was called
    if (poller_.load() == std::thread::id()) {
      poll_here(lock, done, deadline);
    } else {
      changed_.wait_until(lock, deadline, [&] {
        return handled_ != seen || ended_ || poller_.load() == std::thread::id();
      });
    }
  }
  last_waiter_left_ = steady_clock::now();
  const bool stayed_long = last_waiter_left_ - first_waiter_came_ >= kWaiterReturns;
  if (--waiters_ == 0 && (stayed_long || wanted_)) background_.notify_all();
  lock.unlock();
  return done();
}

void CompletionQueueThread::wake() {
  note_handled();
  // The polling thread sleeps in gRPC, and wakes when an operation ends.
  if (poller_.load() != std::thread::id()) post([](bool) {});
}

void CompletionQueueThread::keep_polled() {
  const std::lock_guard lock(mutex_);
  if (waiters_ > 0 || poller_.load() != std::thread::id()) return;
  wanted_ = true;
  background_.notify_all();
}

bool CompletionQueueThread::post(Done done) {
  if (!attach()) return false;
  auto alarm = std::make_shared<grpc::Alarm>();
  alarm->Set(queue_.get(), gpr_now(GPR_CLOCK_MONOTONIC),
             tag([this, alarm, done = std::move(done)](bool ok) {
               done(ok);
               detach();
             }));
  keep_polled();
  return true;
}

// With the lock: until no other thread polls and no waiter is about to come back.
void CompletionQueueThread::wait_for_turn(Lock& lock) {
  for (;;) {
    const auto now = steady_clock::now();
    if (ended_) return;
    const bool is_free = poller_.load() == std::thread::id() && waiters_ == 0;
    if (is_free && (wanted_ || stopping_ || now >= last_waiter_left_ + kWaiterReturns)) return;
    // A waiter that stays longer than this wakes the thread when it leaves.
    const bool waiter_stays = waiters_ > 0 && now - first_waiter_came_ >= kWaiterReturns;
    if (waiter_stays) {
      background_.wait(lock);
    } else {
      background_.wait_for(lock, kWaiterReturns);
    }
  }
}

void CompletionQueueThread::run_background() {
  Lock lock(mutex_);
  while (!ended_) {
    wait_for_turn(lock);
    if (ended_) return;
    wanted_ = false;
    // A waiter that came meanwhile takes over after the operation for which it waits, so that no
    // thread is woken twice.
    poll_here(
        lock,
        [this] {
          const std::lock_guard inner(mutex_);
          return waiters_ > 0;
        },
        Deadline::max());
  }
}

bool CompletionQueueThread::attach() {
  const std::lock_guard lock(mutex_);
  if (stopping_ && attached_ == 0) return false;
  ++attached_;
  return true;
}

void CompletionQueueThread::detach() {
  const std::lock_guard lock(mutex_);
  if (--attached_ == 0) detached_.notify_all();
}

void CompletionQueueThread::stop() {
  {
    Lock lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    background_.notify_all();
    detached_.wait(lock, [this] { return attached_ == 0; });
    queue_->Shutdown();
    background_.notify_all();
  }
  thread_.join();
}

QueueHold::QueueHold(CompletionQueueThread& queue_thread) : queue_thread_(queue_thread) {
  if (!queue_thread.attach()) raise(Code::Cancelled, "[Connect] this endpoint was stopped");
}

}  // namespace cohort::internal
