#include "tensor/devices.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>

#include "base/mutex.h"
#include "base/raise.h"
#include "base/text.h"
#include "base/thread_context.h"
#include "simulated/gpus.h"
#include "tensor/kernel_library.h"

namespace cohort {
namespace internal {
namespace {

// The machine's devices: a fact about the process, so there is one table. Entries never move.
struct DeviceTable {
  DeviceTable() {
    set_up_kernel_library();
    const SimulatedGpuRequest asked = requested_gpus();
    add_gpus(asked.count, asked.memory_bytes);
  }

  Mutex mutex;
  std::deque<Device> cpus{make("CPU:0", {})};
  std::deque<Device> gpus;

  // Both are called under the mutex, or by the constructor.
  void add_cpus(int count) {
    for (int i = static_cast<int>(cpus.size()); i < count; ++i) {
      cpus.push_back(make(fmt::format("CPU:{}", i), {}));
    }
  }
  void add_gpus(int count, int64_t memory_bytes) {
    ensure_simulated_gpus(count, memory_bytes);
    for (int i = static_cast<int>(gpus.size()); i < count; ++i) {
      gpus.push_back(make(fmt::format("GPU:{}", i), {.gpu = static_cast<int8_t>(i)}));
      gpu_count.store(i + 1);
    }
  }

  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const std::deque<Device>* const kind : {&cpus, &gpus}) {
      for (const Device& device : *kind) visit(device);
    }
  }

