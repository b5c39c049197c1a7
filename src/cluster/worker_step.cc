#include "cluster/worker_step.h"

#include <fmt/format.h>

#include <set>

#include "base/raise.h"
#include "base/timeline.h"
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
namespace {

// Tensors of that many bytes, or that old, go at once: waiting longer saves less than a message
// costs.
constexpr int64_t kManyBytes = int64_t{1} << 20;
constexpr auto kOldAge = std::chrono::microseconds(300);
// Enough for a message where a part turns from sending to taking.
constexpr int64_t kSomeBytes = int64_t{64} << 10;

int64_t counted_bytes(const Tensor& tensor) {
  return tensor.dtype() == kString ? 64 * tensor.size() : tensor.size() * size_of(tensor.dtype());
}

}  // namespace

WorkerStep::WorkerStep(std::shared_ptr<const WorkerPlan> plan, uint64_t id)
    : GraphRun(*plan, std::make_shared<Cancellation>()), plan_(std::move(plan)), id_(id) {}

void WorkerStep::start(RunPlan run, Finished finished) {
  if (run.feeds.size() != plan_->num_feeds) {
    raise(Code::InvalidArgument, "[Cluster] the plan takes {} feeds, got {}", plan_->num_feeds,
          run.feeds.size());
  }
  run_ = std::move(run);
  finished_ = std::move(finished);
  for (size_t i = 0; i < plan_->parts.size(); ++i) outboxes_.emplace_back(plan_->peers.size());
  prepare(run_.feeds, run_.trace);
  GraphRun::start();
}

void WorkerStep::arrive(StepTensors tensors) {
  std::vector<int> places;
  places.reserve(tensors.edges.size());
  for (size_t i = 0; i < tensors.edges.size(); ++i) {
    places.push_back(checked_place(tensors.edges[i], tensors.tensors[i]));
  }
  if (tensors.charge) {
    const std::lock_guard lock(mutex_);
    charges_.push_back(std::move(tensors.charge));
  }
  GraphRun::arrive(places, std::move(tensors.tensors));
}

int WorkerStep::checked_place(uint64_t edge, const Tensor& tensor) const {
  const int place = edge < plan_->arrival_places.size()
                        ? plan_->arrival_places[static_cast<size_t>(edge)]
                        : WorkerPlan::kNone;
  if (place == WorkerPlan::kNone) {
    raise(Code::InvalidArgument, "[Cluster] the plan receives nothing on edge {}", edge);
  }
  const WorkerPlan::Arrival& expected = plan_->arrivals[static_cast<size_t>(place)];
  if (!tensor.defined() || tensor.dtype() != expected.dtype ||
      !tensor.shape().is_compatible_with(expected.shape)) {
    raise(Code::InvalidArgument, "[Cluster] edge {} carries {} {}, but another tensor arrived",
          edge, to_string(expected.dtype), expected.shape.to_string());
  }
  return place;
}

void WorkerStep::add_waits(std::chrono::steady_clock::time_point before,
                           std::vector<LongWait>& waits) {
  for (const Missing& missing : GraphRun::missing(before)) {
    waits.push_back(
        {.kind = WaitKind::Tensor,
         .what = fmt::format("step {} of a session, tensor '{}'", id_, missing.arrival.tensor),
         .whom = {missing.arrival.sender},
         .since = missing.since});
  }
}

void WorkerStep::run_part(size_t part) {
  const TimelineSpan span("step", timeline_is_on() ? fmt::format("run {}", id_) : "");
  GraphRun::run_part(part);
}

void WorkerStep::send_away(size_t part, int64_t edge, const Tensor& value) {
  const auto peer = static_cast<size_t>(plan_->destinations[static_cast<size_t>(edge)]);
  Outbox& outbox = outboxes_[part][peer];
  outbox.tensors.edges.push_back(static_cast<uint64_t>(edge));
  outbox.tensors.tensors.push_back(value);
  outbox.bytes += counted_bytes(value);
  if (outbox.bytes >= kManyBytes || is_old(outbox)) flush(peer, outbox);
}

bool WorkerStep::is_old(Outbox& outbox) {
  constexpr size_t kLooksAtClock = 16;  // tensors from one look to the next
  const size_t count = outbox.tensors.edges.size();
  if (count % kLooksAtClock != 1) return false;
  const auto now = std::chrono::steady_clock::now();
  if (count == 1) outbox.since = now;
  return now - outbox.since > kOldAge;
}

// A part that must wait for a tensor sends all its outboxes first, because the sender of that
// tensor may be waiting for one of them. If the tensor has arrived, the part sends large outboxes
// only: peers may be waiting for their tensors, and a variable whose value is in an outbox copies
// the value at its next change.
void WorkerStep::before_taking(size_t part, bool has_arrived) {
  for (size_t peer = 0; peer < plan_->peers.size(); ++peer) {
    Outbox& outbox = outboxes_[part][peer];
    if (!has_arrived || outbox.bytes >= kSomeBytes) flush(peer, outbox);
  }
}

void WorkerStep::before_end(size_t part, bool is_last) {
  for (size_t peer = 0; peer < plan_->peers.size(); ++peer) {
    Outbox& outbox = outboxes_[part][peer];
    if (is_last && static_cast<int>(peer) == plan_->master) {
      last_tensors_ = take(outbox);
    } else {
      flush(peer, outbox);
    }
  }
}

void WorkerStep::flush(size_t peer, Outbox& outbox) {
  if (outbox.tensors.edges.empty()) return;
  Link& link = *plan_->peers[peer];
  if (link.ended()) raise(Code::Unavailable, "[Cluster] task {} is lost", link.peer().name);
  link.post(encode(take(outbox)));
}

StepTensors WorkerStep::take(Outbox& outbox) const {
  StepTensors taken = std::exchange(outbox, {}).tensors;
  taken.session = plan_->session;
  taken.plan = plan_->id;
  taken.step = id_;
  return taken;
}

void WorkerStep::finished(RunResult result) {
  PlanDone done{.session = plan_->session,
                .step = id_,
                .status = std::move(result.status),
                .fetches = std::move(result.fetches),
                .timings = std::move(result.timings)};
  if (done.status.ok()) done.last_tensors = std::move(last_tensors_);
  {
    const std::lock_guard lock(mutex_);
    run_.charge.reset();  // the peer that hears of the end may begin the next step at once
    charges_.clear();
  }
  finished_(std::move(done));
}

}  // namespace cohort::internal
