#include "runtime/compiled_run.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "base/raise.h"
#include "graph/fold_constants.h"
#include "graph/function_graph.h"
#include "ops/all_ops.h"

namespace cohort::internal {

namespace {

bool is_variable_read(const Node& node) { return node.op == &kReadVariable; }
bool is_constant(const Node& node) { return node.op == &kConst; }
// A node that waits for other nodes says by its value that they have run.
bool is_settled(const Node& node) {
  return node.controls.empty() && (is_constant(node) || node.op == &kVariableHandle);
}

// Makes one plan, for one call of compile().
class Compiler {
 public:
  Compiler(std::shared_ptr<const GraphImpl> graph, const RunRequest& request, StepOrder order)
      : graph_(std::move(graph)),
        request_(request),
        order_(order),
        needed_(needed_nodes(*graph_, request)),
        waiting_for_(static_cast<size_t>(graph_->size())),
        first_slots_(waiting_for_.size(), -1) {}

  std::shared_ptr<const Plan> compile() {
    plan_->graph = graph_;
    for (const NodeOutput feed : request_.feeds) plan_->feed_slots.push_back(feed_slot(feed));
    add_steps(ordered());
    for (const NodeOutput fetch : request_.fetches) plan_->fetch_slots.push_back(slot_of(fetch));
    mark_last_uses();
    return std::move(plan_);
  }

 private:
  bool is_fed(NodeOutput node_output) const { return !fed_.empty() && fed_.contains(node_output); }

  // Node numbers in the order of running: always the ready node that ranks first.
  std::vector<int> ordered() {
    count_predecessors();
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (const int id : needed_) {
      if (waiting_for_[static_cast<size_t>(id)] == 0) ready.push(rank(id));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int id = ready.top().second;
      ready.pop();
      order.push_back(id);
      for (size_t i = first_edges_[static_cast<size_t>(id)];
           i < first_edges_[static_cast<size_t>(id) + 1]; ++i) {
        const int next = followers_[i];
        if (--waiting_for_[static_cast<size_t>(next)] == 0) ready.push(rank(next));
      }
    }
    if (order.size() != needed_.size()) {
      raise(Code::InvalidArgument, "[Graph] node '{}' waits for itself: the graph has a cycle",
            first_waiting());
    }
    return order;
  }

  using Ready = std::pair<int, int>;  // class, then age
  Ready rank(int id) const {
    if (order_ == StepOrder::AsMade) return {1, id};
    const Node& node = graph_->node(id);
    // What costs nothing must not hold back the effects that wait for it.
    const bool early = node.op->is_stateful() || is_constant(node);
    return {early ? 0 : 1, id};
  }

  void count_predecessors() {
    for (const int id : needed_) {
      const Node& node = graph_->node(id);
      for (const NodeOutput input : node.inputs) {
        if (!is_fed(input)) precede(input.node, id);
      }
      for (const int before : node.controls) precede(before, id);
    }
    if (order_ == StepOrder::EffectsEarly) hold_back_writers();
    group_edges();
  }

  void precede(int before, int after) {
    edges_.emplace_back(before, after);
    ++waiting_for_[static_cast<size_t>(after)];
  }

  // Puts the successors of each node side by side.
  void group_edges() {
    first_edges_.assign(waiting_for_.size() + 1, 0);
    for (const auto& [before, after] : edges_) ++first_edges_[static_cast<size_t>(before) + 1];
    std::partial_sum(first_edges_.begin(), first_edges_.end(), first_edges_.begin());
    followers_.resize(edges_.size());
    std::vector<size_t> next = first_edges_;
    for (const auto& [before, after] : edges_)
      followers_[next[static_cast<size_t>(before)]++] = after;
  }

