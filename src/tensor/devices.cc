#include "tensor/devices.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "base/raise.h"
#include "base/scope_stack.h"
#include "tensor/device_guard.h"
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

// CPU:0, which is there from the beginning.
const Device& first_device() {
  static const Device& first = device_table().devices.front();
  return first;
}

// One open scope: a pattern, a function, or (with neither) the end of the walk.
struct ScopeEntry {
  std::optional<DeviceName> name = std::nullopt;
  DeviceFunction function = nullptr;
};

struct ThreadScopes {
  ScopeStack<ScopeEntry> entries{"Device"};
  const Device* resolved = nullptr;  // what they mean here; looked up when first needed
};

ThreadScopes& thread_scopes() {
  thread_local ThreadScopes scopes;
  return scopes;
}

uint64_t push(ScopeEntry entry) {
  ThreadScopes& scopes = thread_scopes();
  scopes.resolved = nullptr;
  return scopes.entries.open(std::move(entry));
}

// The walk, innermost first; `ask` answers for a function.
template <typename Ask>
DeviceName walk_scopes(const Ask& ask) {
  const ScopeStack<ScopeEntry>& entries = thread_scopes().entries;
  DeviceName found;
  for (size_t i = entries.size(); i-- > 0;) {
    const ScopeEntry& entry = entries[i];
    if (entry.name) {
      found = found.filled_from(*entry.name);
    } else if (entry.function) {
      found = ask(entry.function, found);
    } else {
      break;
    }
  }
  return found;
}

// What the scopes ask for when an operation runs at once: functions are for graphs.
DeviceName requested_now() {
  return walk_scopes([](const DeviceFunction&, const DeviceName& found) { return found; });
}

}  // namespace

namespace {

// Null when this process has no such device.
const Device* try_find_device(std::string_view name) {
  const std::string full = canonical_device(name);
  DeviceTable& table = device_table();
  const std::lock_guard lock(table.mutex);
  for (const Device& device : table.devices) {
    if (device.full_name == full) return &device;
  }
  return nullptr;
}

}  // namespace

const Device& find_device(std::string_view name) {
  if (const Device* found = try_find_device(name)) return *found;
  raise(Code::InvalidArgument, "[Device] this process has no device '{}'; it has {}",
        canonical_device(name), fmt::join(list_devices(), ", "));
}

void ensure_cpu_devices(int count) {
  DeviceTable& table = device_table();
  const std::lock_guard lock(table.mutex);
  for (int i = static_cast<int>(table.devices.size()); i < count; ++i) {
    table.devices.push_back(DeviceTable::make(fmt::format("CPU:{}", i)));
  }
}

DeviceName requested_device(const std::string& node_name, std::string_view op) {
  return walk_scopes([&](const DeviceFunction& function, const DeviceName& found) {
    return DeviceName::parse_any_form(function({node_name, std::string(op), found.to_string()}));
  });
}

size_t device_scope_depth() { return thread_scopes().entries.size(); }

const Device& current_device() {
  ThreadScopes& scopes = thread_scopes();
  if (scopes.resolved == nullptr) {
    scopes.resolved =
        scopes.entries.empty() ? &first_device() : &find_device(requested_now().to_string());
  }
  return *scopes.resolved;
}

const Device& value_device() {
  ThreadScopes& scopes = thread_scopes();
  if (scopes.resolved != nullptr || scopes.entries.empty()) return current_device();
  const Device* found = try_find_device(requested_now().to_string());
  return found != nullptr ? *(scopes.resolved = found) : first_device();
}

DeviceGuard::DeviceGuard(const Device& device)
    : before_(thread_scopes().resolved),
      depth_(device_scope_depth()),
      ticket_(push({.name = device.name})) {
  thread_scopes().resolved = &device;
}

DeviceGuard::~DeviceGuard() {
  ThreadScopes& scopes = thread_scopes();
  scopes.entries.leave(ticket_);
  scopes.resolved = scopes.entries.size() == depth_ ? before_ : nullptr;
}

}  // namespace internal

std::vector<std::string> list_devices() {
  internal::DeviceTable& table = internal::device_table();
  const std::lock_guard lock(table.mutex);
  std::vector<std::string> names;
  for (const internal::Device& device : table.devices) names.push_back(device.full_name);
  return names;
}

DeviceScope::DeviceScope(std::string_view name)
    : ticket_(internal::push({.name = DeviceName::parse_any_form(name)})) {}

DeviceScope::DeviceScope(DeviceFunction function)
    : ticket_(internal::push({.function = std::move(function)})) {}

DeviceScope::DeviceScope(std::nullptr_t) : ticket_(internal::push({})) {}

DeviceScope::~DeviceScope() {
  internal::ThreadScopes& scopes = internal::thread_scopes();
  scopes.entries.leave(ticket_);
  scopes.resolved = nullptr;
}

void DeviceScope::close() {
  internal::ThreadScopes& scopes = internal::thread_scopes();
  scopes.entries.close(ticket_);
  scopes.resolved = nullptr;
}

}  // namespace cohort
