#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/dataset.h"

namespace cohort::data::internal {

// Positions have a codec of their own, beside that of messages between tasks, because they are a
// durable format: a checkpoint keeps them for programs that start later.

// Writes the position of an iterator, stage by stage.
class StateWriter {
 public:
  // Begins the part of one stage.
  void stage(std::string_view kind) { text(kind); }
  void integer(int64_t value);
  void flag(bool value) { integer(value ? 1 : 0); }
  void text(std::string_view value);
  void tensor(const Tensor& tensor);
  void element(const Element& element);
  void status(const Status& status);

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads such a position. The bytes may come from anywhere: a value that does not fit throws
// InvalidArgument, and no count is trusted beyond the bytes that are left.
class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : rest_(bytes) {}

  // Throws unless the part that begins here was written by a stage of that kind.
  void stage(std::string_view kind);
  int64_t integer();
  // Throws unless the number is in [least, most].
  int64_t integer(int64_t least, int64_t most);
  bool flag() { return integer(0, 1) == 1; }
  std::string text();
  Tensor tensor();
  Element element();
  Status status();
  bool at_end() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view take(int64_t count);

  std::string_view rest_;
};

// Goes over the fields of a position, to write them or read them back, so that each cursor lists
// its fields once.
class PositionFields {
 public:
  explicit PositionFields(StateWriter& out) : out_(&out) {}
  explicit PositionFields(StateReader& in) : in_(&in) {}

  bool reading() const { return in_ != nullptr; }

  // As those of StateWriter and StateReader.
  void stage(std::string_view kind) { reading() ? in_->stage(kind) : out_->stage(kind); }
  void flag(bool& value) { visit(value, &StateReader::flag, &StateWriter::flag); }
  void text(std::string& value) { visit(value, &StateReader::text, &StateWriter::text); }
  void status(Status& value) { visit(value, &StateReader::status, &StateWriter::status); }
  void element(Element& value) { visit(value, &StateReader::element, &StateWriter::element); }
  void element(std::optional<Element>& value);
  // A number outside [least, most] cannot be read.
  template <typename T>  // int64_t or uint64_t
  void integer(T& value, int64_t least = INT64_MIN, int64_t most = INT64_MAX) {
    if (!reading()) return out_->integer(static_cast<int64_t>(value));
    value = static_cast<T>(in_->integer(least, most));
  }
  // A number in [0, most].
  void index(size_t& value, size_t most) { integer(value, 0, static_cast<int64_t>(most)); }

  // The number of items, then each item, which `visit` shows. When reading, `items` must be empty.
  template <typename List, typename Visit>
  void list(List& items, int64_t most, const Visit& visit) {
    auto count = static_cast<int64_t>(items.size());
    integer(count, 0, most);
    for (int64_t i = 0; i < count; ++i) {
      visit(reading() ? items.emplace_back() : items[static_cast<size_t>(i)]);
    }
  }
  template <typename List>
  void elements(List& items, int64_t most = INT64_MAX) {
    list(items, most, [this](Element& item) { element(item); });
  }

 private:
  template <typename T, typename Read, typename Write>
  void visit(T& value, Read read, Write write) {
    if (!reading()) return (out_->*write)(value);
    value = (in_->*read)();
  }

  StateWriter* out_ = nullptr;
  StateReader* in_ = nullptr;
};

[[noreturn]] void raise_bad_state(std::string_view reason);

// A whole position as it leaves the library: with a mark and a checksum.
std::string sealed(const StateWriter& position);
// The position inside `bytes`. Throws InvalidArgument when they are not a sealed position, or are
// damaged.
std::string_view unsealed(std::string_view bytes);

}  // namespace cohort::data::internal