  // A variable that is written while a step still holds the value read from it must be copied. So a
  // writer that comes after a read also comes after the users of what was read.
  void hold_back_writers() {
    std::unordered_map<int, std::vector<int>> users;  // of each read
    for (const int id : needed_) {
      for (const NodeOutput input : graph_->node(id).inputs) {
        if (is_variable_read(graph_->node(input.node))) users[input.node].push_back(id);
      }
    }
    for (const int id : needed_) {
      const Node& writer = graph_->node(id);
      if (!writer.op->is_stateful() || is_variable_read(writer)) continue;
      for (const int before : writer.controls) {
        for (const int user : users[before]) {
          if (user < id) precede(user, id);
        }
      }
    }
  }

  std::string first_waiting() const {
    for (const int id : needed_) {
      if (waiting_for_[static_cast<size_t>(id)] > 0) return graph_->node(id).name;
    }
    return {};
  }

  int feed_slot(NodeOutput node_output) {
    const auto [entry, fresh] = fed_.emplace(node_output, plan_->num_slots);
    if (fresh) ++plan_->num_slots;
    return entry->second;
  }

  // A fed output keeps the fed value; what its step makes goes to a slot that no step reads.
  int slot_of(NodeOutput node_output) const {
    if (is_fed(node_output)) return fed_.at(node_output);
    return first_slots_[static_cast<size_t>(node_output.node)] + node_output.output;
  }

  void add_steps(std::vector<int> order) {
    const auto rest = std::stable_partition(order.begin(), order.end(),
                                            [&](int id) { return is_settled(graph_->node(id)); });
    plan_->first_settled_slot = plan_->num_slots;
    for (auto id = order.begin(); id != rest; ++id) add_step(*id);
    plan_->num_settled = plan_->steps.size();
    plan_->num_settled_slots = plan_->num_slots - plan_->first_settled_slot;
    for (auto id = rest; id != order.end(); ++id) add_step(*id);
  }

  void add_step(int id) {
    const Node& node = graph_->node(id);
    const int count = static_cast<int>(node.outputs.size());
    Plan::Step step{.op = node.op,
                    .node = &node,
                    .first_input = static_cast<int>(plan_->input_slots.size()),
                    .num_inputs = static_cast<int>(node.inputs.size()),
                    .first_output = plan_->num_slots,
                    .num_outputs = count};
    for (const NodeOutput input : node.inputs) {
      plan_->input_slots.push_back(slot_of(input));
      const Spec& spec = graph_->spec(input);
      step.check_inputs |= spec.dtype != kResource && !spec.shape.is_fully_known();
    }
    if (node.op == &kRecv) step.arrives_by = node.attrs.integer("edge");
    if (node.op == &kSend) step.leaves_by = node.attrs.integer("edge");
    first_slots_[static_cast<size_t>(id)] = plan_->num_slots;
    plan_->num_slots += count;
    plan_->steps.push_back(step);
  }

  void mark_last_uses() {
    std::vector<bool> used(static_cast<size_t>(plan_->num_slots));
    for (const int slot : plan_->fetch_slots) used[static_cast<size_t>(slot)] = true;
    for (size_t i = plan_->steps.size(); i-- > 0;) {
      Plan::Step& step = plan_->steps[i];
      step.first_unused = static_cast<int>(plan_->unused_outputs.size());
      for (int output = 0; output < step.num_outputs; ++output) {
        const int slot = step.first_output + output;
        if (!used[static_cast<size_t>(slot)]) plan_->unused_outputs.push_back(slot);
      }
      step.num_unused = static_cast<int>(plan_->unused_outputs.size()) - step.first_unused;
      // From the back: of an input that a step takes twice, the second time is the last use.
      for (int input = step.num_inputs; input-- > 0;) {
        auto in_use = used[static_cast<size_t>(
            plan_->input_slots[static_cast<size_t>(step.first_input + input)])];
        if (!in_use && input < 32) step.last_uses |= 1u << input;
        in_use = true;
      }
    }
  }

