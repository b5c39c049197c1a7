#include "cluster/master_plan.h"

#include <algorithm>
#include <map>

#include "cluster/buffers.h"
#include "cluster/task_names.h"
#include "graph/function_graph.h"
#include "graph/serialize.h"
#include "ops/all_ops.h"

namespace cohort::internal {
namespace {

bool draws(const GraphImpl& graph) {
  for (int id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op == &kRandomKey) return true;
    for (const Attrs::Entry& entry : graph.node(id).attrs.entries()) {
      const auto* function = std::get_if<std::shared_ptr<const GraphFunction>>(&entry.second);
      if (function != nullptr && *function && draws(*(*function)->body)) return true;
    }
  }
  return false;
}

// Where `position` is in `list`, which gets it when it is not there.
uint64_t place_in(std::vector<size_t>& list, size_t position) {
  const auto found = std::find(list.begin(), list.end(), position);
  if (found != list.end()) return static_cast<uint64_t>(found - list.begin());
  list.push_back(position);
  return list.size() - 1;
}

class PlanGrouper {
 public:
  PlanGrouper(uint64_t id, const RunRequest& request) {
    plan_.id = id;
    plan_.num_feeds = request.feeds.size();
    plan_.num_fetches = request.fetches.size();
  }

  MasterPlan group(const std::vector<Partition>& parts, const std::string& own_task) {
    name_tasks(parts, own_task);
    for (const Partition& part : parts) add(part);
    for (const auto& [edge, from] : senders_) connect(edge, from, receivers_.at(edge));
    for (MasterPlan::Task& task : plan_.tasks) {
      task.message.plan = plan_.id;
      task.message.num_edges =
          senders_.empty() ? 0 : static_cast<uint64_t>(senders_.rbegin()->first) + 1;
      task.message.num_feeds = task.feeds.size();
      task.message.num_fetches = task.fetches.size();
      task.message.ordered = parts.size() > 1;
    }
    return std::move(plan_);
  }

 private:
  void name_tasks(const std::vector<Partition>& parts, const std::string& own_task) {
    for (const Partition& part : parts) places_.emplace(task_name(part.device), 0);
    for (auto& [name, place] : places_) {
      if (name == own_task) continue;
      place = plan_.tasks.size();
      plan_.tasks.push_back({.name = name});
    }
    if (const auto own = places_.find(own_task); own != places_.end()) {
      own->second = plan_.tasks.size();
      plan_.tasks.push_back({.name = own_task});
    }
  }

  void add(const Partition& part) {
    const size_t place = places_.at(task_name(part.device));
    MasterPlan::Task& task = plan_.tasks[place];
    PlanPart made{.device = part.device.split().second,
                  .graph = buffer_of(serialize_graph(*part.graph))};
    for (const auto& [position, node_output] : part.feeds) {
      made.feeds.push_back(place_of(place_in(task.feeds, position), node_output));
    }
    for (const auto& [position, node_output] : part.fetches) {
      made.fetches.push_back(place_of(place_in(task.fetches, position), node_output));
    }
    for (const int target : part.targets) made.targets.push_back(static_cast<uint64_t>(target));
    for (int id = 0; id < part.graph->size(); ++id) {
      const Node& node = part.graph->node(id);
      if (node.op == &kSend) senders_[node.attrs.integer("edge")] = place;
      if (node.op == &kRecv) receivers_[node.attrs.integer("edge")] = place;
    }
    plan_.draws |= draws(*part.graph);
    task.message.parts.push_back(std::move(made));
  }

  static PlanPart::Place place_of(uint64_t position, NodeOutput node_output) {
    return {position, static_cast<uint64_t>(node_output.node),
            static_cast<uint64_t>(node_output.output)};
  }

  void connect(int64_t edge, size_t from, size_t to) {
    if (from == to) return;
    RegisterPlan& message = plan_.tasks[from].message;
    const std::string& name = plan_.tasks[to].name;
    const auto known = std::find_if(message.peers.begin(), message.peers.end(),
                                    [&](const auto& peer) { return peer.name == name; });
    const auto peer = static_cast<uint64_t>(known - message.peers.begin());
    if (known == message.peers.end()) message.peers.push_back({name, 0});
    message.sends.push_back({static_cast<uint64_t>(edge), peer});
    std::vector<std::string>& sources = plan_.tasks[to].message.sources;
    const std::string& sender = plan_.tasks[from].name;
    if (std::find(sources.begin(), sources.end(), sender) == sources.end()) {
      sources.push_back(sender);
    }
  }

  MasterPlan plan_;
  std::map<std::string, size_t> places_;  // of tasks in the plan
  std::map<int64_t, size_t> senders_;     // by edge: the place of the task
  std::map<int64_t, size_t> receivers_;
};

}  // namespace

MasterPlan make_master_plan(uint64_t id, std::vector<Partition> parts, const RunRequest& request,
                            const std::string& own_task) {
  return PlanGrouper(id, request).group(parts, own_task);
}

}  // namespace cohort::internal
