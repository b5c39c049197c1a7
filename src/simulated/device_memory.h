#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace cohort::internal {

// The memory of one simulated GPU. Its addresses lie in a range that the host can neither read nor
// write, so that code which takes them for addresses of the host fails at once, as on a GPU. The
// bytes lie in a second range of the same size. Thread-safe.
class DeviceMemory {
 public:
  // `device` is the name for errors. Throws ResourceExhausted where the process has no room for the
  // ranges, and InvalidArgument for a limit that they do not hold.
  DeviceMemory(std::string device, int64_t limit);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Throws ResourceExhausted, naming the running op and the device, beyond the limit.
  void* allocate(size_t bytes);
  void release(void* address);

  bool contains(const void* address) const;
  // Where the byte of that device address really is. Null for null.
  std::byte* on_host(const void* address) const;

  struct Use {
    int64_t limit;
    int64_t in_use;
    int64_t peak;
  };
  Use use() const;

  static constexpr int64_t kMaxBytes = int64_t{1} << 35;  // addresses; memory as it is used

 private:
  size_t take_block(size_t size);  // mutex_ is held

  const std::string device_;
  const int64_t limit_;
  std::byte* const bytes_;
  std::byte* const addresses_;
  mutable Mutex mutex_;
  int64_t in_use_ = 0;                          // guarded by mutex_
  int64_t peak_ = 0;                            // guarded by mutex_
  size_t end_ = 0;                              // guarded by mutex_; no block lies after it
  std::map<size_t, std::vector<size_t>> free_;  // guarded by mutex_; offsets by size
  std::map<size_t, size_t> sizes_;              // guarded by mutex_; by offset
};

}  // namespace cohort::internal
