#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "transport/connection.h"

namespace cohort::internal {

// For tests: what one end of a connection received. Must outlive the connection, or its events.
class MessageLog {
 public:
  static Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }
  // For a wait that must be woken: otherwise it lasts until the test's time limit.
  static Deadline never() { return std::chrono::steady_clock::now() + std::chrono::hours(1); }

  Connection::Events events() {
    return {[this](Message message) { add(std::move(message)); },
            [this](const Status& why) { end(why); }};
  }
  void add(Message message) {
    const std::lock_guard lock(mutex_);
    if (ended_) ADD_FAILURE() << "a message came after the end";
    messages_.push_back(std::move(message));
    changed_.notify_all();
  }
  void end(const Status& why) {
    const std::lock_guard lock(mutex_);
    if (ended_) ADD_FAILURE() << "a second end: " << why;
    ended_ = why;
    changed_.notify_all();
  }

  size_t count() const {
    const std::lock_guard lock(mutex_);
    return messages_.size();
  }
  // Waits for that many; gives up after a while.
  bool await(size_t count) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return messages_.size() >= count; });
  }
  Status await_end() const {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, soon(), [&] { return ended_.has_value(); })) {
      return {Code::Unknown, "the connection does not end"};
    }
    return *ended_;
  }
  std::vector<Message> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Message> messages_;  // guarded by mutex_, as the next
  std::optional<Status> ended_;
};

inline uint64_t word_at(size_t index, uint64_t seed) {
  const uint64_t value = (index + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u;
  return value ^ value >> 29;
}

inline constexpr size_t kWord = sizeof(uint64_t);

// `size` bytes that depend on the seed.
inline Buffer patterned_payload(size_t size, uint64_t seed) {
  struct alignas(64) Line {
    uint64_t words[8];
  };
  auto lines = std::make_shared<std::vector<Line>>(size / sizeof(Line) + 1);
  for (size_t i = 0; i < lines->size() * 8; ++i) (*lines)[i / 8].words[i % 8] = word_at(i, seed);
  return {std::as_bytes(std::span(std::as_const(*lines))).first(size), lines};
}

inline bool has_pattern(const Buffer& payload, size_t size, uint64_t seed) {
  if (payload.bytes.size() != size) return false;
  for (size_t at = 0; at < size; at += kWord) {
    const uint64_t expected = word_at(at / kWord, seed);
    if (std::memcmp(payload.bytes.data() + at, &expected, std::min(kWord, size - at)) != 0) {
      return false;
    }
  }
  return true;
}

// Payloads of these sizes, with the seeds 0, 1, ...
inline Message test_message(std::string header, const std::vector<size_t>& payloads = {}) {
  Message message{std::move(header)};
  for (size_t i = 0; i < payloads.size(); ++i) {
    message.payloads.push_back(patterned_payload(payloads[i], i));
  }
  return message;
}

inline void expect_message(const Message& message, const std::string& header,
                           const std::vector<size_t>& payloads = {}) {
  EXPECT_TRUE(message.header == header) << "a header of " << message.header.size() << " bytes";
  ASSERT_EQ(message.payloads.size(), payloads.size());
  for (size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_TRUE(has_pattern(message.payloads[i], payloads[i], i)) << "payload " << i;
    const auto address = reinterpret_cast<uintptr_t>(message.payloads[i].bytes.data());
    EXPECT_TRUE(payloads[i] == 0 || address % 64 == 0) << "payload " << i;
  }
}

}  // namespace cohort::internal
