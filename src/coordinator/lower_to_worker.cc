#include "coordinator/lower_to_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/raise.h"
#include "cohort/ops.h"
#include "coordinator/group_updates.h"
#include "coordinator/idempotent_rewriter.h"
#include "coordinator/per_worker_data.h"
#include "coordinator/session_graph.h"
#include "graph/serialize_graph.h"
#include "ops/all_ops.h"
#include "ops/variable_ops.h"
#include "tensor/devices.h"

namespace cohort::internal {
namespace {

// A function of the handles of a table's shards and of ids that returns the rows of the ids.
std::shared_ptr<const GraphFunction> lookup_function(const Specs& shards, const Spec& ids) {
  Specs arguments(shards.size(), Spec{kResource, Shape{}});
  arguments.push_back(ids);
  return trace("lookup", arguments, [&](std::span<const Tensor> given) {
    const Unique wanted = unique(given.back());
    std::vector<int64_t> begins{0};
    for (const Spec& shard : shards) begins.push_back(begins.back() + shard.shape[0]);
    std::vector<Tensor> rows, positions;
    for (size_t k = 0; k < shards.size(); ++k) {
      const VariableHandle handle{given[k], "", shards[k].dtype, shards[k].shape};
      if (shards.size() == 1) {
        return std::vector{gather(read_rows(handle, wanted.values), wanted.inverse, 0)};
      }
      const RowsInRange own = rows_of_part(wanted.values, begins, k);
      rows.push_back(read_rows(handle, own.rows));
      positions.push_back(own.positions);
    }
    const Tensor place = gather(argsort(concat(positions, 0)), wanted.inverse, 0);
    return std::vector{gather(concat(rows, 0), place, 0)};
  });
}

// Copies one function into a graph.
class Copy {
 public:
  Copy(const GraphFunction& function, const Destination& destination)
      : function_(function),
        body_(*function.body),
        to_(destination),
        ids_(static_cast<size_t>(body_.size()), -1),
        devices_(static_cast<size_t>(body_.size())) {
    if (to_.call_id) rewriter_.emplace(to_.graph, to_.container);
  }

  LoweredFunction run(std::span<const Tensor> arguments) {
    bind_arguments(arguments);
    copy_all();
    for (const NodeOutput result : function_.results) made_.fetches.push_back(at(result));
    std::vector<int> effects;
    for (const int id : function_.effects) effects.push_back(ids_[static_cast<size_t>(id)]);
    made_.fetches.push_back(add_completion(to_.graph, effects, to_.home));
    return std::move(made_);
  }

 private:
  void bind_arguments(std::span<const Tensor> arguments) {
    for (size_t i = 0; i < function_.arguments.size(); ++i) {
      const bool own = i < arguments.size();
      const Tensor& given = own ? arguments[i] : function_.captured[i - arguments.size()];
      if (given.dtype() == kResource) {
        bind_state(function_.arguments[i], given);
      } else {
        bind_value(function_.arguments[i], i);
      }
    }
  }

  void bind_value(NodeOutput argument, size_t number) {
    const Node& node = body_.node(argument.node);
    const std::optional<KeptPlace> kept = to_.kept ? to_.kept(number) : std::nullopt;
    const Spec fed = kept ? Spec{kInt64, Shape{}} : node.outputs[0];
    const NodeOutput feed = add_placeholder(to_.graph, name_of(node), fed, to_.home);
    made_.feeds.push_back(feed);
    if (!kept) {
      places_[argument] = feed;
      return;
    }
    places_[argument] = {add_node(to_.graph, "KeptResult", kKeptResult, {feed},
                                  {{"container", to_.container},
                                   {"output", static_cast<int64_t>(kept->output)},
                                   {"dtype", node.outputs[0].dtype},
                                   {"shape", node.outputs[0].shape}},
                                  kept->device)};
  }