  const std::shared_ptr<const GraphImpl> graph_;
  const RunRequest& request_;
  const StepOrder order_;
  const std::vector<int> needed_;
  std::vector<int> waiting_for_;            // by node: how many must still run before
  std::vector<std::pair<int, int>> edges_;  // (before, after)
  std::vector<int> followers_;              // successors, those of one node side by side
  std::vector<size_t> first_edges_;         // by node: where its own begin in followers_
  std::map<NodeOutput, int> fed_;           // slots of what is fed
  std::vector<int> first_slots_;            // by node: the slot of its first output
  std::shared_ptr<Plan> plan_ = std::make_shared<Plan>();
};

// The cut numbers edges from 0 on, and each has one Recv.
size_t count_edges(const std::vector<Partition>& parts) {
  size_t count = 0;
  for (const Partition& part : parts) {
    for (int id = 0; id < part.graph->size(); ++id) count += part.graph->node(id).op == &kRecv;
  }
  return count;
}

}  // namespace

std::shared_ptr<const Plan> compile(std::shared_ptr<const GraphImpl> graph,
                                    const RunRequest& request, StepOrder order) {
  return Compiler(std::move(graph), request, order).compile();
}

CompiledRun::Part& CompiledRun::add(const Partition& part, const Device& device, StepOrder order) {
  for (int id = 0; id < part.graph->size(); ++id) {
    if (part.graph->node(id).op == &kRecv) note_arrival(part.graph->node(id));
  }
  may_wait |= has_trait(*part.graph, Trait::MayWait);
  Part& made = parts.emplace_back();
  made.device = &device;
  made.device_name = part.device.to_string();
  RunRequest local{.targets = part.targets};
  for (const auto& [position, node_output] : part.feeds) {
    made.feeds.push_back(position);
    local.feeds.push_back(node_output);
  }
  for (const auto& [position, node_output] : part.fetches) {
    made.fetches.push_back(position);
    local.fetches.push_back(node_output);
  }
  const FoldedGraph folded = fold(part.graph, local);
  made.plan = compile(folded.graph, folded.request, order);
  return made;
}

void CompiledRun::note_arrival(const Node& node) {
  const int64_t edge = node.attrs.integer("edge");
  if (edge < 0 || static_cast<size_t>(edge) >= arrival_places.size() ||
      arrival_places[static_cast<size_t>(edge)] != kNone) {
    raise(Code::InvalidArgument,
          "[Graph] node '{}' takes the tensor of edge {}, but the edge does not exist or another "
          "node takes its tensor",
          node.name, edge);
  }
  arrival_places[static_cast<size_t>(edge)] = static_cast<int>(arrivals.size());
  arrivals.push_back({.part = parts.size(),
                      .dtype = node.outputs[0].dtype,
                      .shape = node.outputs[0].shape,
                      .tensor = node.attrs.get<std::string>("tensor"),
                      .sender = node.attrs.get<std::string>("sender")});
}

bool CompiledRun::is_quick() const {
  // A few times what it takes to wake another thread.
  constexpr int64_t kQuickNs = 300'000;
  const int64_t cost = cost_ns.load(std::memory_order_relaxed);
  return !may_wait && cost >= 0 && cost < kQuickNs;
}

std::shared_ptr<CompiledRun> compile_parts(const GraphImpl& graph,
                                           const std::vector<DeviceName>& devices,
                                           const RunRequest& request) {
  auto run = std::make_shared<CompiledRun>();
  run->num_fetches = request.fetches.size();
  const std::vector<Partition> parts = partition(graph, devices, request);
  run->arrival_places.assign(count_edges(parts), CompiledRun::kNone);
  const StepOrder order = parts.size() == 1 ? StepOrder::EffectsEarly : StepOrder::AsMade;
  for (const Partition& part : parts) {
    run->add(part, find_device(part.device.to_string()), order).settled =
        std::make_shared<SettledValues>();
  }
  return run;
}

}  // namespace cohort::internal
