#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace cohort::data::internal {

// A file being written. Until close() nothing is promised; errors name the file.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  void write(std::string_view bytes);
  // Hands what was written to the system. Throws FailedPrecondition when it is closed.
  void flush();
  // Throws what went wrong when the last bytes were written. Idempotent.
  void close();
  bool is_open() const { return file_ != nullptr; }
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::FILE* open_file() const;
  [[noreturn]] void fail() const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace cohort::data::internal
