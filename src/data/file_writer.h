#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace cohort::data::internal {

// Writes a file. The bytes are only certain to be in the file after close(). Errors name the file.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  void write(std::string_view bytes);
  // Passes the written bytes to the operating system. Throws FailedPrecondition after close().
  void flush();
  // Throws if the last bytes cannot be written. Idempotent.
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
