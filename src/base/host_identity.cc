#include "base/host_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <fstream>

namespace cohort::internal {

std::string host_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code unreadable;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", unreadable);
  return fmt::format("{} {} uid {}", boot, network.string(), ::geteuid());
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, HOST_NAME_MAX) == 0 ? name : "?";
}

std::string process_description() {
  return fmt::format("process {} on {}", ::getpid(), host_name());
}

}  // namespace cohort::internal
