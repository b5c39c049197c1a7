#include "data/file_writer.h"

#include <cerrno>

#include "base/raise.h"

namespace cohort::data::internal {

using cohort::internal::code_of_errno;
using cohort::internal::errno_text;
using cohort::internal::raise;

FileWriter::FileWriter(const std::string& path)
    : path_(path), file_(std::fopen(path.c_str(), "wbe")) {
  if (file_) return;
  const int error = errno;
  raise(code_of_errno(error), "[Write] cannot make '{}': {}", path, errno_text(error));
}

std::FILE* FileWriter::open_file() const {
  if (!file_) raise(Code::FailedPrecondition, "[Write] '{}' is closed", path_);
  return file_.get();
}

void FileWriter::write(std::string_view bytes) {
  std::FILE* file = open_file();
  if (bytes.empty()) return;  // whose pointer may be null
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) fail();
}

void FileWriter::flush() {
  if (std::fflush(open_file()) != 0) fail();
}

void FileWriter::close() {
  if (file_ && std::fclose(file_.release()) != 0) fail();
}

void FileWriter::fail() const {
  const int error = errno;
  raise(code_of_errno(error), "[Write] '{}': {}", path_, errno_text(error));
}

}  // namespace cohort::data::internal
