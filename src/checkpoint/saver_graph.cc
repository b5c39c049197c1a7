#include "checkpoint/saver_graph.h"

#include <set>

#include "base/raise.h"
#include "base/site_scope.h"
#include "cohort/ops.h"
#include "cohort/sharded_variable.h"
#include "ops/all_ops.h"
#include "ops/op.h"

namespace cohort {
namespace internal {
namespace {

SaverItem whole_item(const std::string& name, const std::shared_ptr<VariableImpl>& variable) {
  return {variable, {.name = name, .dtype = variable->first_copy().dtype}};
}

SaverItem part_item(const SavedPart& part) {
  SaverItem item = whole_item(part.name, VariableAccess::impl(part.variable));
  item.saved.part = {part.full_shape, {part.offset, item.variable->first_copy().shape}};
  return item;
}

// One, or the parts of a variable whose rows are spread over several.
void add_items(std::vector<SaverItem>& items, const std::string& name,
               const std::shared_ptr<VariableImpl>& variable) {
  const Variable handle = VariableAccess::make(variable);
  if (!ShardedVariable::is_sharded(handle)) {
    items.push_back(whole_item(name, variable));
    return;
  }
  const ShardedVariable table(handle);
  std::vector<int64_t> offset(static_cast<size_t>(table.shape().rank()), 0);
  for (const Variable& shard : table) {
    items.push_back(part_item({name, shard, table.shape(), offset}));
    offset[0] += shard.shape()[0];
  }
}

void check_graphs_own(const std::vector<SaverItem>& items) {
  for (const SaverItem& item : items) {
    const Tensor& handle = item.variable->first_copy().handle;
    if (!handle.is_symbolic()) {
      raise(Code::InvalidArgument,
            "[Saver] variable '{}' does not belong to a graph; save it with a Checkpoint",
            item.variable->name());
    }
    if (graph_of(handle) != graph_of(items[0].variable->first_copy().handle)) {
      raise(
          Code::InvalidArgument,
          "[Saver] variables '{}' and '{}' belong to different graphs; make a Saver for each graph",
          items[0].variable->name(), item.variable->name());
    }
  }
}

// Whether the parts cover their tensor without overlapping.
bool make_up_a_tensor(const std::vector<const SaveItem*>& items) {
  std::vector<Extent> extents;
  for (const SaveItem* item : items) {
    const auto& first = items[0]->part;
    const bool fits = item->part && first && item->part->full_shape == first->full_shape &&
                      item->dtype == items[0]->dtype && item->dtype != kString &&
                      first->full_shape.is_fully_known() &&
                      item->part->extent.shape.is_fully_known() &&
                      lies_in(item->part->extent, first->full_shape);
    if (!fits) return false;
    extents.push_back(item->part->extent);
  }
  return tile(extents, items[0]->part->full_shape);
}

void check_names(const std::vector<SaverItem>& items) {
  std::map<std::string, std::vector<const SaveItem*>> by_name;
  for (const SaverItem& item : items) by_name[item.saved.name].push_back(&item.saved);
  for (const auto& [name, same] : by_name) {
    const bool whole = same.size() == 1 && !same[0]->part;
    if (whole || make_up_a_tensor(same)) continue;
    raise(Code::InvalidArgument,
          "[Saver] {} variables have the name '{}' in the checkpoint, but are not the parts of one "
          "tensor; give each variable its own name",
          same.size(), name);
  }
}

// The CPU of the variable's task that saves the variable: its own device where that is a CPU.
std::string shard_device(const std::string& variable_device) {
  DeviceName device = DeviceName::parse(variable_device);
  if (device.type != "CPU" || !device.index) device.index = 0;
  device.type = "CPU";
  return device.to_string();
}

// What makes `value` the variable's when it is run: the nodes with effects that restore() adds.
Tensor restore_node(VariableImpl& variable, const Tensor& value) {
  const std::shared_ptr<GraphImpl> graph = graph_of(value);
  const int before = graph->size();
  variable.restore(value);
  std::vector<Tensor> effects;
  for (int id = before; id < graph->size(); ++id) {
    const Node& node = graph->node(id);
    if (node.op->is_stateful() && !node.outputs.empty() && node.outputs[0].dtype != kResource) {
      effects.push_back(graph->symbol({id, 0}));
    }
  }
  return group(effects);
}

}  // namespace

SaverGraph::SaverGraph(std::vector<SaverItem> given, const SaverOptions& options, Site site)
    : items(std::move(given)) {
  if (items.empty()) {
    raise(Code::InvalidArgument,
          "[Saver] there are no variables to save; make the variables before the Saver");
  }
  check_graphs_own(items);
  check_names(items);
  const SiteScope there(site);
  const Graph::Scope building(graph_of(items[0].variable->first_copy().handle));
  const DeviceScope anywhere(nullptr);
  const NameScope outside("");
  const NameScope inside("save");
  for (const SaverItem& item : items) values.push_back(item.variable->value_across());
  for (const SaverItem& item : items) {
    const VariableHandle& copy = item.variable->first_copy();
    restored.push_back(placeholder(copy.dtype, copy.shape, "restored"));
    restores.push_back(restore_node(*item.variable, restored.back()));
  }
  add_shards(options.shard_devices);
}

void SaverGraph::add_shards(const std::vector<std::string>& devices_to_read) {
  std::map<std::string, std::vector<size_t>> by_device;
  for (size_t i = 0; i < items.size(); ++i) {
    by_device[shard_device(items[i].variable->device())].push_back(i);
  }
  for (auto& [device, indices] : by_device) {
    shards.push_back({.device = device, .items = std::move(indices)});
  }
  num_writers = shards.size();
  for (const std::string& device : devices_to_read) {
    shards.push_back({.device = shard_device(DeviceName::parse_any_form(device).to_string())});
  }
  const std::string slot = graph_of(values[0])->unique_name("save/held");
  for (size_t i = 0; i < shards.size(); ++i) {
    const DeviceScope there(shards[i].device);
    add_shard_nodes(shards[i], fmt::format("{}_{}", slot, i));
  }
  for (Shard& shard : shards) {
    std::vector<Tensor> assignments;
    for (size_t i = 0; i < shard.loaded.size(); ++i) {
      assignments.push_back(restore_node(*items[shard.items[i]].variable, shard.loaded[i]));
    }
    if (!assignments.empty()) shard.restore = group(assignments);
  }
}

void SaverGraph::add_shard_nodes(Shard& shard, const std::string& slot) {
  shard.path = placeholder(kString, Shape{}, "path");
  shard.read_request = placeholder(kInt64, Shape{4}, "read_request");
  shard.read_bytes = apply(kReadShard, {shard.path, shard.read_request});
  shard.removed_paths = placeholder(kString, Shape{-1}, "removed_paths");
  shard.removed = apply(kRemoveShards, {shard.removed_paths});
  if (shard.items.empty()) return;
  add_load_nodes(shard);
  std::vector<Tensor> its_values;
  std::vector<std::string> keys;
  for (const size_t index : shard.items) {
    its_values.push_back(values[index]);
    keys.push_back(items[index].saved.key());
  }
  shard.hold = apply(kHoldTensors, its_values, {{"slot", slot}}, {});
  const Colocation together(shard.hold);
  shard.report = apply(kWriteShard, {shard.path, Tensor::from(std::move(keys))}, {{"slot", slot}});
}

void SaverGraph::add_load_nodes(Shard& shard) {
  Specs specs;
  for (const size_t index : shard.items) {
    const VariableHandle& copy = items[index].variable->first_copy();
    if (!copy.shape.is_fully_known()) return;
    specs.push_back({copy.dtype, copy.shape});
  }
  shard.load_request = placeholder(kInt64, Shape{-1}, "load_request");
  shard.loaded = apply_many(kLoadShard, std::vector{shard.path, shard.load_request},
                            {{"components", pack_specs(specs)}}, {});
}

std::vector<SaveItem> SaverGraph::items_of(const Shard& shard) const {
  std::vector<SaveItem> result;
  for (const size_t index : shard.items) result.push_back(items[index].saved);
  return result;
}

bool SaverGraph::Shard::wrote(const SavedFile& file) const {
  const auto writer = DeviceName::try_parse(file.device);
  return writer && DeviceName::parse(canonical_device(device)).same_task(*writer);
}

std::vector<SaverItem> items_of(const SaverVariables& variables, std::span<const SavedPart> parts) {
  std::vector<SaverItem> items;
  std::set<const VariableImpl*> added;
  for (const auto& [name, variable] : variables.items()) {
    const std::shared_ptr<VariableImpl>& impl = VariableAccess::impl(variable);
    const std::shared_ptr<VariableImpl> whole = impl->whole.lock();
    const std::shared_ptr<VariableImpl>& saved = whole ? whole : impl;
    const bool fresh = added.insert(saved.get()).second;
    if (fresh || !whole) add_items(items, whole ? whole->name() : name, saved);
  }
  for (const SavedPart& part : parts) items.push_back(part_item(part));
  return items;
}

}  // namespace internal

SaverVariables::SaverVariables(const std::vector<Variable>& variables) {
  for (const Variable& variable : variables) items_.push_back({variable.name(), variable});
}

SaverVariables::SaverVariables(const std::map<std::string, Variable>& variables) {
  for (const auto& [name, variable] : variables) items_.push_back({name, variable});
}

}  // namespace cohort
