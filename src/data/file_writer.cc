#include "data/file_writer.h"

#include <cerrno>
#include <cstring>

#include "base/raise.h"

namespace cohort::data::internal {

using cohort::internal::raise;

FileWriter::FileWriter(const std::string& path)
    : path_(path), file_(std::fopen(path.c_str(), "wbe")) {
  if (file_) return;
  const Code code = errno == EACCES || errno == EPERM ? Code::PermissionDenied
                    : errno == ENOENT                 ? Code::NotFound
                                                      : Code::Unavailable;
  raise(code, "[Write] cannot make '{}': {}", path, std::strerror(errno));
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
  raise(errno == ENOSPC ? Code::ResourceExhausted : Code::DataLoss, "[Write] '{}': {}", path_,
        std::strerror(errno));
}

}  // namespace cohort::data::internal