  void bind_state(NodeOutput argument, const Tensor& given) {
    const std::shared_ptr<Resource>& shared = resource_of(given);
    const Resource* resource = shared.get();
    if (const auto* cell = dynamic_cast<const RemoteCell*>(resource)) {
      places_[argument] =
          add_variable_handle(to_.graph, to_.container, cell->name(), cell->device());
      device_of_handle_[argument] = cell->device();
    } else if (const auto* gathering = dynamic_cast<const RemoteAccumulator*>(resource)) {
      places_[argument] = add_accumulator_handle(to_.graph, to_.container, *gathering);
      device_of_handle_[argument] = gathering->device();
    } else if (const auto own = std::dynamic_pointer_cast<const WorkerCell>(shared)) {
      bind_own_state(argument, to_.bind_variable(own));
    } else {
      bind_own_state(argument,
                     to_.bind_iterator(std::dynamic_pointer_cast<const ElementSource>(shared)));
    }
    state_.insert(places_[argument]);
  }

  void bind_own_state(NodeOutput argument, NodeOutput handle) {
    places_[argument] = handle;
    device_of_handle_[argument] = to_.home;
    own_state_.insert(handle);
  }

  void copy_all() {
    const std::vector<bool> needed = find_needed();
    for (int id = 0; id < body_.size(); ++id) {
      if (needed[static_cast<size_t>(id)] && body_.node(id).op != &kArgument) copy(id);
    }
  }

  // The nodes that results and effects need. The read of a table whose rows are looked up is not
  // needed: while a run holds the whole table, every change would copy it.
  std::vector<bool> find_needed() const {
    std::vector<bool> needed(static_cast<size_t>(body_.size()));
    for (const NodeOutput result : function_.results) needed[size_t(result.node)] = true;
    for (const int effect : function_.effects) needed[static_cast<size_t>(effect)] = true;
    for (int id = body_.size(); id-- > 0;) {
      const Node& node = body_.node(id);
      if (!needed[static_cast<size_t>(id)]) continue;
      const size_t first = lookup_in(node).empty() ? 0 : 1;
      for (size_t i = first; i < node.inputs.size(); ++i) {
        needed[static_cast<size_t>(node.inputs[i].node)] = true;
      }
    }
    return needed;
  }

