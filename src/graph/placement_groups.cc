#include "graph/placement_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "base/log.h"
#include "base/raise.h"

namespace cohort::internal {
namespace {

struct TypeEntry {
  std::string_view name;
  uint8_t bit;
  int priority;
};
constexpr std::array<TypeEntry, 2> kTypes{{{"GPU", 1, 210}, {"CPU", 2, 60}}};
constexpr DeviceTypes kEveryType{3};
constexpr DeviceTypes kHostOnly{2};

bool is_resource(const Spec& spec) { return spec.dtype == kResource; }
bool is_string(const Spec& spec) { return spec.dtype == kString; }

// Whether handles begin here: a node that passes on a handle that it got produces nothing.
bool produces_resource(const GraphImpl& graph, const Node& node) {
  return std::ranges::any_of(node.outputs, is_resource) &&
         std::ranges::none_of(node.inputs,
                              [&](NodeOutput input) { return graph.is_handle(input); });
}

template <typename Part>
bool differ(const std::optional<Part>& a, const std::optional<Part>& b) {
  return a && b && *a != *b;
}

// The first part ("job", "device type"...) in which two requests for one place clash; empty when
// they can be merged. merge_requests throws for the same reason.
std::string_view clashing_part(const DeviceName& a, const DeviceName& b, Placement placement) {
  if (differ(a.job, b.job)) return "job";
  if (differ(a.replica, b.replica)) return "replica";
  if (differ(a.task, b.task)) return "task";
  if (placement == Placement::Soft) return {};
  if (differ(a.type, b.type)) return "device type";
  return differ(a.index, b.index) ? "device index" : std::string_view{};
}

}  // namespace

bool DeviceTypes::has(std::string_view type) const {
  return std::ranges::any_of(kTypes, [&](const TypeEntry& entry) {
    return entry.name == type && (bits & entry.bit) != 0;
  });
}

std::string DeviceTypes::to_string() const {
  std::string text;
  for (const TypeEntry& entry : kTypes) {
    if ((bits & entry.bit) == 0) continue;
    if (!text.empty()) text += ", ";
    text += entry.name;
  }
  return text;
}

int device_priority(std::string_view type) {
  for (const TypeEntry& entry : kTypes) {
    if (entry.name == type) return entry.priority;
  }
  return 0;
}

DeviceTypes supported_types(const GraphImpl& graph, const Node& node) {
  if (node.op->traits.has(Trait::HostOnly)) return kHostOnly;
  const bool strings = std::ranges::any_of(node.outputs, is_string) ||
                       std::ranges::any_of(node.inputs, [&](NodeOutput input) {
                         return is_string(graph.spec(input));
                       });
  return strings ? kHostOnly : kEveryType;
}

void PlacementGroup::hear(const DeviceName& more, Placement placement) {
  any_type |= differ(request.type, more.type);
  any_index |= any_type || differ(request.index, more.index);
  request = merge_requests(request, more, placement);
  if (any_type) request.type.reset();
  if (any_index) request.index.reset();
}

PlacementGroups::PlacementGroups(const GraphImpl& graph, int first,
                                 const std::vector<DeviceName>& placed, Placement placement)
    : graph_(graph),
      first_(first),
      size_(graph.size()),
      placed_(placed),
      placement_(placement),
      parents_(static_cast<size_t>(size_)),
      groups_(static_cast<size_t>(size_)),
      heard_(static_cast<size_t>(size_)) {
  std::iota(parents_.begin(), parents_.end(), 0);
  for (int id = 0; id < size_; ++id) {
    PlacementGroup& own = groups_[static_cast<size_t>(id)];
    own.types = supported_types(graph, graph.node(id));
    if (id >= first) continue;
    own.request = placed[static_cast<size_t>(id)];
    own.assigned = id;
    heard_[static_cast<size_t>(id)] = true;
  }
  join_resource_edges();
  merge_producers();
  merge_consumers();
  join_colocated();
}

int PlacementGroups::root(int id) {
  while (parents_[static_cast<size_t>(id)] != id) {
    int& parent = parents_[static_cast<size_t>(id)];
    parent = parents_[static_cast<size_t>(parent)];
    id = parent;
  }
  return id;
}

void PlacementGroups::join(int a, int b, DeviceName request) {
  int to = root(a);
  int from = root(b);
  if (of(to).size < of(from).size) std::swap(to, from);
  PlacementGroup& kept = group(to);
  const PlacementGroup& gone = of(from);
  kept.request = std::move(request);
  kept.types.bits &= gone.types.bits;
  kept.size += gone.size;
  if (kept.assigned < 0) kept.assigned = gone.assigned;
  parents_[static_cast<size_t>(from)] = to;
}

// Only nodes that are placed already have a request at this time.
void PlacementGroups::join_resource_edges() {
  for (int id = first_; id < size_; ++id) {
    for (const NodeOutput input : graph_.node(id).inputs) {
      if (!graph_.is_handle(input) || root(id) == root(input.node)) continue;
      const PlacementGroup& a = of(id);
      const PlacementGroup& b = of(input.node);
      if (!clash(a, b).empty()) raise_clash(a.assigned, b.assigned, "handles of both go to one op");
      join(id, input.node, a.request.filled_from(b.request));
    }
  }
}

void PlacementGroups::merge_producers() {
  for (int id = first_; id < size_; ++id) {
    if (!produces_resource(graph_, graph_.node(id))) continue;
    // A resource that exists may have lost its type to soft placement, so a new one may as well.
    add_request(id, of(id).assigned < 0 ? Placement::Hard : placement_);
  }
  for (int id = first_; id < size_; ++id) {
    if (of(id).size > 1 && of(id).request != DeviceName{})
      strong_.emplace(root(id), of(id).request);
  }
}

void PlacementGroups::merge_consumers() {
  for (int id = first_; id < size_; ++id) {
    const Node& node = graph_.node(id);
    if (node.device == DeviceName{} || produces_resource(graph_, node)) continue;
    const auto strong = of(id).size > 1 ? strong_.find(root(id)) : strong_.end();
    if (strong == strong_.end() ||
        clashing_part(strong->second, node.device, Placement::Hard).empty()) {
      add_request(id, placement_);
    } else if (log_enabled(LogLevel::Debug)) {
      log_debug("[Placer] {} follows the resource that it uses, which is on '{}'", describe(id),
                strong->second.to_string());
    }
  }
}

void PlacementGroups::add_request(int id, Placement placement) {
  PlacementGroup& own = group(id);
  const DeviceName request = own_request(graph_, id);
  if (!clashing_part(own.request, request, placement).empty()) {
    raise_clash(culprit(id, request), id, "they use one resource");
  }
  own.hear(request, placement);
  heard_[static_cast<size_t>(id)] = true;
}

void PlacementGroups::join_colocated() {
  std::vector<std::pair<int, int>> pairs;
  for (int id = first_; id < size_; ++id) {
    for (const std::string& name : graph_.node(id).colocated_with) {
      const int other = graph_.find(name);
      if (other < 0 || other >= size_) {
        raise(Code::InvalidArgument,
              "[Placement] node {} must be placed with node '{}', which is not in the graph",
              describe(id), name);
      }
      pairs.emplace_back(id, other);
    }
  }
  // Where not all can be had, which are must not depend on the order of the nodes.
  if (placement_ == Placement::Soft) {
    const auto names = [&](const std::pair<int, int>& pair) {
      return std::tie(graph_.node(pair.first).name, graph_.node(pair.second).name);
    };
    std::ranges::sort(pairs, [&](const auto& a, const auto& b) { return names(a) < names(b); });
  }
  for (const auto& [id, other] : pairs) colocate(id, other);
}

void PlacementGroups::colocate(int id, int other) {
  if (root(id) == root(other)) return;
  const std::string_view part = clash(of(id), of(other));
  if (part.empty()) {
    PlacementGroup merged = of(id);
    merged.any_type |= of(other).any_type;
    merged.any_index |= of(other).any_index;
    merged.hear(of(other).request, placement_);
    join(id, other, merged.request);
    group(id).any_type = merged.any_type;
    group(id).any_index = merged.any_index;
    return;
  }
  if (placement_ == Placement::Hard) {
    const int a = culprit(id, of(other).request);
    raise_clash(a, culprit(other, asked(a)), "colocation was asked for");
  }
  log_warning("[Placer] node {} is not placed with {}: the {} differs", describe(id),
              describe(other), part);
}

std::string_view PlacementGroups::clash(const PlacementGroup& a, const PlacementGroup& b) const {
  const bool both_assigned = a.assigned >= 0 && b.assigned >= 0;
  if (!both_assigned) return clashing_part(a.request, b.request, placement_);
  return clashing_part(asked(a.assigned), asked(b.assigned), Placement::Hard);
}

DeviceName PlacementGroups::asked(int id) const {
  return id < first_ ? placed_[static_cast<size_t>(id)] : own_request(graph_, id);
}

std::vector<int> PlacementGroups::members(int id) {
  std::vector<int> found;
  for (int other = 0; other < size_; ++other) {
    if (root(other) == root(id)) found.push_back(other);
  }
  return found;
}

int PlacementGroups::culprit(int id, const DeviceName& request) {
  int found = id;
  for (const int member : members(id)) {
    if (!heard_[static_cast<size_t>(member)]) continue;
    if (!clashing_part(asked(member), request, placement_).empty()) return member;
    if (!clashing_part(asked(member), request, Placement::Hard).empty()) found = member;
  }
  return found;
}

void PlacementGroups::raise_clash(int a, int b, std::string_view reason) {
  raise(Code::InvalidArgument,
        "[Placement] nodes {} and {} must be on one device because {}, but the {} differs",
        describe(a), describe(b), reason, clashing_part(asked(a), asked(b), Placement::Hard));
}

std::string PlacementGroups::describe(int id) const {
  const Node& node = graph_.node(id);
  std::string text = fmt::format("'{}' ({}", node.name, node.op->name);
  if (id < first_) {
    text += fmt::format(", placed on '{}'", asked(id).to_string());
  } else if (asked(id) != DeviceName{}) {
    text += fmt::format(", asks for '{}'", asked(id).to_string());
  } else {
    text += ", asks for no device";
  }
  if (node.site.line > 0) text += fmt::format(", made at {}:{}", node.site.file, node.site.line);
  return text + ")";
}

}  // namespace cohort::internal
