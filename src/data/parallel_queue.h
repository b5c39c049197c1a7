#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "base/thread.h"
#include "data/node.h"

namespace cohort::data::internal {

// Threads that make elements ahead of the consumer, for prefetch and the parallel stages.
//
// One thread at a time calls `pull`, which takes from the input what one element needs. The work
// that `pull` returns runs in parallel with other work and with later pulls. Errors of both keep
// their place in the sequence. Threads start with the first next() and stop with the destructor.
class ParallelQueue {
 public:
  using Work = std::function<Element()>;
  // Returns false at the end. Otherwise either `work` is set, or `out` is the finished element.
  using Pull = std::function<bool(Element& out, Work& work)>;

  struct Options {
    int threads = 1;
    int64_t capacity = 2;      // elements that are being made or ready
    int64_t max_capacity = 2;  // the capacity grows to this while the consumer has to wait,
    int64_t small_bytes = 0;   // or to the number of elements with this many bytes, if that is more
    bool ordered = true;
    bool may_pause = false;  // whether the consumer makes elements that are faster made than passed
    const char* name = "";   // of the threads
  };

  // The threads stop when `outer` requests it. The cursors of the input get `stop()`.
  ParallelQueue(const std::stop_token& outer, Options options);
  ~ParallelQueue();

  std::stop_token stop() const { return stop_.get_token(); }
  void set_pull(Pull pull) { pull_ = std::move(pull); }

  // Returns false at the end. Throws the error that making the element threw.
  bool next(Element& out);

  // Waits for elements that are being made, visits all elements that are ready, and calls
  // `visit_input`, during which no thread uses the input.
  void position(PositionFields& fields, const std::function<void()>& visit_input);

  // Ends the threads and the sequence. A stage calls it before it destroys anything that `pull`
  // uses.
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
  bool make_in_consumer(Element& out);
  bool has_room() const;
  bool may_pull() const { return has_room() && !resting_; }
  void make(Lock& lock);
  // Returns the slot that next() may take; end() if none is ready.
  std::deque<std::shared_ptr<Slot>>::iterator ready_slot();
  void wait_for_slot(Lock& lock);
  bool spin(Lock& lock);
  // Moves elements to `taken_`, which the consumer reads without a lock.
  void take_ready();
  void wake_all();
  void learn_size(const Element& element);
  void learn_time(std::chrono::steady_clock::time_point start);
  void visit_slots(PositionFields& fields);

  const Options options_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> link_;
  Pull pull_;
  std::deque<std::shared_ptr<Slot>> taken_;  // ready elements in order; only the consumer uses them
  std::atomic<int64_t> taken_count_ = 0;     // of taken_; counts towards the capacity
  std::atomic<uint64_t> made_ = 0;  // changes whenever a slot gets ready or the end is found

  std::mutex mutex_;               // guards everything below
  std::condition_variable room_;   // for the threads
  std::condition_variable ready_;  // for the consumer and for position()
  std::deque<std::shared_ptr<Slot>> slots_;
  int64_t capacity_;
  int64_t max_capacity_;
  int active_ = 0;  // slots that are not ready
  bool pulling_ = false;
  bool paused_ = false;
  bool ended_ = false;
  bool resting_;                  // the consumer makes elements itself
  double pull_nanoseconds_ = 0;   // recent average
  int64_t made_in_consumer_ = 0;  // elements that the consumer made itself
  int sleeping_ = 0;              // threads that wait for room
  std::vector<cohort::internal::Thread> threads_;
  std::stop_callback<std::function<void()>> wake_;  // last, because it uses the members above
};

// A cursor of an `N` with one input whose elements a ParallelQueue makes. A derived class sets the
// queue's pull function, and calls finish() in its destructor if that function uses its members.
template <typename N>
class ParallelCursor : public Cursor {
 public:
  ParallelCursor(const N& node, const Context& context, std::string_view kind,
                 const ParallelQueue::Options& options)
      : node_(node),
        kind_(kind),
        queue_(context.stop, options),
        context_(with_stop(context, queue_.stop())),
        input_(node.input().open(context_)) {}
  ~ParallelCursor() override { queue_.finish(); }

  bool next(Element& out) final { return queue_.next(out); }
  void position(PositionFields& fields) final {
    fields.stage(kind_);
    queue_.position(fields, [&] {
      local_position(fields);
      input_->position(fields);
    });
  }

 protected:
  virtual void local_position(PositionFields&) {}

  const N& node_;
  const std::string_view kind_;  // in saved positions
  ParallelQueue queue_;
  const Context context_;
  CursorPtr input_;

 private:
  static Context with_stop(Context context, std::stop_token stop) {
    context.stop = std::move(stop);
    return context;
  }
};

}  // namespace cohort::data::internal
