#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "support/temporary_file.h"

namespace cohort::test {

// While it lives, what this process writes to its log goes to a file, which a test may read
// meanwhile.
class LogFile {
 public:
  LogFile() : path_(directory_.path() + "/log"), before_(dup(STDERR_FILENO)) {
    const int file = open(path_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
  }
  ~LogFile() {
    dup2(before_, STDERR_FILENO);
    close(before_);
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }
  bool contains(const std::string& part) const { return text().find(part) != std::string::npos; }

 private:
  const TemporaryDirectory directory_;
  const std::string path_;
  const int before_;
};

}  // namespace cohort::test
