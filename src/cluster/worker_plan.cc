#include "cluster/worker_plan.h"

#include <set>

#include "base/raise.h"
#include "cluster/protocol.h"
#include "graph/serialize_graph.h"
#include "ops/all_ops.h"
#include "tensor/devices.h"

namespace cohort::internal {
namespace {

constexpr uint64_t kMaxEdges = uint64_t{1} << 22;
constexpr uint64_t kMaxPlaces = uint64_t{1} << 20;  // feeds or fetches of one task

void require(bool holds, std::string_view problem) {
  if (!holds) raise(Code::InvalidArgument, "[Cluster] the plan is wrong: {}", problem);
}

class PlanMaker {
 public:
  PlanMaker(const RegisterPlan& from, std::shared_ptr<DeviceState> state, const std::string& task)
      : from_(from), task_(task) {
    plan_->state = std::move(state);
    require(from.num_edges <= kMaxEdges, "it has too many edges");
    require(from.num_feeds <= kMaxPlaces && from.num_fetches <= kMaxPlaces,
            "it has too many feeds or fetches");
    plan_->session = from.session;
    plan_->id = from.plan;
    plan_->num_feeds = from.num_feeds;
    plan_->num_fetches = from.num_fetches;
    plan_->destinations.assign(from.num_edges, WorkerPlan::kNone);
    plan_->arrival_places.assign(from.num_edges, WorkerPlan::kNone);
  }

  std::shared_ptr<const WorkerPlan> make(std::vector<Link::Pointer> peers,
                                         const std::string& master) {
    for (const auto& sent : from_.sends) {
      require(sent.edge < from_.num_edges && sent.peer < peers.size(), "it sends to nowhere");
      plan_->destinations[sent.edge] = static_cast<int>(sent.peer);
    }
    for (const PlanPart& part : from_.parts) add(part);
    check_sends();
    require(fetched_.size() == from_.num_fetches, "a fetch comes from nowhere");
    for (size_t i = 0; i < peers.size(); ++i) {
      if (from_.peers[i].name == master) plan_->master = static_cast<int>(i);
    }
    plan_->peers = std::move(peers);
    plan_->sources = from_.sources;
    return std::move(plan_);
  }

 private:
  void add(const PlanPart& from) {
    Partition part{.device = DeviceName::parse(task_ + "/device:" + from.device),
                   .graph = deserialize_part(text_of(from.graph)),
                   .targets = {},
                   .feeds = {},
                   .fetches = {}};
    for (const uint64_t target : from.targets) {
      require(target < static_cast<uint64_t>(part.graph->size()), "a target does not exist");
      part.targets.push_back(static_cast<int>(target));
    }
    for (const auto& place : from.feeds) {
      require(place.position < from_.num_feeds, "a feed is not one of the task's");
      part.feeds[place.position] = node_output(*part.graph, place);
    }
    for (const auto& place : from.fetches) {
      require(place.position < from_.num_fetches, "a fetch is not one of the task's");
      require(fetched_.insert(place.position).second, "a fetch comes from two places");
      part.fetches[place.position] = node_output(*part.graph, place);
    }
    for (int id = 0; id < part.graph->size(); ++id) note_edge(part.graph->node(id));
    WorkerPlan::Part& made =
        plan_->add(part, local_device(from.device),
                   from_.ordered ? StepOrder::AsMade : StepOrder::EffectsEarly);
    made.table = &plan_->state->of(from.device);
    made.settled = std::make_shared<SettledValues>(&plan_->state->clears());
  }

  // Kernels run under the process's own device of that type and index.
  const Device& local_device(const std::string& device) {
    const Status status = capture_status([&] { (void)find_device(device); });
    if (status.ok()) return find_device(device);
    raise(Code::InvalidArgument, "[Cluster] {} has no device {}: {}", task_, device,
          status.message);
  }

  static NodeOutput node_output(const GraphImpl& graph, const PlanPart::Place& place) {
    require(place.node < static_cast<uint64_t>(graph.size()), "a node does not exist");
    const int node = static_cast<int>(place.node);
    require(place.output < graph.node(node).outputs.size(), "an output does not exist");
    return {node, static_cast<int>(place.output)};
  }

  void note_edge(const Node& node) {
    if (node.op == &kRecv) {
      require(node.outputs[0].dtype != kResource, "a handle cannot leave its device");
    } else if (node.op == &kSend) {
      const int64_t edge = node.attrs.integer("edge");
      require(edge >= 0 && static_cast<uint64_t>(edge) < from_.num_edges, "it sends to nowhere");
      sent_.insert(edge);
    }
  }

  // Every edge that a part sends goes to a peer, or is taken by a part here.
  void check_sends() {
    for (const int64_t edge : sent_) {
      const auto place = static_cast<size_t>(edge);
      require((plan_->destinations[place] == WorkerPlan::kNone) !=
                  (plan_->arrival_places[place] == WorkerPlan::kNone),
              "an edge leads nowhere, or to two places");
    }
  }

  const RegisterPlan& from_;
  const std::string& task_;
  std::set<uint64_t> fetched_;
  std::set<int64_t> sent_;
  std::shared_ptr<WorkerPlan> plan_ = std::make_shared<WorkerPlan>();
};

}  // namespace

std::shared_ptr<const WorkerPlan> make_worker_plan(const RegisterPlan& from,
                                                   std::shared_ptr<DeviceState> state,
                                                   std::vector<Link::Pointer> peers,
                                                   const std::string& task,
                                                   const std::string& master) {
  return PlanMaker(from, std::move(state), task).make(std::move(peers), master);
}

}  // namespace cohort::internal
