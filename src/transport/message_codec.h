#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "transport/message_fields.h"
#include "transport/status_message.h"
#include "transport/tensor_message.h"

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
// list, or a vector, map or optional of those. An enumeration needs at_most().
template <typename T, typename Of>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Of>;

// A number or an enumeration of which the decoder accepts no more than `limit`.
template <typename T>
struct AtMost {
  T& value;
  std::remove_const_t<T> limit;
};
template <typename T>
AtMost<T> at_most(T& value, std::type_identity_t<std::remove_const_t<T>> limit) {
  return {value, limit};
}

// A number of 32 bits that may be negative. The decoder refuses negative numbers elsewhere.
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

// Appends fields to a message, which must outlive the encoder.
class MessageEncoder {
 public:
  // A status without an origin gets the name `sender`.
  explicit MessageEncoder(Message& message, std::string_view sender = {})
      : writer_(message), sender_(sender) {}

  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }
  // What the decoder of a list of fields requires.
  void check(bool /*holds*/, std::string_view /*problem*/) {}

 private:
  template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
  void put(T value) { writer_.number(static_cast<uint64_t>(value)); }
  template <typename T>
  void put(AtMost<const T> field) {
    put(field.value);
  }
  void put(EitherSign<const int> field) { put(static_cast<uint32_t>(field.value)); }
  void put(double seconds) { put(static_cast<uint64_t>(seconds * 1000)); }
  void put(std::chrono::milliseconds value) { put(std::max<int64_t>(value.count(), 0)); }
  void put(std::chrono::nanoseconds value) { put(value.count()); }
  void put(const std::string& value) { writer_.text(value); }
  void put(const Buffer& value) { writer_.payload(value); }
  void put(const Tensor& value) { write_tensor(value, writer_); }
  void put(const Status& value) { write_status(value, sender_, writer_); }
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
  template <HasOwnList<MessageEncoder> T>
  void put(const T& value) {
    T::list_fields(*this, value);
  }
  template <HasFreeList<MessageEncoder> T>
  void put(const T& value) {
    list_fields(*this, value);
  }

  MessageWriter writer_;
  const std::string_view sender_;
};

// Takes the fields in the same order. It trusts nothing: each number has a limit, and every error
// is raised by the reader, which names the message.
class MessageDecoder {
 public:
  explicit MessageDecoder(MessageReader& reader) : reader_(reader) {}

  template <typename... Fields>
  void operator()(Fields&&... fields) {
    (take(fields), ...);
  }
  void check(bool holds, std::string_view problem) {
    if (!holds) reader_.fail(problem);
  }

 private:
  // About 35 years: no time limit is longer on purpose, and the sum with a clock does not overflow.
  static constexpr uint64_t kLongestLimitMs = uint64_t{1} << 40;

  template <typename T>
  T number(T limit) {
    return static_cast<T>(reader_.number(static_cast<uint64_t>(limit)));
  }

  template <std::integral T>
  void take(T& value) {
    value = number(std::numeric_limits<T>::max());
  }
  template <typename T>
  void take(AtMost<T> field) {
    field.value = number(field.limit);
  }
  void take(EitherSign<int> field) {
    field.value = static_cast<int>(number(std::numeric_limits<uint32_t>::max()));
  }
  void take(double& seconds) { seconds = static_cast<double>(reader_.number()) / 1000; }
  void take(std::chrono::milliseconds& value) {
    value = std::chrono::milliseconds(number(kLongestLimitMs));
  }
  void take(std::chrono::nanoseconds& value) {
    value = std::chrono::nanoseconds(number(std::numeric_limits<int64_t>::max()));
  }
  void take(std::string& value) { value = reader_.text(); }
  void take(Buffer& value) { value = reader_.payload(); }
  void take(Tensor& value) { value = read_tensor(reader_); }
  void take(Status& value) { value = read_status(reader_); }
  void take(Shape& value) {
    for (int left = number(Shape::kMaxRank); left > 0; --left) {
      value.push_back(number(std::numeric_limits<int64_t>::max()) - 1);
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
    for (size_t left = reader_.count(); left > 0; --left) take(values.emplace_back());
  }
  template <typename K, typename V>
  void take(std::map<K, V>& values) {
    for (size_t left = reader_.count(); left > 0; --left) {
      K key{};
      take(key);
      take(values[std::move(key)]);
    }
  }
  template <HasOwnList<MessageDecoder> T>
  void take(T& value) {
    T::list_fields(*this, value);
  }
  template <HasFreeList<MessageDecoder> T>
  void take(T& value) {
    list_fields(*this, value);
  }

  MessageReader& reader_;
};

// The message of a type that has a kind, its first field. `sender`: see MessageEncoder.
template <typename T>
requires requires { T::kKind; }
Message encode(const T& message, std::string_view sender = {}) {
  Message encoded;
  MessageEncoder(encoded, sender)(T::kKind, message);
  return encoded;
}

// The T that follows in a message.
template <typename T>
T decode_next(MessageReader& reader) {
  T decoded{};
  MessageDecoder{reader}(decoded);
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
