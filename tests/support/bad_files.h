#pragma once

// Contents of files that are cut off, damaged, over-long or of another format.

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "cohort/error.h"
#include "data/tfrecord.h"

namespace cohort::data {

struct BadFile {
  std::string what;
  std::string bytes;
  std::string fragment;  // of the message
  Code code = Code::DataLoss;
};

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string s(const char* text, size_t size) { return std::string(text, size); }

// `bytes` with the one at `at` replaced.
inline std::string with(std::string bytes, size_t at, char value) {
  bytes[at] = value;
  return bytes;
}

// A record of a TFRecord file.
inline std::string framed(const std::string& record) {
  return internal::tfrecord_head(record) + record + internal::tfrecord_tail(record);
}

// `read(bytes)` throws what each of the files says; there are at least so many.
template <typename Read>
void expect_errors(const std::vector<BadFile>& files, size_t least, const Read& read) {
  EXPECT_GE(files.size(), least);
  for (const BadFile& file : files) {
    const Status status = capture_status([&] { read(file.bytes); });
    EXPECT_EQ(status.code, file.code) << file.what << ": " << status.to_string();
    EXPECT_NE(status.message.find(file.fragment), std::string::npos)
        << file.what << ": " << status.to_string();
  }
}

}  // namespace cohort::data
