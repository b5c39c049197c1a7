#include "base/host_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "base/random_number.h"

namespace cohort::internal {

namespace {

// Two hosts that do not tell their boots must not be taken for one. A process number alone may
// occur on both.
std::string identity_of_process(const std::string& boot_id_file) {
  static const uint64_t number = [&] {
    log_warning(
        "[Host] cannot read '{}': this process shares memory with no other process; make the file "
        "readable to share memory",
        boot_id_file);
    return random_number();
  }();
  return fmt::format("unknown boot, process {} {:016x}", ::getpid(), number);
}

}  // namespace

std::string host_identity(const std::string& boot_id_file) {
  std::string boot;
  std::getline(std::ifstream(boot_id_file), boot);
  if (boot.empty()) return identity_of_process(boot_id_file);
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
