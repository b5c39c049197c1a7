#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cohort/error.h"
#include "cohort/tensor.h"
#include "transport/message.h"

namespace cohort::internal {

// The codec of control messages. A message is a struct that lists its fields once, in the order in
// which they are sent; the list serves for encoding and for decoding:
//
//   struct StartTask {
//     static constexpr auto kKind = LauncherMessage::StartTask;
//     uint64_t task = 0;
//     std::vector<std::string> command = {};
//     static void list_fields(auto& fields, auto& m) {
//       fields(at_most(m.task, kMaxTasks), m.command);
//     }
//   };
//
// A struct that is more than a message has the list as a function in its namespace or in
// cohort::internal: `void list_fields(auto& fields, MaybeConst<ServerStatus> auto& m)`.
//
// A field is a number, a text, a time, a payload, a tensor, a shape, a status, a struct with a
// list, or a vector, map or optional of those. An enumeration needs at_most() or between().
template <typename T, typename Of>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Of>;

// A number or an enumeration of which the reader accepts nothing outside [least, most].
template <typename T>
struct Between {
  T& value;
  std::remove_const_t<T> least;
  std::remove_const_t<T> most;
};
template <typename T>
Between<T> between(T& value, std::type_identity_t<std::remove_const_t<T>> least,
                   std::type_identity_t<std::remove_const_t<T>> most) {
  return {value, least, most};
}
template <typename T>
Between<T> at_most(T& value, std::type_identity_t<std::remove_const_t<T>> limit) {
  return {value, {}, limit};
}

// A number of 32 bits that may be negative. The reader refuses negative numbers elsewhere.
template <MaybeConst<int> T>
struct EitherSign {
  T& value;
};
template <MaybeConst<int> T>
EitherSign<T> either_sign(T& value) {
  return {value};
}

template <typename T, typename Codec>
concept HasOwnList = requires(T& value, Codec& codec) {
  T::list_fields(codec, value);
};
template <typename T, typename Codec>
concept HasFreeList = requires(T& value, Codec& codec) {
  list_fields(codec, value);
};

// The text of a status is cut at this length, so that a large text does no harm.
inline constexpr size_t kMaxStatusText = 4096;
// A longer chain of causes loses its middle: the root cause always arrives.
inline constexpr int kMaxStatusCauses = 16;

// Appends fields to a message, for a MessageReader to take in the same order. The message must
// outlive the writer.
class MessageWriter {
 public:
  // A status without an origin gets the name `sender`.
  explicit MessageWriter(Message& message, std::string_view sender = {})
      : message_(message), sender_(sender) {}

  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }
  // What the reader of a list of fields requires.
  void check(bool /*holds*/, std::string_view /*problem*/) {}

  // Numbers take 1 to 10 bytes, small numbers 1.
  MessageWriter& number(uint64_t value);
  MessageWriter& text(std::string_view value) {
    number(value.size());
    message_.header.append(value);
    return *this;
  }
  MessageWriter& payload(Buffer value) {
    message_.payloads.push_back(std::move(value));
    return *this;
  }

 private:
  template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
  void put(T value) { number(static_cast<uint64_t>(value)); }
  template <typename T>
  void put(Between<const T> field) {
    number(static_cast<uint64_t>(field.value) - static_cast<uint64_t>(field.least));
  }
  void put(EitherSign<const int> field) { put(static_cast<uint32_t>(field.value)); }
  void put(double seconds) { put(static_cast<uint64_t>(seconds * 1000)); }
  void put(std::chrono::milliseconds value) { put(std::max<int64_t>(value.count(), 0)); }
  void put(std::chrono::nanoseconds value) { put(value.count()); }
  void put(const std::string& value) { text(value); }
  void put(const Buffer& value) { payload(value); }
  // Dtype and shape go into the header and the elements into a payload, which shares the tensor's
  // memory; elements of a few bytes go into the header. Views are made dense first. An undefined
  // tensor arrives undefined. Throws InvalidArgument for a resource and FailedPrecondition for a
  // symbol, because neither has a value to send.
  void put(const Tensor& value);
  void put(const Status& value);
  // Unknown sizes are -1.
  void put(const Shape& value) {
    put(value.rank());
    for (const int64_t size : value) put(size + 1);
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(values.size());
    for (const T& value : values) put(value);
  }
  template <typename K, typename V>
  void put(const std::map<K, V>& values) {
    put(values.size());
    for (const auto& [key, value] : values) (*this)(key, value);
  }
  template <HasOwnList<MessageWriter> T>
  void put(const T& value) {
    T::list_fields(*this, value);
  }
  template <HasFreeList<MessageWriter> T>
  void put(const T& value) {
    list_fields(*this, value);
  }

