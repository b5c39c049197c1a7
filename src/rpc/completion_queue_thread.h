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
// Usually a thread of the pump waits at the queue. A thread that waits for an answer (a guest)
// takes its place in poll_until. The pump's thread stays away for a moment after the guest has
// left, because a guest often comes back at once. Thread-safe.
class Pump {
 public:
  using Done = std::function<void(bool ok)>;

  explicit Pump(std::unique_ptr<grpc::CompletionQueue> queue);
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;
  ~Pump();  // stops

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
  std::condition_variable changed_;     // for guests
  std::condition_variable background_;  // for the thread of the pump
  std::condition_variable detached_;
  // Guarded by mutex_:
  int guests_ = 0;               // threads inside poll_until
  Deadline first_guest_came_{};  // of the present guests
  Deadline last_guest_left_{};
  bool wanted_ = false;  // the thread of the pump is to wait at the queue now
  uint64_t handled_ = 0;
  int attached_ = 0;
  bool stopping_ = false;
  bool ended_ = false;

  Thread thread_;
};

// Keeps a pump going for a while.
class PumpHold {
 public:
  // Throws Cancelled after Pump::stop().
  explicit PumpHold(Pump& pump);
  PumpHold(const PumpHold&) = delete;
  PumpHold& operator=(const PumpHold&) = delete;
  ~PumpHold() { pump_.detach(); }

 private:
  Pump& pump_;
};

}  // namespace cohort::internal
