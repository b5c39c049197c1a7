#include "cluster/placement.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {
namespace {

// Whether every task has such a device for certain.
bool is_presumed(const DeviceName& request) {
  return !request.type || (*request.type == "CPU" && request.index.value_or(0) == 0);
}

std::vector<DeviceName> parse_all(const std::vector<std::string>& names) {
  std::vector<DeviceName> parsed;
  for (const std::string& name : names) parsed.push_back(DeviceName::parse(name));
  return parsed;
}

// The devices of a task under its name in the session, which may differ from its own name.
std::vector<DeviceName> devices_of(const std::string& task, const std::vector<std::string>& names) {
  const DeviceName known = DeviceName::parse(task);
  std::vector<DeviceName> devices = parse_all(names);
  for (DeviceName& device : devices) {
    device.job = known.job;
    device.replica = known.replica;
    device.task = known.task;
  }
  return devices;
}

}  // namespace

ClusterPlacement::ClusterPlacement(const TaskDirectory& directory, const SessionOptions& options,
                                   const std::vector<std::string>& local_devices)
    : directory_(directory), options_(options), filters_(parse_all(options.device_filters)) {
  for (const std::string& task : task_names(directory.cluster())) {
    if (!is_allowed(task)) continue;
    allowed_.push_back(task);
    devices_[task] = {DeviceName::parse(task + "/device:CPU:0")};
  }
  devices_[directory.self()] = devices_of(directory.self(), local_devices);
  asked_[directory.self()] = true;
}

bool ClusterPlacement::is_allowed(const std::string& task) const {
  if (filters_.empty() || task == directory_.self()) return true;
  const DeviceName name = DeviceName::parse(task);
  return std::ranges::any_of(
      filters_, [&](const DeviceName& filter) { return task_part(filter).matches(name); });
}

// Those that a node names together with a device that not every task has.
std::vector<std::string> ClusterPlacement::tasks_to_ask(const GraphImpl& graph) const {
  std::vector<std::string> tasks;
  for (int id = static_cast<int>(placed_.size()); id < graph.size(); ++id) {
    const DeviceName& wanted = graph.node(id).device;
    if (is_presumed(wanted) || (!wanted.job && !wanted.task)) continue;
    const DeviceName pattern = task_part(wanted);
    for (const std::string& task : allowed_) {
      if (asked_.contains(task) || !pattern.matches(DeviceName::parse(task))) continue;
      if (std::ranges::find(tasks, task) == tasks.end()) tasks.push_back(task);
    }
  }
  return tasks;
}

void ClusterPlacement::ask(const std::vector<std::string>& tasks, const Gathering& gathering) {
  std::vector<std::vector<DeviceName>> found(tasks.size());
  with_tasks(directory_, tasks, gathering, [&](size_t i, const Link::Pointer& link) {
    const Answer answer = link->call(encode(GetDevices{}), gathering.deadline);
    found[i] = devices_of(tasks[i], answer.texts);
  });
  for (size_t i = 0; i < tasks.size(); ++i) {
    devices_[tasks[i]] = std::move(found[i]);
    asked_[tasks[i]] = true;
  }
}

std::vector<std::string> ClusterPlacement::place(const GraphImpl& graph,
                                                 const Gathering& gathering) {
  if (const auto tasks = tasks_to_ask(graph); !tasks.empty()) ask(tasks, gathering);
  PlacementOptions options{
      .devices = {},
      .home = devices_.at(directory_.self()).front(),
      .allow_soft_placement = options_.allow_soft_placement,
      .hint = fmt::format("the session may use the tasks {}", fmt::join(allowed_, ", "))};
  for (const auto& [task, devices] : devices_) {
    options.devices.insert(options.devices.end(), devices.begin(), devices.end());
  }
  return place_new_nodes(graph, placed_, options, options_.log_device_placement);
}

std::vector<std::string> ClusterPlacement::list_devices(const Gathering& gathering) {
  std::vector<std::string> tasks;
  for (const std::string& task : allowed_) {
    if (!asked_.contains(task)) tasks.push_back(task);
  }
  if (!tasks.empty()) ask(tasks, gathering);
  std::vector<std::string> names;
  for (const auto& [task, devices] : devices_) {
    for (const DeviceName& device : devices) names.push_back(device.to_string());
  }
  return names;
}

}  // namespace cohort::internal
