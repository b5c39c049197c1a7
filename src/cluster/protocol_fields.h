#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cluster/protocol.h"
#include "transport/message_fields.h"

// What the writers and readers of messages have in common.
namespace cohort::internal {

// Longer than any limit that somebody means.
inline constexpr uint64_t kLongestLimitMs = uint64_t{1} << 40;

// "the result of a run", for errors.
std::string_view name_of(MessageKind kind);

// A message of that kind, to be filled.
struct Draft {
  explicit Draft(MessageKind kind) { writer.number(static_cast<uint64_t>(kind)); }
  Draft(MessageKind kind, uint64_t request) : Draft(kind) { writer.number(request); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  Message message = {};
  MessageWriter writer{message};
};

// A message whose kind was read already.
inline MessageReader open_message(const Message& message) {
  MessageReader reader(message, name_of(kind_of(message)));
  (void)reader.number();
  return reader;
}

inline MessageReader open_request(const Message& message) {
  MessageReader reader = open_message(message);
  (void)reader.number();
  return reader;
}

inline bool read_flag(MessageReader& reader) { return reader.number(1) != 0; }

inline void write_limit(std::chrono::milliseconds limit, MessageWriter& writer) {
  writer.number(static_cast<uint64_t>(std::max<int64_t>(limit.count(), 0)));
}
inline std::chrono::milliseconds read_limit(MessageReader& reader) {
  return std::chrono::milliseconds(reader.number(kLongestLimitMs));
}

inline void write_texts(const std::vector<std::string>& texts, MessageWriter& writer) {
  writer.number(texts.size());
  for (const std::string& text : texts) writer.text(text);
}
inline std::vector<std::string> read_texts(MessageReader& reader) {
  std::vector<std::string> texts(reader.count());
  for (std::string& text : texts) text = reader.text();
  return texts;
}

inline void write_numbers(const std::vector<uint64_t>& numbers, MessageWriter& writer) {
  writer.number(numbers.size());
  for (const uint64_t number : numbers) writer.number(number);
}
inline std::vector<uint64_t> read_numbers(MessageReader& reader) {
  std::vector<uint64_t> numbers(reader.count());
  for (uint64_t& number : numbers) number = reader.number();
  return numbers;
}

}  // namespace cohort::internal
