#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace cohort {

// While it lives, the data of this process grows by at most that many bytes.
class DataLimit {
 public:
  explicit DataLimit(uint64_t more_bytes) {
    ::getrlimit(RLIMIT_DATA, &before_);
    const rlimit limit{.rlim_cur = used_bytes() + more_bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_DATA, &limit);
  }
  ~DataLimit() { ::setrlimit(RLIMIT_DATA, &before_); }
  DataLimit(const DataLimit&) = delete;
  DataLimit& operator=(const DataLimit&) = delete;

  static uint64_t used_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      uint64_t kilobytes = 0;
      if (word == "VmData:" && status >> kilobytes) return kilobytes << 10;
    }
    return 0;
  }

 private:
  rlimit before_{};
};

}  // namespace cohort
