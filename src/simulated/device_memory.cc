#include "simulated/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "base/raise.h"
#include "simulated/running_op.h"

namespace cohort::internal {
namespace {

std::byte* reserve(const std::string& device, int protection) {
  void* const range = mmap(nullptr, static_cast<size_t>(DeviceMemory::kMaxBytes), protection,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    raise(Code::ResourceExhausted,
          "[Devices] cannot reserve {} GB of addresses for the simulated {}: {}; ulimit -v may be "
          "too low",
          DeviceMemory::kMaxBytes >> 30, device, errno_text(errno));
  }
  return static_cast<std::byte*>(range);
}

// Blocks come in four sizes for each power of two, so that a block that was given back fits the
// next tensor of about the same size.
size_t block_size(size_t bytes) {
  constexpr size_t kLeast = 256;
  const size_t step = std::max(std::bit_floor(bytes) / 4, kLeast);
  return (bytes + step - 1) / step * step;
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / (1 << 20));
}

int64_t checked_limit(const std::string& device, int64_t limit) {
  if (limit > 0 && limit <= DeviceMemory::kMaxBytes) return limit;
  raise(Code::InvalidArgument,
        "[Devices] the memory of the simulated {} must be between 1 byte and {} GB, got {} bytes",
        device, DeviceMemory::kMaxBytes >> 30, limit);
}

}  // namespace

DeviceMemory::DeviceMemory(std::string device, int64_t limit)
    : device_(std::move(device)),
      limit_(checked_limit(device_, limit)),
      bytes_(reserve(device_, PROT_READ | PROT_WRITE)),
      addresses_(reserve(device_, PROT_NONE)) {}

size_t DeviceMemory::take_block(size_t size) {
  std::vector<size_t>& free = free_[size];
  if (!free.empty()) {
    const size_t block = free.back();
    free.pop_back();
    return block;
  }
  const size_t block = end_;
  end_ += size;
  sizes_[block] = size;
  return block;
}

void* DeviceMemory::allocate(size_t bytes) {
  const size_t size = block_size(bytes);
  const auto wanted = static_cast<int64_t>(size);
  const std::lock_guard lock(mutex_);
  // Blocks of other sizes that are free do not count: real allocators give those back, too. The
  // range of addresses still ends.
  if (in_use_ + wanted > limit_ || (free_[size].empty() && end_ + size > size_t{kMaxBytes})) {
    raise(
        Code::ResourceExhausted,
        "[{}] {} is out of memory: {} of its {} are in use and {} more are needed; a smaller batch "
        "needs less, and COHORT_SIMULATED_GPU_MEMORY sets the limit",
        RunningOp::name(), device_, megabytes(in_use_), megabytes(limit_), megabytes(wanted));
  }
  in_use_ += wanted;
  peak_ = std::max(peak_, in_use_);
  return addresses_ + take_block(size);
}

void DeviceMemory::release(void* address) {
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(address) - addresses_);
  const std::lock_guard lock(mutex_);
  const size_t size = sizes_.at(offset);
  in_use_ -= static_cast<int64_t>(size);
  free_[size].push_back(offset);
}

bool DeviceMemory::contains(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  return at >= addresses_ && at < addresses_ + kMaxBytes;
}

std::byte* DeviceMemory::on_host(const void* address) const {
  if (address == nullptr) return nullptr;
  return bytes_ + (static_cast<const std::byte*>(address) - addresses_);
}

DeviceMemory::Use DeviceMemory::use() const {
  const std::lock_guard lock(mutex_);
  return {.limit = limit_, .in_use = in_use_, .peak = peak_};
}

}  // namespace cohort::internal
