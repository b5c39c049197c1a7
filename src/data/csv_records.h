#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"

namespace cohort::data::internal {

// The records of a CSV file (RFC 4180), split into fields.
class CsvRecords {
 public:
  CsvRecords(BufferedBytes& bytes, char delimiter, int64_t max_bytes)
      : bytes_(bytes), delimiter_(delimiter), max_bytes_(static_cast<size_t>(max_bytes)) {}

  // The fields of the next record that is not an empty line, valid until the next call; false at
  // the end. Bad quoting and over-long records are DataLoss with the line, and passed over.
  bool next(std::vector<std::string_view>& fields);
  // The line on which the last record began, counted from 1.
  int64_t line() const { return line_; }
  // Lines that have ended so far.
  int64_t lines() const { return lines_; }
  void set_lines(int64_t lines) { lines_ = lines; }

 private:
  struct Record {
    std::string_view text;  // without its end
    bool quotes = false;
    bool found = false;
  };

  Record next_record();
  // Length of the record at the front of `text` up to its line end; npos when that is not there.
  size_t record_length(std::string_view text, bool& quotes) const;
  void split_quoted(std::string_view text, std::vector<std::string_view>& fields);
  std::string_view quoted_field(std::string_view& rest);
  [[noreturn]] void fail(std::string_view reason) const;
  [[noreturn]] void pass_over();

  BufferedBytes& bytes_;
  const char delimiter_;
  const size_t max_bytes_;
  int64_t line_ = 0;
  int64_t lines_ = 0;
  std::vector<std::string> unescaped_;  // fields that had doubled quotes
};

}  // namespace cohort::data::internal
