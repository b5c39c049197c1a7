#include "tensor/devices.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "base/raise.h"
#include "tensor/kernel_library.h"

namespace cohort {
namespace internal {
namespace {

// The machine's devices: a fact about the process, so there is one table. Entries never move.
struct DeviceTable {
  DeviceTable() { set_up_kernel_library(); }

  std::mutex mutex;
  std::deque<Device> devices{make("CPU:0")};

  static Device make(std::string_view local_name) {
    const std::string full = canonical_device(local_name);
    return {DeviceName::parse(full), full};
  }
};

DeviceTable& device_table() {
  static DeviceTable table;
  return table;
}

struct ThreadScopes {
  std::vector<DeviceName> merged;    // what each open scope and those outside it say together
  const Device* resolved = nullptr;  // for the innermost; looked up when first needed
};

ThreadScopes& thread_scopes() {
  thread_local ThreadScopes scopes;
  return scopes;
}

}  // namespace

const Device& find_device(std::string_view name) {
  const std::string full = canonical_device(name);
  DeviceTable& table = device_table();
  {
    const std::lock_guard lock(table.mutex);
    for (const Device& device : table.devices) {
      if (device.full_name == full) return device;
    }
  }
  raise(Code::InvalidArgument, "[Device] this process has no device '{}'; it has {}", full,
        fmt::join(list_devices(), ", "));
}

void ensure_cpu_devices(int count) {
  DeviceTable& table = device_table();
  const std::lock_guard lock(table.mutex);
  for (int i = static_cast<int>(table.devices.size()); i < count; ++i) {
    table.devices.push_back(DeviceTable::make(fmt::format("CPU:{}", i)));
  }
}

DeviceName requested_device() {
  const ThreadScopes& scopes = thread_scopes();
  return scopes.merged.empty() ? DeviceName{} : scopes.merged.back();
}

const Device& current_device() {
  ThreadScopes& scopes = thread_scopes();
  if (scopes.resolved == nullptr) scopes.resolved = &find_device(requested_device().to_string());
  return *scopes.resolved;
}

}  // namespace internal

std::vector<std::string> list_devices() {
  internal::DeviceTable& table = internal::device_table();
  const std::lock_guard lock(table.mutex);
  std::vector<std::string> names;
  for (const internal::Device& device : table.devices) names.push_back(device.full_name);
  return names;
}

DeviceScope::DeviceScope(std::string_view name) {
  internal::ThreadScopes& scopes = internal::thread_scopes();
  const DeviceName inner = DeviceName::parse_any_form(name);
  scopes.merged.push_back(inner.filled_from(internal::requested_device()));
  scopes.resolved = nullptr;
  depth_ = scopes.merged.size();
}

DeviceScope::~DeviceScope() {
  internal::ThreadScopes& scopes = internal::thread_scopes();
  // Smaller already when an outer scope ended before this one.
  scopes.merged.resize(std::min(scopes.merged.size(), depth_ - 1));
  scopes.resolved = nullptr;
}

}  // namespace cohort
