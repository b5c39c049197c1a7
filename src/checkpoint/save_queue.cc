#include "checkpoint/save_queue.h"

#include "base/log.h"

namespace cohort::internal {

SaveQueue::~SaveQueue() {
  const Status status = capture_status([&] { wait(); });
  if (!status.ok()) log_error("[Checkpoint] a save failed: {}", status.to_string());
}

void SaveQueue::finish(std::unique_lock<std::mutex>&) {
  thread_.join();
  const std::lock_guard lock(mutex_);
  throw_if_error(std::exchange(status_, {}));
}

void SaveQueue::wait() {
  std::unique_lock turn(turn_);
  finish(turn);
}

void SaveQueue::begin(const std::string& prefix, int64_t bytes_total) {
  bytes_written_ = 0;
  const std::lock_guard lock(mutex_);
  progress_ = {.writing = true, .prefix = prefix, .bytes_written = 0, .bytes_total = bytes_total};
}

void SaveQueue::perform(const Save& save) {
  Status status = capture_status([&] { save(bytes_written_); });
  const std::lock_guard lock(mutex_);
  progress_.writing = false;
  status_ = std::move(status);
}

void SaveQueue::run(const std::string& prefix, int64_t bytes_total, Save save) {
  std::unique_lock turn(turn_);
  finish(turn);
  begin(prefix, bytes_total);
  if (!asynchronous_) {
    perform(save);
    finish(turn);
    return;
  }
  thread_ = Thread("cohort-save",
                   [this, save = std::move(save)](const std::stop_token&) { perform(save); });
}

SaveProgress SaveQueue::progress() const {
  const std::lock_guard lock(mutex_);
  SaveProgress now = progress_;
  now.bytes_written = bytes_written_;
  return now;
}

}  // namespace cohort::internal
