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

namespace cohort {

// The name of a device, or a pattern for such names: /job:worker/replica:0/task:1/device:CPU:0.
// Every part may be missing; a missing part of a pattern matches anything.
struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  // "CPU", "GPU"
  std::optional<int> index;

  // Reads "/", "/job:J/replica:R/task:T/device:TYPE:INDEX" with the parts in any order and each
  // optional, "*" for a missing value, and the short forms "/cpu:0" and "/gpu:0" (which upper-case
  // the type; the long form keeps it as written). The empty text is the pattern without parts.
  // Throws InvalidArgument quoting the text.
  static DeviceName parse(std::string_view text);
  static std::optional<DeviceName> try_parse(std::string_view text);
  // As parse, but also reads names without the slash ("gpu:2", "CPU"), and upper-cases the type.
  static DeviceName parse_any_form(std::string_view text);
  // Reads a name inside one task: "CPU:0".
  static DeviceName parse_local(std::string_view text);

  // Parts in the order job, replica, task, device; a type without index as "TYPE:*".
  std::string to_string() const;
  bool is_full() const { return job && replica && task && type && index; }

  // Whether `device` agrees with every part that is set here.
  bool matches(const DeviceName& device) const;
  // Whether both name job, replica and task, and the same ones.
  bool same_task(const DeviceName& other) const;
  // This name with its missing parts taken from `outer`: how an inner device scope meets an outer.
  DeviceName filled_from(const DeviceName& outer) const;
  // ("/job:J/replica:R/task:T", "TYPE:INDEX"). Throws InvalidArgument without type and index.
  std::pair<std::string, std::string> split() const;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

std::ostream& operator<<(std::ostream& out, const DeviceName& name);

// Whether a request for a device type or index may be dropped when it cannot be honoured.
enum class Placement { Hard, Soft };

// What two requests for one place say together. A clash of job, replica or task throws
// InvalidArgument naming the part and both requests; so does a clash of type or index under Hard
// placement, while Soft drops the index (and, when types clash, the type too).
DeviceName merge_requests(const DeviceName& a, const DeviceName& b, Placement placement);

// The full name of `device`, with missing parts from `defaults`, then from
// /job:localhost/replica:0/task:0/device:CPU:0. Both may also be local names ("gpu:2"). Types are
// upper-cased.
std::string canonical_device(std::string_view device, std::string_view defaults = "");

// The devices of this process, CPU:0 first. Each CPU device is a logical device: all CPU devices
// share the cores evenly.
std::vector<std::string> list_devices();

// Makes CPU:0 to CPU:(count - 1) devices of this process, which share its cores; strategies and
// device() then find them. Devices are never taken away. Throws InvalidArgument for less than 1.
void make_cpu_devices(int count);
// The full name of the device that operations of this thread run on. Throws InvalidArgument when
// the open scopes ask for a device that this process does not have.
std::string current_device();

// A node that is being added to a graph, as a device function sees it.
struct DeviceRequest {
  std::string name;    // of the node
  std::string op;      // "MatMul"
  std::string device;  // what the scopes inside the function's ask for
};
// Says where the node goes instead. A polite one fills in what `device` leaves open.
using DeviceFunction = std::function<std::string(const DeviceRequest&)>;

// While it lives, what this thread does goes to the device it was made for. Scopes nest: the walk
// goes from the innermost to the outermost, a name filling in what is still open, a function
// (graphs only) replacing what there is, and nullptr ending the walk. They end in reverse order.
class [[nodiscard]] DeviceScope {
 public:
  explicit DeviceScope(std::string_view name);
  explicit DeviceScope(DeviceFunction function);
  explicit DeviceScope(std::nullptr_t);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  // Throws FailedPrecondition, and leaves the scope open, while one that was opened later is open.
  void close();

 private:
  uint64_t ticket_;
};

// auto on = device("CPU:0"); a name that this process does not have is an error of the first
// operation that is to run there, which lists the devices there are. In a graph any name is fine:
// who runs the graph looks for the device.
inline DeviceScope device(std::string_view name) { return DeviceScope(name); }
inline DeviceScope device(const char* name) { return DeviceScope(std::string_view(name)); }
inline DeviceScope device(DeviceFunction function) { return DeviceScope(std::move(function)); }
inline DeviceScope device(std::nullptr_t) { return DeviceScope(nullptr); }

}  // namespace cohort
