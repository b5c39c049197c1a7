#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "base/mutex.h"
#include "transport/message.h"

namespace cohort::internal {

// What a message answers to. Two of the same are taken in the order in which they came.
struct MailKey {
  enum class Kind : uint8_t { Step, Tagged };

  Kind kind = Kind::Step;
  int from = 0;
  uint64_t call = 0;  // its number; of Tagged the tag
  uint64_t step = 0;  // of the algorithm

  auto operator<=>(const MailKey&) const = default;
};

// Messages that came and are not wanted yet. Thread-safe.
class Mailbox {
 public:
  void put(const MailKey& key, Message message) {
    const std::lock_guard lock(mutex_);
    mail_[key].push_back(std::move(message));
  }

  bool has(const MailKey& key) const {
    const std::lock_guard lock(mutex_);
    return mail_.contains(key);
  }

  std::optional<Message> take(const MailKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = mail_.find(key);
    if (found == mail_.end()) return std::nullopt;
    std::optional<Message> message(std::move(found->second.front()));
    found->second.pop_front();
    if (found->second.empty()) mail_.erase(found);
    return message;
  }

 private:
  mutable Mutex mutex_;
  std::map<MailKey, std::deque<Message>> mail_;  // guarded by mutex_; no empty queues
};

}  // namespace cohort::internal