  void copy(int id) {
    const Node& node = body_.node(id);
    if (const std::vector<int> reads = lookup_in(node); !reads.empty()) return look_up(id, reads);
    const DeviceName device = device_for(node);
    std::vector<NodeOutput> inputs;
    for (const NodeOutput input : node.inputs) inputs.push_back(at(input));
    std::vector<int> controls;
    for (const int before : node.controls) add_control(before, controls);
    if (node.op->is_stateful()) controls.insert(controls.end(), first_.begin(), first_.end());
    Node made{.name = to_.graph.unique_name(name_of(node)),
              .op = node.op,
              .attrs = node.attrs,
              .inputs = std::move(inputs),
              .controls = std::move(controls),
              .device = device,
              .outputs = node.outputs,
              .site = node.site};
    if (rewriter_) {
      const NodeOutput call_id = uses_own_state(made) ? *to_.own_call_id : *to_.call_id;
      made = rewriter_->rewrite(std::move(made), state_, call_id);
    }
    ids_[static_cast<size_t>(id)] = to_.graph.add(std::move(made));
    if (node.op->is_stateful()) stateful_.push_back(ids_[static_cast<size_t>(id)]);
    devices_[static_cast<size_t>(id)] = device;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].dtype == kResource) device_of_handle_[{id, static_cast<int>(i)}] = device;
    }
  }

  bool uses_own_state(const Node& node) const {
    return std::ranges::any_of(node.inputs,
                               [&](const NodeOutput each) { return own_state_.contains(each); });
  }

  DeviceName device_for(const Node& node) const {
    std::optional<DeviceName> bound;
    for (const NodeOutput input : node.inputs) {
      if (!body_.is_handle(input)) continue;
      const DeviceName& device = device_of_handle_.at(input);
      if (bound && *bound != device) raise_two_places(node, *bound, device);
      bound = device;
    }
    if (bound) return *bound;
    for (const std::string& name : node.colocated_with) {
      const int neighbour = body_.find(name);
      if (neighbour >= 0 && ids_[static_cast<size_t>(neighbour)] >= 0) {
        return devices_[static_cast<size_t>(neighbour)];
      }
    }
    return moved(node.device);
  }

  // If the node takes rows of a variable on another task: the reads of the variable, or of its
  // shards in order. Empty for other nodes.
  std::vector<int> lookup_in(const Node& node) const {
    if (node.op != &kGather || node.attrs.integer("axis") != 0) return {};
    const int source = node.inputs[0].node;
    std::vector<int> reads{source};
    if (body_.node(source).op == &kConcat && body_.node(source).attrs.integer("axis") == 0) {
      reads.clear();
      for (const NodeOutput part : body_.node(source).inputs) reads.push_back(part.node);
    }
    const auto is_far_read = [&](int id) {
      const Node& read = body_.node(id);
      return read.op == &kReadVariable && is_numeric(read.outputs[0].dtype) &&
             read.outputs[0].shape.is_fully_known() && is_far(read.inputs[0]);
    };
    return std::ranges::all_of(reads, is_far_read) ? reads : std::vector<int>();
  }

  bool is_far(NodeOutput handle) const {
    const auto found = device_of_handle_.find(handle);
    return found != device_of_handle_.end() && !found->second.same_task(to_.home);
  }

  // Sends each id once to the task that has the variable; only the rows of the ids come back.
  void look_up(int id, const std::vector<int>& reads) {
    const Node& node = body_.node(id);
    Specs shards;
    std::vector<Bound> bound;
    std::vector<int> before;
    for (const int read : reads) {
      const Node& shard = body_.node(read);
      shards.push_back(shard.outputs[0]);
      bound.push_back({at(shard.inputs[0]), device_of_handle_.at(shard.inputs[0])});
      for (const int control : shard.controls) add_control(control, before);
    }
    bound.push_back({at(node.inputs[1]), std::nullopt});
    const auto function = lookup_function(shards, body_.spec(node.inputs[1]));
    Copy inner(*function, to_);
    places_[{id, 0}] = inner.run_inside(bound, std::move(before));
    for (const int read : reads) {
      std::vector<int>& also = with_read_[read];
      also.insert(also.end(), inner.stateful_.begin(), inner.stateful_.end());
    }
    devices_[static_cast<size_t>(id)] = to_.home;
  }

  // The output in the target graph that an argument stands for, and the device of a handle.
  struct Bound {
    NodeOutput node_output;
    std::optional<DeviceName> device;
  };

  // Copies the function as a part of another function, after the nodes `before`. Returns its
  // result.
  NodeOutput run_inside(const std::vector<Bound>& arguments, std::vector<int> before) {
    first_ = std::move(before);
    for (size_t i = 0; i < arguments.size(); ++i) {
      places_[function_.arguments[i]] = arguments[i].node_output;
      if (arguments[i].device) device_of_handle_[function_.arguments[i]] = *arguments[i].device;
    }
    copy_all();
    return at(function_.results[0]);
  }

  // Adds the nodes that stand for node `id` of the body, which must run before another node.
  void add_control(int id, std::vector<int>& controls) const {
    const int made = ids_[static_cast<size_t>(id)];
    if (made >= 0) controls.push_back(made);
    const auto also = with_read_.find(id);
    if (also != with_read_.end()) {
      controls.insert(controls.end(), also->second.begin(), also->second.end());
    }
  }

  // A device of this process becomes the device of the same number on the other task.
  DeviceName moved(const DeviceName& asked) const {
    if (!is_local(asked)) return asked;
    DeviceName device = to_.home;
    if (asked.type) device.type = asked.type;
    if (asked.index) device.index = asked.index;
    return device;
  }

  [[noreturn]] void raise_two_places(const Node& node, const DeviceName& a,
                                     const DeviceName& b) const {
    raise(Code::InvalidArgument,
          "[Coordinator] operation '{}' of function '{}' uses state on {} and on {}, which one "
          "operation cannot; keep variables that are used inside one cond() or while_loop() "
          "together with colocate_vars_with()",
          node.name, function_.name, a.to_string(), b.to_string());
  }

  std::string name_of(const Node& node) const {
    const std::string name = fmt::format("{}/{}", function_.name, node.name);
    return is_node_name(name) ? name : "function/" + node.name;
  }

  NodeOutput at(NodeOutput node_output) const {
    const auto found = places_.find(node_output);
    if (found != places_.end()) return found->second;
    return {ids_[static_cast<size_t>(node_output.node)], node_output.output};
  }

  const GraphFunction& function_;
  const GraphImpl& body_;
  const Destination& to_;
  std::vector<int> ids_;                               // of copied nodes; -1 for other nodes
  std::vector<DeviceName> devices_;                    // of copied nodes
  std::map<NodeOutput, NodeOutput> places_;            // of arguments
  std::map<NodeOutput, DeviceName> device_of_handle_;  // by output of the body
  std::set<NodeOutput> state_;                         // handles, in the target graph
  std::set<NodeOutput> own_state_;                     // handles of the task's own state
  std::map<int, std::vector<int>> with_read_;          // nodes that read rows in place of a read
  std::vector<int> first_;                             // run before all nodes with effects
  std::vector<int> stateful_;                          // made so far
  std::optional<IdempotentRewriter> rewriter_;         // where calls may be repeated
  LoweredFunction made_;
};

