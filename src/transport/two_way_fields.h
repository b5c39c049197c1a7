#pragma once

#include <chrono>
#include <concepts>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "transport/message_fields.h"

namespace cohort::internal {

// FieldsOut appends the fields of a message, FieldsIn takes them. Both have the same functions, so
// that one list of fields, a template, serves writing and reading:
//
//   void list_fields(auto& fields, auto& offer) {
//     fields.text(offer.name);
//     fields.number(offer.port, kMaxPort);
//   }
//
// A limit is what a reader accepts at most.
class FieldsOut {
 public:
  explicit FieldsOut(Message& message) : writer_(message) {}

  void number(uint64_t value, uint64_t /*limit*/ = 0) { writer_.number(value); }
  void text(const std::string& value) { writer_.text(value); }
  void flag(bool value) { number(value ? 1 : 0); }
  // Never negative.
  void natural(int value, int /*limit*/ = 0) { number(static_cast<uint64_t>(value)); }
  // Of either sign.
  void integer(int value) { number(static_cast<uint32_t>(value)); }
  // To the millisecond.
  void seconds(double value) { number(static_cast<uint64_t>(value * 1000)); }
  void time(std::chrono::nanoseconds value) { number(static_cast<uint64_t>(value.count())); }
  // One of two.
  template <typename T>
  void choice(T value, T /*first*/, T second) {
    flag(value == second);
  }
  void optional(const std::optional<uint64_t>& value) {
    flag(value.has_value());
    number(value.value_or(0));
  }
  // `each(value)` lists the fields of one.
  template <typename T, typename Each>
  void values(const std::vector<T>& list, const Each& each) {
    number(list.size());
    for (const T& value : list) each(value);
  }
  void texts(const std::vector<std::string>& list) {
    values(list, [this](const std::string& value) { text(value); });
  }
  void texts(const std::map<std::string, std::string>& by_name) {
    number(by_name.size());
    for (const auto& [name, value] : by_name) {
      text(name);
      text(value);
    }
  }

 private:
  MessageWriter writer_;
};

// Trusts nothing: throws as MessageReader does.
class FieldsIn {
 public:
  explicit FieldsIn(MessageReader& reader) : reader_(reader) {}

  void number(uint64_t& value, uint64_t limit = UINT64_MAX) { value = reader_.number(limit); }
  void text(std::string& value) { value = reader_.text(); }
  void flag(bool& value) { value = reader_.number(1) == 1; }
  void natural(int& value, int limit = std::numeric_limits<int>::max()) {
    value = static_cast<int>(reader_.number(static_cast<uint64_t>(limit)));
  }
  void integer(int& value) { value = static_cast<int>(reader_.number(UINT32_MAX)); }
  void seconds(double& value) { value = static_cast<double>(reader_.number()) / 1000; }
  void time(std::chrono::nanoseconds& value) {
    value = std::chrono::nanoseconds(static_cast<int64_t>(reader_.number()));
  }
  template <typename T>
  void choice(T& value, T first, T second) {
    value = reader_.number(1) == 1 ? second : first;
  }
  void optional(std::optional<uint64_t>& value) {
    const bool there = reader_.number(1) == 1;
    const uint64_t read = reader_.number();
    if (there) value = read;
  }
  template <typename T, typename Each>
  void values(std::vector<T>& list, const Each& each) {
    list.resize(reader_.count());
    for (T& value : list) each(value);
  }
  void texts(std::vector<std::string>& list) {
    values(list, [this](std::string& value) { text(value); });
  }
  void texts(std::map<std::string, std::string>& by_name) {
    for (size_t left = reader_.count(); left > 0; --left) {
      std::string name;
      text(name);
      text(by_name[name]);
    }
  }

 private:
  MessageReader& reader_;
};

// T or const T, for lists of fields.
template <typename T, typename Of>
concept EitherWay = std::same_as<std::remove_const_t<T>, Of>;

}  // namespace cohort::internal
