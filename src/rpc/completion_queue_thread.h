#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/thread.h"
#include "transport/connection.h"

namespace cohort::internal {

// The completion queue of one endpoint, and one thread at a time that waits at the queue. gRPC
// reads sockets on the threads that wait at its queues, and passes what it read from thread to
// thread when several wait. With a single thread a message wakes a single thread.
//
// Usually the background thread of this object waits at the queue. A thread that waits for an
// answer (a waiter) takes its place in poll_until. The background thread stays away for a moment
// after the waiter has left, because a waiter often comes back at once. Thread-safe.
class CompletionQueueThread {
 public:
  using Done = std::function<void(bool ok)>;

  explicit CompletionQueueThread(std::unique_ptr<grpc::CompletionQueue> queue);
  ~CompletionQueueThread();  // stops

  grpc::CompletionQueue* queue() const { return queue_.get(); }
  // The tag of an operation that will end at the queue: `done` runs then, once, on the thread that
  // waits at the queue.
  static void* tag(Done done);

  // Handles what ends at the queue until done() or the deadline, or waits for the thread that does.
  // Returns done(), which is called without a lock after each operation. May be called inside a
  // `done` function.
  bool poll_until(const std::function<bool()>& done, Deadline deadline);
  // Makes the threads inside poll_until call done() again.
  void wake();
  // Makes sure that a thread waits at the queue: operations go on only then.
  void keep_polled();
  // Runs `done` soon on the thread that waits at the queue. Returns false and does nothing after
  // stop().
  bool post(Done done);

  // Whether this thread is handling what ended at the queue: other threads wait for it.
  bool is_polling_here() const { return poller_.load() == std::this_thread::get_id(); }

  // Counts the objects that begin operations, because the queue must outlive the operations. False
  // after stop().
  bool attach();
  void detach();

  // Waits until all objects have detached, then ends the queue. Not from a `done` function.
  void stop();

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Event = grpc::CompletionQueue::NextStatus;
  Event handle_next(Deadline deadline);
  void poll_here(Lock& lock, const std::function<bool()>& done, Deadline deadline);
  void run_background();
  void wait_for_turn(Lock& lock);
  void note_handled();

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  std::atomic<std::thread::id> poller_{};  // the thread that waits at the queue, if any

  std::mutex mutex_;
  std::condition_variable changed_;     // for waiters
  std::condition_variable background_;  // for the background thread
  std::condition_variable detached_;
  // Guarded by mutex_:
  int waiters_ = 0;               // threads inside poll_until
  Deadline first_waiter_came_{};  // of the present waiters
  Deadline last_waiter_left_{};
  bool wanted_ = false;  // the background thread is to wait at the queue now
  uint64_t handled_ = 0;
  int attached_ = 0;
  bool stopping_ = false;
  bool ended_ = false;

  Thread thread_;
};

// Keeps a queue and its thread going while the hold lives.
class QueueHold {
 public:
  // Throws Cancelled after CompletionQueueThread::stop().
  explicit QueueHold(CompletionQueueThread& queue_thread);
  QueueHold(const QueueHold&) = delete;
  QueueHold& operator=(const QueueHold&) = delete;
  ~QueueHold() { queue_thread_.detach(); }

 private:
  CompletionQueueThread& queue_thread_;
};

}  // namespace cohort::internal
