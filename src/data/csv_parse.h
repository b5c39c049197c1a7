#pragma once

// The text of CSV files: records, fields and numbers.

#include <string>
#include <string_view>
#include <vector>

#include "data/reader.h"

namespace cohort::data::internal {

// The records of a CSV file (RFC 4180), split into fields.
class CsvRecords {
 public:
  CsvRecords(BufferedBytes& bytes, char delimiter, int64_t max_bytes)
      : bytes_(bytes), delimiter_(delimiter), max_bytes_(static_cast<size_t>(max_bytes)) {}

  // Reads the fields of the next record, which are valid until the next call. Empty lines are
  // skipped. Returns false at the end. A record that is quoted wrongly or too long is skipped and
  // throws DataLoss with its line.
  bool next(std::vector<std::string_view>& fields);
  // Returns the line on which the last record began, counted from 1.
  int64_t line() const { return line_; }
  void position(PositionFields& fields) { file_position(fields, bytes_, lines_); }

 private:
  struct Record {
    std::string_view text;  // without its end
    bool quotes = false;
    bool found = false;
  };

  Record next_record();
  // Returns the length of the record at the front of `text`, npos if its line end is missing.
  size_t record_length(std::string_view text, bool& quotes) const;
  void split_quoted(std::string_view text, std::vector<std::string_view>& fields);
  std::string_view quoted_field(std::string_view& rest);
  [[noreturn]] void fail(std::string_view reason) const;

  BufferedBytes& bytes_;
  const char delimiter_;
  const size_t max_bytes_;
  int64_t line_ = 0;                    // on which the last record began
  int64_t lines_ = 0;                   // lines that have ended
  std::vector<std::string> unescaped_;  // fields that had doubled quotes
};

// Writes the number that `text` spells to `out`, which has the size of one element. Returns false
// if `text` is not a number or the number does not fit. Spaces around it and a leading '+' are
// allowed. A bool is 0, 1, true or false, in upper or lower case.
using NumberParser = bool (*)(std::string_view text, std::byte* out);

// Returns the parser for a numeric dtype.
NumberParser number_parser(DType dtype);

}  // namespace cohort::data::internal
