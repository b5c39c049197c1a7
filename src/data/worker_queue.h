#pragma once

#include <atomic>
#include <chrono>
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
  // False at the end. Else either `work` is set, or `out` is the element and no work is left.
  using Pull = std::function<bool(Element& out, Work& work)>;

  struct Options {
    int threads = 1;
    int64_t capacity = 2;      // elements under way or ready
    int64_t max_capacity = 2;  // it grows to this while the consumer has to wait,
    int64_t small_bytes = 0;   // or to as many as make up so many bytes, if that is more
    bool ordered = true;
    bool may_pause =
        false;              // the threads rest while elements take less time than to hand them over
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

  // Waits for what is under way, writes all that is ready, and calls `save_input`, during which
  // the input stands still.
  void save(StateWriter& state, const std::function<void()>& save_input);
  void restore(StateReader& state);

  // Ends the threads; nothing can be had after that. For stages that destroy what `pull` uses.
  void finish();

 private:
  struct Slot {
    bool ready = false;
    Status failure;
    Element element;
  };

  using Lock = std::unique_lock<std::mutex>;

  void start();
  void run();
  bool make_here(Element& out);
  bool has_room() const;
  bool may_pull() const { return has_room() && !resting_; }
  void make(Lock& lock);
  // The slot that next() may take; end() when there is none yet.
  std::deque<std::shared_ptr<Slot>>::iterator ready_slot();
  void wait_for_slot(Lock& lock);
  bool spin(Lock& lock);
  // Moves what the consumer may have without asking again to `taken_`.
  void take_ready();
  void wake_all();
  void learn_size(const Element& element);
  void learn_time(std::chrono::steady_clock::time_point start);
  void save_slots(StateWriter& state);

  const Options options_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> link_;
  Pull pull_;
  std::deque<std::shared_ptr<Slot>> taken_;  // the consumer's own: ready, in order
  std::atomic<int64_t> taken_count_ = 0;     // of taken_; part of what capacity bounds
  std::atomic<uint64_t> made_ = 0;  // changes whenever a slot gets ready or the end is found

  std::mutex mutex_;               // guards everything below
  std::condition_variable room_;   // for the threads
  std::condition_variable ready_;  // for the consumer, and for who pauses
  std::deque<std::shared_ptr<Slot>> slots_;
  int64_t capacity_;
  int64_t max_capacity_;
  int active_ = 0;  // slots that are not ready
  bool pulling_ = false;
  bool paused_ = false;
  bool ended_ = false;
  bool resting_;                 // the consumer makes elements itself
  double pull_nanoseconds_ = 0;  // of late, on average
  int64_t made_here_ = 0;        // elements that the consumer made itself
  int sleeping_ = 0;             // threads that wait for room
  std::vector<cohort::internal::Thread> threads_;
  std::stop_callback<std::function<void()>> wake_;  // last: it uses what is above
};

}  // namespace cohort::data::internal
