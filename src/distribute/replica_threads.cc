#include "distribute/replica_threads.h"

#include <fmt/format.h>

#include "base/timeline.h"
#include "cohort/device.h"
#include "cohort/graph.h"
#include "cohort/ops.h"
#include "distribute/context.h"
#include "graph/scopes.h"
#include "ops/dispatch.h"
#include "ops/numerics.h"
#include "tensor/kernel_library.h"
#include "train/variable_creators.h"

namespace cohort::internal {

// Opened in the thread of each replica for the time of its function.
class ReplicaThreads::Inside {
 public:
  Inside(ReplicaThreads& owner, size_t replica)
      : replica_(replica),
        mode_({&owner.strategy_, &owner.contexts_[replica], owner.surroundings_.device}) {
    if (replica == 0) {
      device_.emplace(owner.devices_[0]);
      share_.emplace(owner.sharers_);
    } else {
      adopt(owner.surroundings_);
    }
    if (owner.surroundings_.random) {
      const int id = owner.contexts_[replica].replica_id_in_sync_group();
      random_.emplace(owner.surroundings_.random->of(id));
      torch_random_.emplace(owner.surroundings_.random->torch_seed_of(id));
    }
    if (owner.devices_.size() == 1) return;
    unheard_.emplace();
    creator_.emplace([&owner, replica](const NextCreator& next, const VariableRequest& request) {
      // What a merge function makes, in the thread of replica 0, is not one of the replicas'.
      const bool merging = get_replica_context() != &owner.contexts_[replica];
      return merging ? next(request) : owner.variables_.make(replica, next, request);
    });
  }

  ~Inside() {
    if (replica_ != 0) variable_creators().clear();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  // What the caller's thread is inside of.
  void adopt(const Surroundings& around) {
    variable_creators() = around.creators;
    if (around.graph != nullptr) graph_.emplace(around.graph);
    name_.emplace(fmt::format("{}replica_{}", around.name_prefix, replica_));
    if (!around.controls.empty()) controls_.emplace(around.controls);
    if (around.numerics_guarded) numerics_.emplace();
    if (around.syncs_on_read) syncs_on_read_.emplace();
    cache_.emplace(around.cache);
    purpose_.emplace(around.purpose);
  }

  const size_t replica_;
  const ModeScope mode_;
  // Other replicas' threads are on their device, and use their share of the cores, for ever.
  std::optional<DeviceScope> device_;
  std::optional<KernelThreadShare> share_;
  std::optional<Graph::Scope> graph_;
  std::optional<NameScope> name_;
  std::optional<ControlDependencies> controls_;
  std::optional<NumericsGuard> numerics_;
  std::optional<VariableSyncOnReadScope> syncs_on_read_;
  std::optional<ReadCacheAdoption> cache_;
  std::optional<AdoptedPurpose> purpose_;
  std::optional<GeneratorScope> random_;
  std::optional<TorchRandomScope> torch_random_;
  std::optional<RecordingPause> unheard_;  // by tapes around run(), which see no other replica
  std::optional<VariableCreatorScope> creator_;
};

ReplicaThreads::ReplicaThreads(Strategy& strategy, WriteOrder& order)
    : strategy_(strategy),
      order_(order),
      devices_(strategy.extended().worker_devices()),
      sharers_(strategy.extended().replicas_on_host()),
      waiting_(devices_.size()),
      meeting_(devices_.size()),
      variables_(meeting_, devices_.size()) {
  const StrategyExtended& extended = strategy.extended();
  const bool alone = extended.num_replicas_in_sync() == 1;
  for (size_t r = 0; r < devices_.size(); ++r) {
    contexts_.emplace_back(strategy, extended.replica_id(r), r, alone ? nullptr : &meeting_);
  }
  for (size_t r = 1; r < devices_.size(); ++r) {
    threads_.emplace_back(fmt::format("replica_{}", r),
                          [this, r](const std::stop_token&) { wait_for_work(r); });
  }
}

ReplicaThreads::~ReplicaThreads() {
  stopping_ = true;
  orders_.fetch_add(1);
  orders_.notify_all();
}

void ReplicaThreads::wait_for_work(size_t replica) {
  const DeviceScope here(devices_[replica]);
  const KernelThreadShare share(sharers_);
  for (uint32_t order = 0;;) {
    order = waiting_.while_equal(orders_, order);
    if (stopping_) return;
    perform(replica);
    if (running_.fetch_sub(1) == 1) running_.notify_all();
  }
}

void ReplicaThreads::perform(size_t replica) {
  try {
    if (meeting_.enter(replica)) {
      const Inside inside(*this, replica);
      const StepSpan span(thread_dispatch().builder == nullptr);
      (*body_)(contexts_[replica]);
    }
  } catch (...) {
    meeting_.fail(replica, std::current_exception());
  }
  meeting_.leave(replica);
}

void ReplicaThreads::run(const Body& body) {
  body_ = &body;
  meeting_.begin(thread_dispatch().builder);
  variables_.begin();
  start_others();
  perform(0);
  await_others();
  order_.end(static_cast<const MergePoint*>(&meeting_));  // what replicas that failed left
  meeting_.rethrow_failure();
}

void ReplicaThreads::start_others() {
  surroundings_.device = &value_device();
  if (strategy_.num_replicas_in_sync() > 1) surroundings_.random.emplace();
  if (threads_.empty()) return;
  surroundings_.creators = variable_creators();
  surroundings_.name_prefix = name_prefix();
  surroundings_.controls = open_controls();
  surroundings_.numerics_guarded = numerics_guarded();
  surroundings_.syncs_on_read = syncs_on_read();
  auto* graph = dynamic_cast<GraphImpl*>(thread_dispatch().builder);
  surroundings_.graph = graph != nullptr ? graph->shared_from_this() : nullptr;
  surroundings_.cache = read_cache();
  surroundings_.purpose = CollectivePurpose::current();
  running_ = static_cast<uint32_t>(threads_.size());
  orders_.fetch_add(1);
  orders_.notify_all();
}

void ReplicaThreads::await_others() {
  for (uint32_t left = running_.load(); left != 0;) left = waiting_.while_equal(running_, left);
  surroundings_ = {};
}

ReplicaThreadPool::Lease::Lease(ReplicaThreadPool& from, Strategy& strategy) : from_(from) {
  {
    const std::lock_guard lock(from_.mutex_);
    if (!from_.free_.empty()) {
      leased_ = std::move(from_.free_.back());
      from_.free_.pop_back();
    }
  }
  if (leased_ == nullptr) leased_ = std::make_unique<ReplicaThreads>(strategy, *from_.order_);
}

ReplicaThreadPool::Lease::~Lease() {
  const std::lock_guard lock(from_.mutex_);
  from_.free_.push_back(std::move(leased_));
}

}  // namespace cohort::internal
