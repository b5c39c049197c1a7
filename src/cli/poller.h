#pragma once

#include <chrono>
#include <functional>
#include <map>

namespace cohort::cli {

// Calls what belongs to the files that can be read. One thread.
class Poller {
 public:
  void watch(int fd, std::function<void()> readable) { watched_[fd] = std::move(readable); }
  void forget(int fd) { watched_.erase(fd); }
  // Returns after the limit, or after calling for all files that were readable.
  void wait(std::chrono::milliseconds limit);

 private:
  std::map<int, std::function<void()>> watched_;
};

}  // namespace cohort::cli