  Message& message_;
  const std::string_view sender_;
};

// Takes the fields of a message that comes from outside. It trusts nothing: what is missing, too
// long or too large throws DataLoss, whose text says `what` the message should be. The message must
// outlive the reader.
class MessageReader {
 public:
  MessageReader(const Message& message, std::string_view what)
      : message_(message), rest_(message.header), what_(what) {}

  template <typename... Fields>
  void operator()(Fields&&... fields) {
    (take(fields), ...);
  }
  void check(bool holds, std::string_view problem) const {
    if (!holds) fail(problem);
  }

  // At most `limit`.
  uint64_t number(uint64_t limit = UINT64_MAX);
  // How many things follow, each of which takes at least a byte of the header. So a false count
  // cannot make the reader allocate more than a message is long.
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
  // About 35 years: no time limit is longer on purpose, and the sum with a clock does not overflow.
  static constexpr uint64_t kLongestLimitMs = uint64_t{1} << 40;

  template <typename T>
  T number_up_to(T limit) {
    return static_cast<T>(number(static_cast<uint64_t>(limit)));
  }

  template <std::integral T>
  void take(T& value) {
    value = number_up_to(std::numeric_limits<T>::max());
  }
  template <typename T>
  void take(Between<T> field) {
    const auto least = static_cast<uint64_t>(field.least);
    field.value = static_cast<T>(least + number(static_cast<uint64_t>(field.most) - least));
  }
  void take(EitherSign<int> field) {
    field.value = static_cast<int>(number(std::numeric_limits<uint32_t>::max()));
  }
  void take(double& seconds) { seconds = static_cast<double>(number()) / 1000; }
  void take(std::chrono::milliseconds& value) {
    value = std::chrono::milliseconds(number(kLongestLimitMs));
  }
  void take(std::chrono::nanoseconds& value) {
    value = std::chrono::nanoseconds(number(std::numeric_limits<int64_t>::max()));
  }
  void take(std::string& value) { value = text(); }
  void take(Buffer& value) { value = payload(); }
  // The tensor shares the payload's memory and keeps it alive; strings, bools and elements in the
  // header are copied.
  void take(Tensor& value);
  void take(Status& value);
  void take(Shape& value) {
    for (int left = number_up_to(Shape::kMaxRank); left > 0; --left) {
      value.push_back(number_up_to(std::numeric_limits<int64_t>::max()) - 1);
    }
  }
  template <typename T>
  void take(std::optional<T>& value) {
    bool has_value = false;
    take(has_value);
    if (has_value) take(value.emplace());
  }
  // One value after the other, so that a false count does not allocate much.
  template <typename T>
  void take(std::vector<T>& values) {
    for (size_t left = count(); left > 0; --left) take(values.emplace_back());
  }
  template <typename K, typename V>
  void take(std::map<K, V>& values) {
    for (size_t left = count(); left > 0; --left) {
      K key{};
      take(key);
      take(values[std::move(key)]);
    }
  }
  template <HasOwnList<MessageReader> T>
  void take(T& value) {
    T::list_fields(*this, value);
  }
  template <HasFreeList<MessageReader> T>
  void take(T& value) {
    list_fields(*this, value);
  }

  const Message& message_;
  std::string_view rest_;  // of the header
  std::string_view what_;
  size_t payload_ = 0;  // the number of the next payload
};

// The message of a type that has a kind, its first field. `sender`: see MessageWriter.
template <typename T>
requires requires { T::kKind; }
Message encode(const T& message, std::string_view sender = {}) {
  Message encoded;
  MessageWriter(encoded, sender)(T::kKind, message);
  return encoded;
}

// The T that follows in a message.
template <typename T>
T decode_next(MessageReader& reader) {
  T decoded{};
  reader(decoded);
  return decoded;
}

// The T that follows in a message and ends it.
template <typename T>
T decode_rest(MessageReader& reader) {
  T decoded = decode_next<T>(reader);
  reader.expect_end();
  return decoded;
}

}  // namespace cohort::internal
