#include "cli/poller.h"

#include <poll.h>

#include <vector>

namespace cohort::cli {

void Poller::wait(std::chrono::milliseconds limit) {
  std::vector<pollfd> files;
  for (const auto& [fd, readable] : watched_)
    files.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  if (poll(files.data(), files.size(), static_cast<int>(limit.count())) <= 0) return;
  for (const pollfd& file : files) {
    const auto found = watched_.find(file.fd);  // an earlier call may have ended this one
    if (file.revents == 0 || found == watched_.end()) continue;
    const auto readable = found->second;
    readable();
  }
}

}  // namespace cohort::cli