 private:
  static Device make(std::string_view local_name, Place place) {
    const std::string full = canonical_device(local_name);
    return {DeviceName::parse(full), full, place};
  }
};

DeviceTable& device_table() {
  static DeviceTable table;
  return table;
}

// CPU:0, which is there from the beginning.
const Device& first_device() {
  static const Device& first = device_table().cpus.front();
  return first;
}

// Null when no local device has that full name.
const Device* find_full_name(std::string_view name) {
  DeviceTable& table = device_table();
  const std::lock_guard lock(table.mutex);
  const Device* found = nullptr;
  table.for_each([&](const Device& device) {
    if (device.full_name == name) found = &device;
  });
  return found;
}

// The name that one with an unusual type may mean: CPU:0 for CPU0, GPU:0 for cuda:0.
std::optional<std::string> likely_name(const DeviceName& name) {
  const std::string& type = name.type.value();
  const size_t stem = type.find_last_not_of("0123456789") + 1;
  const std::string word = type.substr(0, stem);
  const std::string usual = word == "CUDA" ? "GPU" : word;
  if (usual == type || (usual != "CPU" && usual != "GPU")) return std::nullopt;
  const std::optional<int> index = parse_non_negative(type.substr(stem));
  return fmt::format("{}:{}", usual, index.value_or(name.index.value()));
}

// How to get a GPU with that number, for errors.
std::string gpu_remedy(int index) {
  if (index >= kMaxSimulatedGpus) {
    return fmt::format("; at most {} GPUs can be simulated", kMaxSimulatedGpus);
  }
  return fmt::format(
      "; to rehearse with simulated GPUs, set COHORT_SIMULATED_GPUS={0} or start the program with "
      "cohort run --simulate-gpus {0}",
      index + 1);
}

// How to get a device that is not here, for errors.
std::string remedy_for(const DeviceName& name) {
  if (!is_local(name)) return "";
  const bool is_gpu = likely_name(name).value_or(name.type.value()).starts_with("GPU");
  if (is_gpu) return gpu_remedy(name.index.value_or(0));
  return "; CPU:N is made by a strategy that names it, or by make_cpu_devices()";
}

// One open scope: a pattern, a function, or (with neither) the end of the walk.
struct ScopeEntry {
  std::optional<DeviceName> name = std::nullopt;
  DeviceFunction function = nullptr;
  // The device that this scope and those around it mean; looked up when first needed. It stays
  // while scopes open and close inside this one: a lookup takes longer than a small operation.
  const Device* resolved = nullptr;
};

struct Scopes : ScopeStack<ScopeEntry> {
  Scopes() : ScopeStack("Device") {}
};

Scopes& thread_scopes() {
  static constinit ContextSlot<Scopes> slot;
  return slot.get();
}

ScopeEntry entry_of(const Device& device) { return {.name = device.name, .resolved = &device}; }

// A full name of a local device says all, so that outer scopes add nothing to it.
ScopeEntry entry_named(std::string_view name) {
  const Device* const device = find_full_name(name);
  if (device != nullptr) return entry_of(*device);
  return {.name = DeviceName::parse_any_form(name)};
}

// When a scope closes early, the scopes that stay open inside it get another meaning.
void forget_inside(size_t place) {
  Scopes& scopes = thread_scopes();
  for (size_t i = place; i < scopes.size(); ++i) scopes[i].resolved = nullptr;
}

void leave(uint64_t ticket) {
  Scopes& scopes = thread_scopes();
  const size_t place = scopes.find(ticket);
  scopes.leave(ticket);
  forget_inside(place);
}

// The walk, innermost first; `ask` answers for a function.
template <typename Ask>
DeviceName walk_scopes(const Ask& ask) {
  const Scopes& entries = thread_scopes();
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

std::atomic<int> gpu_count = 0;

const Device& find_device(std::string_view name) {
  const std::string full = canonical_device(name);
  if (const Device* const device = find_full_name(full)) return *device;
  raise_no_device("Device", full, full);
}

void raise_no_device(std::string_view operation, std::string_view written,
                     std::string_view full_name) {
  const DeviceName name = DeviceName::parse(full_name);
  const std::optional<std::string> likely = likely_name(name);
  const bool is_whole = canonical_device(written) == full_name;
  raise(Code::InvalidArgument, "[{}] this process has no device '{}'{}{}; it has {}{}", operation,
        written, is_whole ? "" : fmt::format(", here '{}'", full_name),
        likely ? fmt::format(" (did you mean '{}'?)", *likely) : "",
        fmt::join(list_devices(), ", "), remedy_for(name));
}

bool has_device(std::string_view full_name) { return find_full_name(full_name) != nullptr; }

void ensure_cpu_devices(int count) {
  DeviceTable& table = device_table();
  const std::lock_guard lock(table.mutex);
  table.add_cpus(count);
}

void ensure_gpu_devices(int count, int64_t memory_bytes) {
  DeviceTable& table = device_table();
  const std::lock_guard lock(table.mutex);
  table.add_gpus(count, memory_bytes);
}

const Device& device_at(Place place) {
  if (place.is_host()) return first_device();
  DeviceTable& table = device_table();
  const std::lock_guard lock(table.mutex);
  return table.gpus.at(static_cast<size_t>(place.gpu));
}

DeviceName requested_device(const std::string& node_name, std::string_view op) {
  return walk_scopes([&](const DeviceFunction& function, const DeviceName& found) {
    return DeviceName::parse_any_form(function({node_name, std::string(op), found.to_string()}));
  });
}

size_t device_scope_depth() { return thread_scopes().size(); }

const Device& current_device() {
  Scopes& scopes = thread_scopes();
  if (scopes.empty()) return first_device();
  ScopeEntry& innermost = scopes[scopes.size() - 1];
  if (innermost.resolved == nullptr) {
    innermost.resolved = &find_device(requested_now().to_string());
  }
  return *innermost.resolved;
}

const Device& value_device() {
  const Scopes& scopes = thread_scopes();
  if (scopes.empty() || scopes.innermost().resolved != nullptr) return current_device();
  const bool here = has_device(canonical_device(requested_now().to_string()));
  return here ? current_device() : first_device();
}

DeviceGuard::DeviceGuard(const Device& device) : ticket_(thread_scopes().open(entry_of(device))) {}

DeviceGuard::~DeviceGuard() { leave(ticket_); }

}  // namespace internal

std::vector<std::string> list_devices() {
  internal::DeviceTable& table = internal::device_table();
  const std::lock_guard lock(table.mutex);
  std::vector<std::string> names;
  table.for_each([&](const internal::Device& device) { names.push_back(device.full_name); });
  return names;
}

void make_cpu_devices(int count) {
  if (count < 1) {
    internal::raise(Code::InvalidArgument,
                    "[make_cpu_devices] the number of devices must be at least 1, got {}", count);
  }
  internal::ensure_cpu_devices(count);
}

std::string current_device() { return internal::current_device().full_name; }

namespace internal {
namespace {
constexpr ScopeKind kDeviceScopes = {
    .close = [](uint64_t& ticket) { thread_scopes().close(ticket); }, .leave = leave};
}  // namespace
}  // namespace internal

DeviceScope::DeviceScope(std::string_view name)
    : ThreadScope(internal::kDeviceScopes,
                  internal::thread_scopes().open(internal::entry_named(name))) {}

DeviceScope::DeviceScope(DeviceFunction function)
    : ThreadScope(internal::kDeviceScopes,
                  internal::thread_scopes().open({.function = std::move(function)})) {}

DeviceScope::DeviceScope(std::nullptr_t)
    : ThreadScope(internal::kDeviceScopes, internal::thread_scopes().open({})) {}

}  // namespace cohort
