#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cohort/data.h"
#include "data/byte_source.h"

namespace cohort::data::internal {

// Records of a TFRecord file: length, its checksum, the bytes, their checksum.
class TFRecordFile {
 public:
  TFRecordFile(std::unique_ptr<ByteSource> file, const TFRecordOptions& options);

  // False at the end. A damaged length ends the file, since nothing tells where the next record
  // begins; a damaged record is passed over. Both are DataLoss.
  bool next(std::string& record);
  int64_t number() const { return number_; }  // records read, bad ones included
  const BufferedBytes& bytes() const { return bytes_; }
  BufferedBytes& bytes() { return bytes_; }
  void set_number(int64_t number) { number_ = number; }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args);
  bool read_length(int64_t& length);

  BufferedBytes bytes_;
  TFRecordOptions options_;
  int64_t number_ = 0;
  bool broken_ = false;
};

// What frames a record in a file.
std::string tfrecord_head(std::string_view record);
std::string tfrecord_tail(std::string_view record);

}  // namespace cohort::data::internal
