#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace cohort::internal {

// The cgroup (of either version) with which this process shares a memory limit. It tells a kill for
// lack of memory from any other kill.
class MemoryCgroup {
 public:
  // `groups` lists the groups of a process. The groups' directories are below `root`.
  explicit MemoryCgroup(const std::string& groups = "/proc/self/cgroup",
                        const std::string& root = "/sys/fs/cgroup");

  // How many of its processes the kernel has killed for lack of memory; 0 if that is unknown.
  uint64_t kills() const;
  std::optional<uint64_t> limit_bytes() const;  // empty: no limit

 private:
  std::optional<uint64_t> number_in(const std::string& file, const std::string& key = "") const;

  std::string directory_;  // empty: no such cgroup
  bool first_version_ = false;
};

// The bytes of memory, used or not, that this machine has and that the process's cgroup may use.
size_t physical_memory();
// How many of these bytes this process may allocate: ulimit -d and -v, and `cohort run --memory`,
// may allow fewer. The limits do not count the pages of a memfd, so that physical_memory() alone
// bounds a SealedMemory.
size_t memory_limit();

}  // namespace cohort::internal
