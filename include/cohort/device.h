#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/internal/thread_scope.h"

namespace cohort {

// DeviceName is the name of a device, /job:worker/replica:0/task:1/device:CPU:0, or a pattern of
// such names. Every part may be missing. A missing part of a pattern matches anything.
//
//   DeviceName pattern = DeviceName::parse("/job:worker/device:GPU:*");
//   DeviceName gpu = DeviceName::parse("/job:worker/replica:0/task:1/device:GPU:0");
//   bool fits = pattern.matches(gpu);  // true
struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  // "CPU", "GPU"
  std::optional<int> index;

  // Reads "/" or "/job:J/replica:R/task:T/device:TYPE:INDEX" with optional parts in any order and
  // "*" for a missing value. Also reads the short forms "/cpu:0" and "/gpu:0", and upper-cases
  // their type; the long form keeps the type as written. An empty text is the pattern without
  // parts. Throws InvalidArgument, quoting the text, if the text is not a device name.
  static DeviceName parse(std::string_view text);
  static std::optional<DeviceName> try_parse(std::string_view text);
  // Does the same, also for names without the slash ("gpu:2", "CPU"), and upper-cases the type.
  static DeviceName parse_any_form(std::string_view text);
  // Reads a name inside one task: "CPU:0".
  static DeviceName parse_local(std::string_view text);

  // Returns the parts in the order job, replica, task, device; a type without index is "TYPE:*".
  std::string to_string() const;
  bool is_full() const { return job && replica && task && type && index; }

  // Returns whether `device` agrees with every part that is set here.
  bool matches(const DeviceName& device) const;
  // Returns whether both names have the same job, replica and task, with all three set.
  bool same_task(const DeviceName& other) const;
  // Returns this name with missing parts taken from `outer`, as nested device scopes combine.
  DeviceName filled_from(const DeviceName& outer) const;
  // Returns ("/job:J/replica:R/task:T", "TYPE:INDEX"). Throws InvalidArgument if type or index is
  // missing.
  std::pair<std::string, std::string> split() const;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

std::ostream& operator<<(std::ostream& out, const DeviceName& name);

// Whether a device type or index that cannot be provided is an error (Hard) or dropped (Soft).
enum class Placement { Hard, Soft };

// Combines two requests for one place. Throws InvalidArgument, naming the part and both requests,
// if their job, replica or task differ. If their type or index differs, Hard placement throws too;
// Soft placement drops the index and, if the types differ, the type.
DeviceName merge_requests(const DeviceName& a, const DeviceName& b, Placement placement);

// Returns the full name of `device`, with upper-case type. Missing parts come from `defaults`, then
// from /job:localhost/replica:0/task:0/device:CPU:0. Both may also be local names ("gpu:2").
std::string canonical_device(std::string_view device, std::string_view defaults = "");

// Returns the devices of this process: CPUs, CPU:0 first, then GPUs. CPU devices are logical: they
// share the cores evenly. GPUs are simulated (cohort/simulated_gpus.h).
std::vector<std::string> list_devices();

// Makes CPU:0 to CPU:(count - 1) devices of this process, which share its cores; strategies and
// device() then find them. Devices are never removed. Throws InvalidArgument if count < 1.
void make_cpu_devices(int count);
// Returns the full name of the device that operations of this thread run on. Throws InvalidArgument
// if the open scopes request a device that this process does not have.
std::string current_device();

// DeviceRequest describes a node that is being added to a graph, for a device function.
struct DeviceRequest {
  std::string name;    // of the node
  std::string op;      // "MatMul"
  std::string device;  // requested by the scopes inside the function's scope
};
// DeviceFunction returns the device of a node. It usually fills in only what `device` leaves open.
using DeviceFunction = std::function<std::string(const DeviceRequest&)>;

// DeviceScope sends the operations of this thread to a device while the scope exists:
//
//   const DeviceScope on_cpu = device("CPU:0");
//   Tensor product = matmul(x, y);
//
// Scopes nest. The device is found from the innermost scope to the outermost: a name fills in what
// is still open, a function (in graphs only) replaces what was found, and nullptr ends the search.
// Scopes end in reverse order: close() throws FailedPrecondition, and leaves the scope open, if a
// scope that was opened later is still open.
class [[nodiscard]] DeviceScope : public internal::ThreadScope {
 public:
  explicit DeviceScope(std::string_view name);
  explicit DeviceScope(DeviceFunction function);
  explicit DeviceScope(std::nullptr_t);
};

// Opens a DeviceScope. If this process does not have the device, the first operation that should
// run there throws and lists the existing devices. In a graph any name is fine: the device is
// looked up when the graph runs.
inline DeviceScope device(std::string_view name) { return DeviceScope(name); }
inline DeviceScope device(const char* name) { return DeviceScope(std::string_view(name)); }
inline DeviceScope device(DeviceFunction function) { return DeviceScope(std::move(function)); }
inline DeviceScope device(std::nullptr_t) { return DeviceScope(nullptr); }

}  // namespace cohort
