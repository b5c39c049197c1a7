#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cohort/data.h"

namespace cohort::data::internal {

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

// Reads it back. The bytes may come from anywhere: what does not fit throws InvalidArgument, and no
// count is believed beyond the bytes there are.
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

[[noreturn]] void raise_bad_state(std::string_view reason);

// A whole position as it leaves the library: with a mark and a checksum.
std::string sealed(const StateWriter& position);
// What was sealed, inside of `bytes`. Throws InvalidArgument when they are something else, or
// damaged.
std::string_view unsealed(std::string_view bytes);

}  // namespace cohort::data::internal
