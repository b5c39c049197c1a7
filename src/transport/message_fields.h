#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "transport/message.h"

namespace cohort::internal {

// Appends numbers, texts and payloads to a message, for a MessageReader to take in the same order.
// Numbers take 1 to 10 bytes, small ones 1. The message must outlive the writer.
class MessageWriter {
 public:
  explicit MessageWriter(Message& message) : message_(message) {}

  MessageWriter& number(uint64_t value);
  MessageWriter& text(std::string_view value);
  MessageWriter& payload(Buffer value);

 private:
  Message& message_;
};

// Takes the fields of a message that comes from outside. Everything is checked: what is missing,
// too long or too large throws DataLoss and names `what` the message was to be. The message must
// outlive the reader.
class MessageReader {
 public:
  MessageReader(const Message& message, std::string_view what)
      : message_(message), rest_(message.header), what_(what) {}

  // At most `limit`.
  uint64_t number(uint64_t limit = UINT64_MAX);
  // How many things follow, each of which takes at least a byte of the header: so a false number
  // can not make anybody allocate more than a message is long.
  size_t count() { return checked_count(number()); }
  // The same for a number that was read before.
  size_t checked_count(uint64_t count) const;
  // Part of the message.
  std::string_view text();
  const Buffer& payload();

  bool at_end() const { return rest_.empty() && payload_ == message_.payloads.size(); }
  void expect_end() const;

  // Throws DataLoss: "[Message] <what>: <problem>; ...".
  [[noreturn]] void fail(std::string_view problem) const;

 private:
  const Message& message_;
  std::string_view rest_;  // of the header
  std::string_view what_;
  size_t payload_ = 0;  // the next one
};

}  // namespace cohort::internal