// Throws FailedPrecondition unless workers reach the state behind the handle.
void check_state(const GraphFunction& function, const Tensor& handle) {
  const Resource* resource = resource_of(handle).get();
  if (dynamic_cast<const RemoteCell*>(resource) != nullptr) return;
  if (dynamic_cast<const WorkerCell*>(resource) != nullptr) return;
  if (dynamic_cast<const RemoteAccumulator*>(resource) != nullptr) return;
  if (dynamic_cast<const PerWorkerSource*>(resource) != nullptr) return;
  if (const auto* cell = dynamic_cast<const VariableCell*>(resource)) {
    raise(Code::FailedPrecondition,
          "[Coordinator] function '{}' uses variable '{}' of this process, which workers do not "
          "reach; make it inside strategy.scope()",
          function.name, cell->name());
  }
  // A worker could make an iterator over the same dataset. But then each worker would read all of
  // the data from the beginning, wherever the iterator of this process is.
  const auto* source = dynamic_cast<const ElementSource*>(resource);
  if (source != nullptr || dynamic_cast<const ElementSourceMaker*>(resource) != nullptr) {
    raise(Code::FailedPrecondition,
          "[Coordinator] function '{}' uses {} of this process, whose elements workers do not "
          "reach; pass an iterator of create_per_worker_dataset() as an argument",
          function.name,
          source != nullptr ? fmt::format("iterator '{}'", source->name()) : "a dataset");
  }
  raise(Code::FailedPrecondition,
        "[Coordinator] function '{}' uses state of this process that workers do not reach",
        function.name);
}

void check_captured(const GraphFunction& function) {
  for (const Tensor& captured : function.captured) {
    if (captured.is_symbolic()) {
      raise(Code::FailedPrecondition,
            "[Coordinator] function '{}' uses a tensor of the graph or function around it, which "
            "workers do not have; pass it as an argument",
            function.name);
    }
    check_state(function, captured);
  }
}

}  // namespace

LoweredFunction lower_to_worker(const GraphFunction& function, std::span<const Tensor> arguments,
                                const Destination& destination) {
  return Copy(function, destination).run(arguments);
}

void check_arguments(const GraphFunction& function, std::span<const Tensor> arguments) {
  for (const Tensor& argument : arguments) {
    if (!argument.is_symbolic() && argument.dtype() == kResource) check_state(function, argument);
  }
}

// Lowers and serializes the function into a graph that never runs, because both refuse what cannot
// be sent.
void check_serializable(const GraphFunction& function, std::span<const Tensor> arguments) {
  check_captured(function);
  const auto graph = std::make_shared<GraphImpl>();
  const DeviceName home = DeviceName::parse("/job:worker/replica:0/task:0/device:CPU:0");
  lower_to_worker(function, arguments,
                  {.graph = *graph,
                   .home = home,
                   .container = "",
                   .bind_iterator =
                       [&](const std::shared_ptr<const ElementSource>& source) {
                         return add_iterator_handle(
                             *graph, {"", source->name(), source->describe_dataset()}, home);
                       },
                   .bind_variable =
                       [&](const std::shared_ptr<const WorkerCell>& cell) {
                         return add_variable_handle(*graph, "", cell->unique_name(), home);
                       }});
  (void)serialize_graph(*graph);
}

}  // namespace cohort::internal
