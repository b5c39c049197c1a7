#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cohort/data.h"
#include "data/byte_source.h"
#include "data/state.h"

namespace cohort::data::internal {

// Records of a TFRecord file: length, its checksum, the bytes, their checksum.
class TFRecordFile {
 public:
  TFRecordFile(std::unique_ptr<ByteSource> file, const TFRecordOptions& options);

  // False at the end. A damaged length ends the file, since nothing tells where the next record
  // begins; a damaged record is passed over. Both are DataLoss.
  bool next(std::string& record);
  void save(StateWriter& state) const;
  void restore(StateReader& state);

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args);
  bool read_length(int64_t& length);
  [[noreturn]] void fail_at_end(size_t claimed, size_t found);
  // Both return the masked checksum of what they read: from the buffer, or past it for what is
  // long.
  uint32_t copy_content(std::string& record, size_t length);
  uint32_t read_content(std::string& record, size_t length);
  uint32_t read_checksum();

  BufferedBytes bytes_;
  TFRecordOptions options_;
  int64_t number_ = 0;  // records read, bad ones included
  bool broken_ = false;
};

// What frames a record in a file.
std::string tfrecord_head(std::string_view record);
std::string tfrecord_tail(std::string_view record);

}  // namespace cohort::data::internal
