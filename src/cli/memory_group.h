#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cohort::cli {

// The group of processes with which this one shares a memory limit (a cgroup of either version),
// for telling a kill for want of memory from any other.
class MemoryGroup {
 public:
  // Of the process with that id, or of this one.
  explicit MemoryGroup(const std::string& process = "self");

  // How many of its processes the kernel has killed for want of memory; 0 when that is not told.
  uint64_t kills() const;
  std::optional<uint64_t> limit_bytes() const;  // nothing when there is none
  std::optional<uint64_t> peak_bytes() const;

 private:
  std::optional<uint64_t> number_in(const std::string& file, const std::string& key = "") const;

  std::string folder_;  // empty when there is no such group
  bool first_version_ = false;
};

}  // namespace cohort::cli
