#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cohort/readers.h"
#include "data/byte_source.h"
#include "data/iterator_position.h"

namespace cohort::data::internal {

// The records of a TFRecord file. A record is its length, the checksum of the length, the bytes,
// and the checksum of the bytes.
class TFRecordFile {
 public:
  TFRecordFile(std::unique_ptr<ByteSource> file, const TFRecordOptions& options);

  // Returns false at the end. A damaged record throws DataLoss and is skipped. A damaged length
  // throws DataLoss and ends the file, because the start of the next record is then unknown.
  bool next(std::string& record);
  void position(PositionFields& fields);

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args);
  bool read_length(int64_t& length);
  [[noreturn]] void fail_at_end(size_t claimed, size_t found);
  // Both return the masked checksum of the record. copy_content() reads it through the buffer,
  // read_content() without, for long records.
  uint32_t copy_content(std::string& record, size_t length);
  uint32_t read_content(std::string& record, size_t length);
  uint32_t read_checksum();

  BufferedBytes bytes_;
  TFRecordOptions options_;
  int64_t number_ = 0;  // records read, damaged records included
  bool broken_ = false;
};

// The bytes before and after a record in a file.
std::string tfrecord_head(std::string_view record);
std::string tfrecord_tail(std::string_view record);
// Writes a record with these bytes.
void write_record(FileWriter& file, std::string_view record);

}  // namespace cohort::data::internal
