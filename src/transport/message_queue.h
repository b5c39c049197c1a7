#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "transport/inbox.h"

namespace cohort::internal {

// What may be on its way before a sender waits. A message larger than that goes when nothing else
// is on its way.
struct QueueLimits {
  size_t messages = 1024;
  size_t bytes = size_t{256} << 20;
};

// An inbox inside of this process. Any thread may push. Thread-safe.
class MessageQueue : public Inbox {
 public:
  explicit MessageQueue(QueueLimits limits = {}) : limits_(limits) {}

  enum class WhenFull { Wait, Grow };
  // Throws what ended the queue.
  void push(Message message, WhenFull when_full);
  // Nothing comes any more: the reader gets `to_reader` after what is in the queue, and push throws
  // `to_sender`. Does nothing when ended.
  void end(Status to_reader, Status to_sender);
  // As end(), and forgets what is in the queue. Also possible after end().
  void discard(Status to_reader, Status to_sender);

  std::optional<Message> take() override;
  std::optional<Status> ended() override;
  void wait(Reader reader, Deadline deadline) override;
  void wake(Reader reader) override;
  void attend(bool in_foreground) override;

 private:
  struct End {
    Status to_reader;
    Status to_sender;
  };
  struct Bell {
    std::condition_variable rung;
    bool woken = false;
  };
  bool is_full() const;
  bool has_news() const { return !messages_.empty() || end_.has_value(); }
  Bell& bell(Reader reader) { return reader == Reader::Foreground ? foreground_ : background_; }
  void ring();

  const QueueLimits limits_;
  // For who looks without the mutex; changed with it.
  std::atomic<bool> news_ = false;  // has_news()
  std::atomic<bool> attended_ = false;

  std::mutex mutex_;
  std::condition_variable room_;
  // Guarded by mutex_:
  std::deque<Message> messages_;
  size_t bytes_ = 0;
  std::optional<End> end_;
  Bell foreground_;
  Bell background_;
};

}  // namespace cohort::internal
