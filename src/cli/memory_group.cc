#include "cli/memory_group.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace cohort::cli {
namespace {

// Above this the first version means "no limit".
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

// The second version is mounted alone, or beside the first.
const char* unified_root() {
  return std::filesystem::exists("/sys/fs/cgroup/unified") ? "/sys/fs/cgroup/unified"
                                                           : "/sys/fs/cgroup";
}

// A container may see its own group as the root, under a path that is only valid outside.
std::string existing(const std::string& root, const std::string& path, const char* file) {
  for (const std::string& folder : {root + path, root}) {
    if (std::filesystem::exists(folder + "/" + file)) return folder;
  }
  return "";
}

}  // namespace

MemoryGroup::MemoryGroup(const std::string& process) {
  std::ifstream groups("/proc/" + process + "/cgroup");
  // number:controllers:path
  for (std::string line; std::getline(groups, line) && folder_.empty();) {
    const size_t path = line.find(':', line.find(':') + 1) + 1;
    if (line.find(":memory:") != std::string::npos) {
      folder_ = existing("/sys/fs/cgroup/memory", line.substr(path), "memory.limit_in_bytes");
      first_version_ = !folder_.empty();
    } else if (line.starts_with("0::")) {
      folder_ = existing(unified_root(), line.substr(path), "memory.max");
    }
  }
}

std::optional<uint64_t> MemoryGroup::number_in(const std::string& file,
                                               const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream text(folder_ + "/" + file);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t number = 0;
    if (!key.empty() && (!(words >> name) || name != key)) continue;
    if (words >> number) return number;
  }
  return std::nullopt;
}

uint64_t MemoryGroup::kills() const {
  return number_in(first_version_ ? "memory.oom_control" : "memory.events", "oom_kill").value_or(0);
}

std::optional<uint64_t> MemoryGroup::limit_bytes() const {
  const auto limit = number_in(first_version_ ? "memory.limit_in_bytes" : "memory.max");
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

std::optional<uint64_t> MemoryGroup::peak_bytes() const {
  return number_in(first_version_ ? "memory.max_usage_in_bytes" : "memory.peak");
}

}  // namespace cohort::cli
