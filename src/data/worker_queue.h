#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "base/thread.h"
#include "data/node.h"

namespace cohort::data::internal {

// Threads that make elements ahead of the consumer: what prefetch and the parallel stages share.
//
// `pull` is called by one thread at a time and takes what one element needs from the input; the
// work that it returns runs at the same time as other pulls and works. Errors of both keep their
// place in the sequence. Threads start with the first next() and stop with the destructor.
class WorkerQueue {
 public:
  using Work = std::function<Element()>;
  using Pull = std::function<std::optional<Work>()>;  // nullopt at the end

  struct Options {
    int threads = 1;
    int64_t capacity = 2;      // elements under way or ready
    int64_t max_capacity = 2;  // it grows to this while the consumer has to wait
    bool ordered = true;
    const char* name = "";  // of the threads
  };

  // Stops when `outer` asks to. `stop()` is for the input's cursors, made before the queue is used.
  WorkerQueue(const std::stop_token& outer, Options options);
  ~WorkerQueue();
  WorkerQueue(const WorkerQueue&) = delete;
  WorkerQueue& operator=(const WorkerQueue&) = delete;

  std::stop_token stop() const { return stop_.get_token(); }
  void set_pull(Pull pull) { pull_ = std::move(pull); }

  // False at the end. Throws what making the element threw.
  bool next(Element& out);

  // Waits for what is under way, writes all that is ready, and keeps the threads from going on
  // until resume(): between the two, the input stands still.
  void pause_and_save(StateWriter& state);
  void resume();
  void restore(StateReader& state);

  // Ends the threads; nothing can be had after that. For stages that destroy what `pull` uses.
  void finish();

 private:
  struct Slot {
    bool ready = false;
    Status failure;
    Element element;
  };

  void start();
  void run();
  bool may_pull() const;
  void make(std::unique_lock<std::mutex>& lock);

  const Options options_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> link_;
  Pull pull_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Slot>> slots_;
  int64_t capacity_;
  int active_ = 0;  // slots that are not ready
  bool pulling_ = false;
  bool paused_ = false;
  bool ended_ = false;
  std::vector<cohort::internal::Thread> threads_;
};

}  // namespace cohort::data::internal
