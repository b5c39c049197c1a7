#include "base/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace cohort::internal {
namespace {

// Above this the first version means "no limit".
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

// The second version is mounted alone, or beside the first.
std::string unified_root(const std::string& root) {
  return std::filesystem::exists(root + "/unified") ? root + "/unified" : root;
}

// A container may see its own group as the root, under a path that is only valid outside.
std::string existing_group(const std::string& root, const std::string& path, const char* file) {
  for (const std::string& directory : {root + path, root}) {
    if (std::filesystem::exists(directory + "/" + file)) return directory;
  }
  return "";
}

}  // namespace

MemoryCgroup::MemoryCgroup(const std::string& groups, const std::string& root) {
  std::ifstream lines(groups);
  // number:controllers:path
  for (std::string line; std::getline(lines, line) && directory_.empty();) {
    const size_t path = line.find(':', line.find(':') + 1) + 1;
    if (line.find(":memory:") != std::string::npos) {
      directory_ = existing_group(root + "/memory", line.substr(path), "memory.limit_in_bytes");
      first_version_ = !directory_.empty();
    } else if (line.starts_with("0::")) {
      directory_ = existing_group(unified_root(root), line.substr(path), "memory.max");
    }
  }
}

std::optional<uint64_t> MemoryCgroup::number_in(const std::string& file,
                                                const std::string& key) const {
  if (directory_.empty()) return std::nullopt;
  std::ifstream text(directory_ + "/" + file);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t number = 0;
    if (!key.empty() && (!(words >> name) || name != key)) continue;
    if (words >> number) return number;
  }
  return std::nullopt;
}

uint64_t MemoryCgroup::kills() const {
  return number_in(first_version_ ? "memory.oom_control" : "memory.events", "oom_kill").value_or(0);
}

std::optional<uint64_t> MemoryCgroup::limit_bytes() const {
  const auto limit = number_in(first_version_ ? "memory.limit_in_bytes" : "memory.max");
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

size_t physical_memory() {
  // Finding the cgroup opens files, and each large message asks.
  static const size_t bytes = [] {
    const size_t machine = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) *
                           static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    return std::min<size_t>(machine, MemoryCgroup().limit_bytes().value_or(machine));
  }();
  return bytes;
}

size_t memory_limit() {
  size_t least = physical_memory();
  for (const auto resource : {RLIMIT_DATA, RLIMIT_AS}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    least = std::min<size_t>(least, limit.rlim_cur);
  }
  return least;
}

}  // namespace cohort::internal
