#pragma once

#include <string_view>

#include "data/byte_source.h"

namespace cohort::data::internal {

// Lines of a text, ended by "\n" or "\r\n" or the end of the file.
class LineReader {
 public:
  LineReader(BufferedBytes& bytes, std::string_view stage, int64_t max_bytes)
      : bytes_(bytes), stage_(stage), max_bytes_(static_cast<size_t>(max_bytes)) {}

  // The next line, valid until the next call. A line above the limit is DataLoss and passed over.
  bool next(std::string_view& line);
  // Lines read so far: the number of the last one, counted from 1.
  int64_t number() const { return number_; }
  void set_number(int64_t number) { number_ = number; }

 private:
  [[noreturn]] void pass_over();

  BufferedBytes& bytes_;
  std::string_view stage_;
  size_t max_bytes_;
  int64_t number_ = 0;
};

}  // namespace cohort::data::internal
