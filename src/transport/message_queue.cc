#include "transport/message_queue.h"

#include "base/waiting.h"
namespace cohort::internal {

bool MessageQueue::is_full() const {
  return !messages_.empty() && (messages_.size() >= limits_.messages || bytes_ >= limits_.bytes);
}

void MessageQueue::ring() {
  news_ = true;
  bell(attended_ ? Reader::Foreground : Reader::Background).rung.notify_one();
}

void MessageQueue::push(Message message, WhenFull when_full) {
  const size_t bytes = size_of(message);
  std::unique_lock lock(mutex_);
  if (when_full == WhenFull::Wait) room_.wait(lock, [&] { return end_ || !is_full(); });
  if (end_) throw_if_error(end_->to_sender);
  messages_.push_back(std::move(message));
  bytes_ += bytes;
  ring();
}

void MessageQueue::end(Status to_reader, Status to_sender) {
  const std::lock_guard lock(mutex_);
  if (end_) return;
  end_ = {std::move(to_reader), std::move(to_sender)};
  room_.notify_all();
  ring();
}

void MessageQueue::discard(Status to_reader, Status to_sender) {
  std::deque<Message> unread;  // their memory may belong to somebody who locks
  const std::lock_guard lock(mutex_);
  unread.swap(messages_);
  bytes_ = 0;
  if (!end_) end_ = {std::move(to_reader), std::move(to_sender)};
  room_.notify_all();
  ring();
}

std::optional<Message> MessageQueue::take() {
  const std::lock_guard lock(mutex_);
  if (messages_.empty()) return std::nullopt;
  std::optional<Message> first(std::move(messages_.front()));
  messages_.pop_front();
  bytes_ -= size_of(*first);
  news_ = has_news();
  room_.notify_all();
  return first;
}

std::optional<Status> MessageQueue::ended() {
  const std::lock_guard lock(mutex_);
  if (!messages_.empty() || !end_) return std::nullopt;
  return end_->to_reader;
}

void MessageQueue::wait(Reader reader, Deadline deadline) {
  spin_until([&] { return news_ && (reader == Reader::Foreground || !attended_); });
  std::unique_lock lock(mutex_);
  Bell& mine = bell(reader);
  mine.rung.wait_until(lock, deadline, [&] {
    return mine.woken || (has_news() && (reader == Reader::Foreground || !attended_));
  });
  mine.woken = false;
}

void MessageQueue::wake(Reader reader) {
  const std::lock_guard lock(mutex_);
  bell(reader).woken = true;
  bell(reader).rung.notify_all();
}

void MessageQueue::attend(bool in_foreground) {
  const std::lock_guard lock(mutex_);
  attended_ = in_foreground;
  if (!in_foreground && has_news()) ring();
}

}  // namespace cohort::internal
