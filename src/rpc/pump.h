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

// Where everything ends that gRPC does for one endpoint: a completion queue, and one thread at a
// time that waits at it. gRPC reads sockets on the threads that wait at its queues, and hands what
// it read from one to the next when there are several; with a single one, a message wakes a single
// thread.
//
// Usually that is a thread of the pump. A thread that waits for an answer takes its place
// (poll_until), and keeps it for a moment after it has left, because whoever asked once is about to
// ask again. Thread-safe.
class Pump {
 public:
  using Done = std::function<void(bool ok)>;

  explicit Pump(std::unique_ptr<grpc::CompletionQueue> queue);
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;
  ~Pump();  // stops

  grpc::CompletionQueue* queue() const { return queue_.get(); }
  // The tag of an operation that will end at the queue: `done` runs then, once, on the thread that
  // waits there.
  static void* tag(Done done);

  // Handles what ends at the queue, on this thread or by waiting for the one that does, until
  // done() or the deadline. Returns done(), which is asked without a lock after everything that
  // ended. May be called inside of a `done` function.
  bool poll_until(const std::function<bool()>& done, Deadline deadline);
  // Makes those who are in poll_until ask again.
  void wake();
  // Sees to it that somebody waits at the queue: what was begun goes on only then.
  void keep_polled();
  // Runs `done` on the thread that waits at the queue, soon. False, and nothing happens, after
  // stop().
  bool post(Done done);

  // Whether this thread is handling what ended at the queue: the others wait for it.
  bool is_polling_here() const { return poller_.load() == std::this_thread::get_id(); }

  // Whoever begins operations is counted, because the queue must outlive those. False after stop().
  bool attach();
  void detach();

  // Waits until all have detached, then ends the queue. Not from a `done` function.
  void stop();

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class Outcome { Handled, TimedOut, Ended };
  Outcome handle_next(Deadline deadline);
  void poll_here(Lock& lock, const std::function<bool()>& done, Deadline deadline);
  void run_background();
  void wait_for_turn(Lock& lock);
  void note_handled();

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  std::atomic<std::thread::id> poller_{};  // nobody: none

  std::mutex mutex_;
  std::condition_variable changed_;     // for those in poll_until
  std::condition_variable background_;  // for the thread of the pump
  std::condition_variable detached_;
  // Guarded by mutex_:
  int guests_ = 0;               // in poll_until
  Deadline first_guest_came_{};  // when there was none before
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
