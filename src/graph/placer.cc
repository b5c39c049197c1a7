#include "graph/placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/log.h"
#include "base/raise.h"
#include "graph/placement_groups.h"

namespace cohort::internal {
namespace {

constexpr int kNowhere = -1;
constexpr size_t kMaxListed = 50;  // a longer list is hard to read

struct PlacementDevice {
  DeviceName name;
  std::string full_name;
  bool at_home;
};

// In order of choice: the home task first, then the better type, then by name.
std::vector<PlacementDevice> in_order(const PlacementOptions& options) {
  std::vector<PlacementDevice> devices;
  for (const DeviceName& name : options.devices) {
    devices.push_back({name, name.to_string(), options.home.same_task(name)});
  }
  std::ranges::sort(devices, [](const auto& a, const auto& b) {
    const int better =
        device_priority(b.name.type.value_or("")) - device_priority(a.name.type.value_or(""));
    if (a.at_home != b.at_home) return a.at_home;
    return better != 0 ? better < 0 : a.full_name < b.full_name;
  });
  return devices;
}

std::string listed(const std::vector<std::string>& items) {
  const size_t shown = std::min(items.size(), kMaxListed);
  std::string text = fmt::format(
      "{}", fmt::join(items.begin(), items.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < items.size()) text += fmt::format(" and {} more", items.size() - shown);
  return text;
}

// Whether only the shape of the input matters, so that moving the input would be a waste.
bool looks_at_shape_only(const Node& node) { return node.op->traits.has(Trait::ShapeOnly); }

bool is_generator(const Node& node) {
  return node.inputs.empty() && node.outputs.size() == 1 && node.outputs[0].dtype != kResource;
}

// Places the nodes of one graph, for one call of place_nodes().
class Placer {
 public:
  Placer(const GraphImpl& graph, int first, const std::vector<DeviceName>& placed,
         const PlacementOptions& options)
      : graph_(graph),
        first_(first),
        size_(graph.size()),
        options_(options),
        devices_(in_order(options)),
        groups_(graph, first, placed,
                options.allow_soft_placement ? Placement::Soft : Placement::Hard),
        placed_on_(static_cast<size_t>(size_), kNowhere) {
    for (int id = 0; id < first; ++id) keep(id, placed[static_cast<size_t>(id)]);
  }

  std::vector<DeviceName> place() {
    place_where_asked();
    place_generators();
    place_the_rest();
    std::vector<DeviceName> result;
    result.reserve(static_cast<size_t>(size_ - first_));
    for (int id = first_; id < size_; ++id) {
      result.push_back(devices_[static_cast<size_t>(on(id))].name);
    }
    return result;
  }

 private:
  // The devices that a group may have: those that match its request and have the kernels.
  struct Choice {
    DeviceName pattern = {};
    int best = kNowhere;
    DeviceName request = {};  // what was asked for
    DeviceTypes types = {};
  };

  int& on(int id) { return placed_on_[static_cast<size_t>(id)]; }

  void keep(int id, const DeviceName& device) {
    if (id > 0 && devices_[static_cast<size_t>(on(id - 1))].name == device) {
      on(id) = on(id - 1);
    } else {
      const auto found =
          std::ranges::find_if(devices_, [&](const auto& entry) { return entry.name == device; });
      if (found == devices_.end()) {
        raise(Code::Internal, "[Placement] node '{}' was placed on '{}', which is not one of {}",
              graph_.node(id).name, device.to_string(), device_list());
      }
      on(id) = static_cast<int>(found - devices_.begin());
    }
    if (!supported_types(graph_, graph_.node(id)).has(device.type.value_or(""))) {
      raise(Code::Internal,
            "[Placement] node '{}' was placed on '{}', where {} has no kernel for it",
            graph_.node(id).name, device.to_string(), graph_.node(id).op->name);
    }
  }

  const Choice& choice_for(int id) {
    const PlacementGroup& group = groups_.of(id);
    // Neighbours mostly ask for the same.
    const bool as_last = last_choice_ != nullptr && last_choice_->types.bits == group.types.bits &&
                         last_choice_->request == group.request;
    if (!as_last) last_choice_ = &find_choice(id, group);
    if (last_choice_->best == kNowhere) raise_no_device(id);
    return *last_choice_;
  }

  const Choice& find_choice(int id, const PlacementGroup& group) {
    const auto [entry, fresh] =
        choices_.try_emplace(fmt::format("{}{}", group.request.to_string(), group.types.bits));
    Choice& choice = entry->second;
    if (fresh) {
      choice = choose(group.request, group.types);
      choice.request = group.request;
      choice.types = group.types;
      if (choice.best != kNowhere && choice.pattern != group.request) warn_moved(id, choice);
    }
    return choice;
  }

  Choice choose(const DeviceName& request, DeviceTypes types) const {
    const auto found = std::ranges::find_if(devices_, [&](const auto& device) {
      return request.matches(device.name) && types.has(device.name.type.value_or(""));
    });
    if (found != devices_.end()) {
      return {.pattern = request, .best = static_cast<int>(found - devices_.begin())};
    }
    const bool may_move = options_.allow_soft_placement && (request.type || request.index);
    return may_move ? choose(task_part(request), types) : Choice{.pattern = request};
  }

  bool allows(int id, int device) {
    if (device == kNowhere) return false;
    const DeviceName& name = devices_[static_cast<size_t>(device)].name;
    return choice_for(id).pattern.matches(name) && groups_.of(id).types.has(name.type.value_or(""));
  }

  // Follows `device` when that is one of the node's, else takes the first of them.
  void place_like(int id, int device) {
    on(id) = allows(id, device) ? device : choice_for(id).best;
  }

  // Places all nodes but generators and nodes that follow one by its shape: their place depends on
  // the other nodes.
  void place_where_asked() {
    for (int id = first_; id < size_; ++id) {
      const Node& node = graph_.node(id);
      const PlacementGroup& group = groups_.of(id);
      if (group.assigned >= 0) {
        on(id) = on(group.assigned);
        if (!group.types.has(devices_[static_cast<size_t>(on(id))].name.type.value_or(""))) {
          raise_no_kernel_there(id);
        }
      } else if (group.size > 1) {
        on(id) = choice_for(id).best;
      } else if (looks_at_shape_only(node) && node.inputs.size() == 1) {
        if (on(node.inputs[0].node) != kNowhere) place_like(id, on(node.inputs[0].node));
      } else if (!is_generator(node)) {
        on(id) = choice_for(id).best;
      }
    }
  }

  // A generator goes where all its consumers are, so that its value stays on one device.
  void place_generators() {
    constexpr int kUnknown = -2;
    std::vector<int> wanted_on(static_cast<size_t>(size_), kUnknown);
    for (int id = first_; id < size_; ++id) {
      if (on(id) == kNowhere) continue;
      for (const NodeOutput input : graph_.node(id).inputs) {
        int& wanted = wanted_on[static_cast<size_t>(input.node)];
        wanted = wanted == kUnknown || wanted == on(id) ? on(id) : kNowhere;
      }
    }
    for (int id = first_; id < size_; ++id) {
      if (on(id) != kNowhere || !is_generator(graph_.node(id))) continue;
      place_like(id, std::max(wanted_on[static_cast<size_t>(id)], kNowhere));
    }
  }

  // Nodes that look at the shape of a generator's value, or of one another's.
  void place_the_rest() {
    for (int id = first_; id < size_; ++id) {
      if (on(id) == kNowhere) place_like(id, on(graph_.node(id).inputs[0].node));
    }
  }

  bool any_matches(const DeviceName& request) const {
    return std::ranges::any_of(devices_,
                               [&](const auto& device) { return request.matches(device.name); });
  }

  void warn_moved(int id, const Choice& choice) {
    const DeviceName& request = groups_.of(id).request;
    const std::string& device = devices_[static_cast<size_t>(choice.best)].full_name;
    if (any_matches(request)) {
      log_warning(
          "[Placer] node {} goes to '{}': '{}' cannot run it or a node that must be with it",
          groups_.describe(id), device, request.to_string());
    } else {
      log_info("[Placer] nodes that ask for '{}' go to '{}': no device matches the request",
               request.to_string(), device);
    }
  }

  std::string device_list() const {
    std::vector<std::string> names;
    for (const PlacementDevice& device : devices_) names.push_back(device.full_name);
    std::ranges::sort(names);
    return listed(names);
  }

  std::string hint_for(const DeviceName& request) const {
    const bool job_exists = !request.job || std::ranges::any_of(devices_, [&](const auto& device) {
      return device.name.job == request.job;
    });
    return job_exists || options_.hint.empty() ? "" : "; " + options_.hint;
  }

  std::string group_list(const std::vector<int>& members) {
    std::vector<std::string> lines;
    for (const int member : members) {
      lines.push_back(fmt::format("{} has kernels on {}", groups_.describe(member),
                                  supported_types(graph_, graph_.node(member)).to_string()));
    }
    return listed(lines);
  }

  // The member to name in an error: the first that cannot be placed even alone, else the first that
  // asks for something.
  int spokesman(const std::vector<int>& members) const {
    for (const int member : members) {
      if (!any_matches(own_request(graph_, member))) return member;
    }
    const auto asks = [&](int member) { return own_request(graph_, member) != DeviceName{}; };
    const auto found = std::ranges::find_if(members, asks);
    return found == members.end() ? members[0] : *found;
  }

  [[noreturn]] void raise_no_device(int id) {
    const PlacementGroup& group = groups_.of(id);
    const std::vector<int> members = groups_.members(id);
    std::string text = "[Placement] node " + groups_.describe(spokesman(members));
    if (group.size > 1) {
      text += fmt::format(", whose group asks for '{}' together,", group.request.to_string());
    }
    if (any_matches(group.request)) {
      text +=
          fmt::format(" cannot be placed: there are kernels on {} only", group.types.to_string());
    } else {
      text += " cannot be placed: no device matches";
    }
    text += hint_for(group.request) + "; devices: " + device_list();
    if (group.size > 1) text += "; the group: " + group_list(members);
    raise(Code::InvalidArgument, "{}", text);
  }

  [[noreturn]] void raise_no_kernel_there(int id) {
    const PlacementGroup& group = groups_.of(id);
    raise(
        Code::InvalidArgument,
        "[Placement] node {} cannot be placed with {}: there are kernels on {} only; the group: {}",
        groups_.describe(id), groups_.describe(group.assigned), group.types.to_string(),
        group_list(groups_.members(id)));
  }

  const GraphImpl& graph_;
  const int first_;
  const int size_;
  const PlacementOptions& options_;
  const std::vector<PlacementDevice> devices_;
  PlacementGroups groups_;
  std::vector<int> placed_on_;                       // index into devices_, or kNowhere
  std::unordered_map<std::string, Choice> choices_;  // by request and types
  const Choice* last_choice_ = nullptr;
};

}  // namespace

std::vector<DeviceName> place_nodes(const GraphImpl& graph, int first,
                                    const std::vector<DeviceName>& placed,
                                    const PlacementOptions& options) {
  if (first >= graph.size()) return {};
  if (options.devices.empty()) {
    raise(Code::FailedPrecondition, "[Placement] the list of devices for {} nodes is empty",
          graph.size() - first);
  }
  if (placed.size() < static_cast<size_t>(first)) {
    raise(Code::Internal, "[Placement] {} nodes must have a device already, but only {} have one",
          first, placed.size());
  }
  return Placer(graph, first, placed, options).place();
}

std::vector<std::string> place_new_nodes(const GraphImpl& graph, std::vector<DeviceName>& placed,
                                         const PlacementOptions& options, bool lines_wanted) {
  const int first = static_cast<int>(placed.size());
  std::vector<std::string> lines;
  for (const DeviceName& device : place_nodes(graph, first, placed, options)) {
    const Node& node = graph.node(static_cast<int>(placed.size()));
    placed.push_back(device);
    if (!lines_wanted) continue;
    lines.push_back(fmt::format("{}: ({}): {}", node.name, node.op->name, device.to_string()));
  }
  return lines;
}

}  // namespace cohort::internal
