#include "distribute/strategies/multi_worker_strategy.h"

#include <fmt/ranges.h>

#include <array>

#include "base/collective_purpose.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/raise.h"
#include "cohort/scheduler_resolvers.h"
#include "collectives/communicator_access.h"
#include "distribute/contexts/context.h"
#include "distribute/reduce/gradient_presence.h"
#include "distribute/reduce/tensor_reduction.h"
#include "distribute/strategies/strategy_setup.h"
#include "distribute/variables/distributed_variable.h"
#include "distribute/variables/variable_creation.h"
#include "ops/dispatch.h"

namespace cohort {
namespace internal {
namespace {

constexpr char kMultiWorkerName[] = "MultiWorkerMirroredStrategy";

WorkerList workers_of(const ClusterResolver& resolver) {
  const ClusterSpec cluster = resolver.cluster_spec();
  if (!cluster) {
    warn_if_one_of_several(kMultiWorkerName,
                           "leave the resolver, which names no cluster, out of its arguments");
    return {.workers = {{.name = "this process"}}};
  }
  const auto type = resolver.task_type();
  const auto id = resolver.task_id();
  validate_task(cluster, type, id);
  return list_workers(cluster, *type, *id, kMultiWorkerName);
}

void check_times(const MultiWorkerOptions& options) {
  if (options.start_timeout.count() > 0 && options.silence_limit.count() > 0) return;
  raise(Code::InvalidArgument,
        "[MultiWorkerMirroredStrategy] start_timeout and silence_limit must be at least 1 ms, got "
        "{} ms and {} ms",
        options.start_timeout.count(), options.silence_limit.count());
}

// The settings that must be the same on all workers, because collectives depend on them.
std::string describe(const MultiWorkerOptions& options) {
  const GuardOptions& guards = options.guards;
  return fmt::format(
      "guards (divergence {} {}, non_finite {}, lone_writes {}), bytes_per_pack {}, overlap {}",
      static_cast<int>(guards.divergence),
      guards.divergence_interval ? fmt::format("every {} steps", *guards.divergence_interval)
                                 : "never",
      static_cast<int>(guards.non_finite), static_cast<int>(guards.lone_writes),
      options.communication.bytes_per_pack,
      options.overlap ? (*options.overlap ? "on" : "off") : "by itself");
}

// The listener of the replica that this thread runs, if the variables belong to its multi-worker
// strategy.
GradientListener* listener_of_replica(const std::vector<Variable>& sources) {
  const ReplicaContext* const replica = get_replica_context();
  if (replica == nullptr || sources.empty() || thread_dispatch().builder != nullptr) return nullptr;
  const JointWorkers* const workers = joint_workers(replica->strategy().extended());
  const bool is_ours =
      workers != nullptr && VariableAccess::impl(sources[0])->strategy == &replica->strategy();
  return is_ours ? workers->gradient_listener(replica->local_replica()) : nullptr;
}

class RunCount {
 public:
  explicit RunCount(std::atomic<int>& runs) : runs_(runs) { ++runs_; }
  ~RunCount() { --runs_; }
  RunCount(const RunCount&) = delete;
  RunCount& operator=(const RunCount&) = delete;

 private:
  std::atomic<int>& runs_;
};

// After a loss or a cancellation a worker may be started again, and the others wait for it. The end
// of the data is not a failure.
bool concerns_all_workers(Code code) {
  switch (code) {
    case Code::Ok:
    case Code::Aborted:
    case Code::Cancelled:
    case Code::DeadlineExceeded:
    case Code::OutOfRange:
    case Code::Unavailable:
      return false;
    default:
      return true;
  }
}

// The options that must be the same on all workers: they decide what reads and writes mean.
std::string describe_new_variable(const VariableOptions& options, const Tensor& value) {
  constexpr std::array kAggregations{"None", "Sum", "Mean", "OnlyFirstReplica"};
  constexpr std::array kSynchronizations{"Auto", "None", "OnWrite", "OnRead"};
  return fmt::format("variable '{}' {} {}, aggregation {}, synchronization {}, {}trainable",
                     options.name, to_string(value.dtype()), value.shape().to_string(),
                     kAggregations.at(static_cast<size_t>(options.aggregation)),
                     kSynchronizations.at(static_cast<size_t>(options.synchronization)),
                     options.trainable.value_or(true) ? "" : "not ");
}

}  // namespace

MultiWorkerExtended::MultiWorkerExtended(std::shared_ptr<const ClusterResolver> resolver,
                                         std::vector<std::string> devices,
                                         const MultiWorkerOptions& options)
    : MirroredExtended(std::move(devices), {.guards = options.guards}),
      resolver_(std::move(resolver)),
      options_(options),
      workers_(workers_of(*resolver_)) {
  check(options_.communication);
  check_times(options_);
  join(options_.start_timeout, 0);
}

MultiWorkerExtended::~MultiWorkerExtended() = default;

void MultiWorkerExtended::join(std::chrono::milliseconds timeout, uint64_t generation) {
  if (is_alone()) return;
  const AdoptedPurpose no_purpose(nullptr);  // a worker that starts meets workers that recover
  const CollectivePurpose purpose("the start of the strategy");
  note_joint_training();
  gradients_.reset();
  group_.reset();
  updates_.clear();
  if (is_current_group_ != nullptr) *is_current_group_ = false;
  is_current_group_ = std::make_shared<std::atomic<bool>>(true);
  variables_made_ = 0;
  not_joined_ = capture_status([&] { form_group(timeout, generation); });
  if (not_joined_.ok()) return;
  gradients_.reset();
  group_.reset();
  throw Error(not_joined_);
}

void MultiWorkerExtended::form_group(std::chrono::milliseconds timeout, uint64_t generation) {
  group_ = std::make_unique<WorkerCommunicator>(
      workers_, WorkerCommunicator::Options{.start = {.credentials = options_.credentials,
                                                      .timeout = timeout,
                                                      .replicas = worker_devices().size(),
                                                      .settings = describe(options_),
                                                      .generation = generation,
                                                      .component = kMultiWorkerName},
                                            .silence_limit = options_.silence_limit});
  together_.set_group(group_->communicator());
  gradients_ = std::make_unique<WorkerGradients>(
      group_->communicator(),
      WorkerGradients::Options{.overlap = should_overlap(),
                               .communication = options_.communication,
                               .replicas = worker_devices().size(),
                               .add = [this](const auto& values) { return add_up(values); }},
      group_wait_);
  if (gradients_->overlaps()) set_gradient_listener_finder(listener_of_replica);
  is_newcomer_ = group_->membership().is_newcomer();
  generation_ = group_->membership().group().generation;
  log_info("[MultiWorkerMirroredStrategy] {} is worker {} of {}, with {} replicas each",
           workers_.own().name, worker_id(), num_workers(), worker_devices().size());
}

// All workers vote, because the transport, and what is known of the machine, may differ.
bool MultiWorkerExtended::should_overlap() const {
  const bool pays =
      group_->communicator().kind() != "shared-memory" || replicas_on_this_host() < core_count();
  const Tensor votes =
      group_->communicator().all_reduce(Tensor(options_.overlap.value_or(pays)), ReduceOp::Product);
  return votes.to<bool>();
}

WorkerCommunicator& MultiWorkerExtended::group() const {
  if (group_ != nullptr) return *group_;
  throw Error(
      {.code = Code::Unavailable,
       .message = fmt::format(
           "[MultiWorkerMirroredStrategy] {} is in no group: it has left generation {}, and "
           "the workers have not formed the next one; let BackupAndRestore run again, or "
           "start the program again",
           workers_.own().name, generation_),
       .origin = workers_.own().name,
       .cause = std::make_shared<const Status>(not_joined_)});
}

Communicator MultiWorkerExtended::communicator() const {
  return group_ != nullptr ? group_->communicator() : Communicator();
}

StrategyTraits MultiWorkerExtended::traits() const {
  StrategyTraits traits = MirroredExtended::traits();
  traits.is_chief = is_chief();
  traits.between_graph = true;
  traits.supports_replica_pipelines = false;
  traits.replicas_on_host = replicas_on_this_host();
  traits.cluster_resolver = resolver_.get();
  if (!is_alone()) traits.communication = options_.communication;
  return traits;
}

size_t MultiWorkerExtended::replicas_on_this_host() const {
  return worker_devices().size() * (group_ != nullptr ? group_->membership().workers_on_host() : 1);
}

InputContext MultiWorkerExtended::input_context() const {
  return InputContext(num_workers(), worker_id(),
                      num_workers() * static_cast<int>(worker_devices().size()));
}

// ---- Runs

void MultiWorkerExtended::call_for_each_replica(const std::function<void(ReplicaContext&)>& body) {
  if (!is_alone()) (void)group();  // nothing is computed without the others
  const RunCount run(runs_);
  try {
    MirroredExtended::call_for_each_replica(body);
  } catch (...) {
    if (!is_alone()) tell_workers(status_of(std::current_exception()));
    throw;
  }
}

void MultiWorkerExtended::tell_workers(const Status& failure) const {
  if (!concerns_all_workers(failure.code)) return;
  CollectiveGroup& workers = CollectiveAccess::group(group().communicator());
  if (runs_ == 1) return workers.refuse(failure.message);
  // The other workers could take calls of another run for calls of this one.
  workers.fail({.code = Code::FailedPrecondition,
                .message = fmt::format("[run] {} failed in one of {} runs at the same time: {}",
                                       workers_.own().name, runs_.load(), failure.message),
                .origin = workers_.own().name,
                .cause = std::make_shared<Status>(failure)});
}

// ---- Gradients

Gradients MultiWorkerExtended::sum_gradients(ReplicaContext& context, const Gradients& own,
                                             const std::vector<Variable>& variables) {
  if (is_alone() || is_tracing_alone(context)) return sum_by_all_reduce(context, own, variables);
  (void)group();
  const RecordingPause not_recorded;
  const UpdatedVariables updated(variables);
  const bool as_nodes = thread_dispatch().builder != nullptr;
  if (num_local_replicas() == 1 && !as_nodes) {  // no other replica to meet
    const ModeScope cross({&strategy(), nullptr});
    return gradients_->sum({own}, variables);
  }
  std::optional<CollectivePurpose> purpose;
  if (as_nodes) purpose.emplace(describe_presence(own, variables));
  ReplicaCall call{.what = "apply_gradients", .values = own, .options = options_.communication};
  meet_once(context, call, [&](const ReplicaCalls& calls) {
    if (as_nodes) return reduce_gradients(calls);
    ReplicaGradients all;
    for (size_t replica = 0; replica < calls.size(); ++replica) {
      all.emplace_back(calls[replica].values.begin(), calls[replica].values.end());
    }
    const ModeScope cross({&strategy(), nullptr});
    give_sums(gradients_->sum(all, variables), calls);
  });
  return std::move(call.results);
}

GradientListener* MultiWorkerExtended::gradient_listener(size_t local_replica) const {
  const bool listens = gradients_ != nullptr && gradients_->overlaps();
  return listens ? &gradients_->listener(local_replica) : nullptr;
}

int64_t MultiWorkerExtended::count_update(const Variable& optimizers_count, size_t local_replica) {
  const std::lock_guard lock(updates_mutex_);
  const std::shared_ptr<const VariableImpl> key = VariableAccess::impl(optimizers_count);
  auto found = updates_.find(key);
  if (found == updates_.end()) {
    std::erase_if(updates_, [](const auto& entry) { return entry.first.expired(); });
    found = updates_.emplace(key, std::vector<int64_t>(num_local_replicas())).first;
  }
  return ++found->second[local_replica];
}

// ---- Variables

Variable MultiWorkerExtended::create_variable(const NextCreator& next,
                                              const VariableRequest& request) {
  if (is_alone() || is_newcomer_ || !request.initializer || KnownInitialValues::active()) {
    return MirroredExtended::create_variable(next, request);
  }
  VariableRequest agreed = request;
  const auto number = std::make_shared<std::optional<int64_t>>();
  agreed.initializer = [this, own = request.initializer, options = request.options, number] {
    const Tensor value = own();
    if (value.is_symbolic()) return value;
    const PlainDispatch now;  // even while a function is traced
    const CollectivePurpose purpose("a variable's first value");
    check_same_on_workers(group().communicator(), "Variable",
                          describe_new_variable(options, value));
    const Tensor first = from_first_worker(value);
    *number = variables_made_++;
    return first;
  };
  const Variable made = MirroredExtended::create_variable(next, agreed);
  if (*number) distributed(made)->agree_on_number(**number, is_current_group_);
  return made;
}

std::unique_ptr<StrategyExtended> MultiWorkerExtended::clone() const {
  if (is_alone()) {
    return std::make_unique<MultiWorkerExtended>(resolver_, worker_devices(), options_);
  }
  raise(Code::InvalidArgument,
        "[MultiWorkerMirroredStrategy] cannot be copied: it holds this worker's place among {} "
        "workers",
        num_workers());
}

}  // namespace internal

namespace {

std::unique_ptr<StrategyExtended> make_extended(std::shared_ptr<const ClusterResolver> resolver,
                                                const MultiWorkerOptions& options) {
  if (resolver == nullptr) {
    internal::raise(Code::InvalidArgument,
                    "[MultiWorkerMirroredStrategy] the cluster resolver is nullptr; leave it out "
                    "to find the cluster by the environment's variables");
  }
  std::vector<std::string> devices =
      internal::resolve_devices("MultiWorkerMirroredStrategy", options.devices);
  internal::log_info("[MultiWorkerMirroredStrategy] uses the devices {}", fmt::join(devices, ", "));
  return std::make_unique<internal::MultiWorkerExtended>(std::move(resolver), std::move(devices),
                                                         options);
}

std::shared_ptr<const ClusterResolver> or_environment(
    std::shared_ptr<const ClusterResolver> resolver) {
  if (resolver != nullptr) return resolver;
  return resolver_from_environment();
}

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const MultiWorkerOptions& options)
    : Strategy(make_extended(or_environment(nullptr), options)) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(
    std::shared_ptr<const ClusterResolver> resolver, const MultiWorkerOptions& options)
    : Strategy(make_extended(std::move(resolver), options)) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(
    CommunicationImplementation communication, std::shared_ptr<const ClusterResolver> resolver)
    : Strategy(make_extended(or_environment(std::move(resolver)),
                             {.communication = {.implementation = communication}})) {}

static internal::MultiWorkerExtended& multi_worker_extended(const Strategy& strategy) {
  return static_cast<internal::MultiWorkerExtended&>(strategy.extended());
}

int MultiWorkerMirroredStrategy::num_workers() const {
  return multi_worker_extended(*this).num_workers();
}
int MultiWorkerMirroredStrategy::worker_id() const {
  return multi_worker_extended(*this).worker_id();
}
bool MultiWorkerMirroredStrategy::is_chief() const {
  return multi_worker_extended(*this).is_chief();
}
Communicator MultiWorkerMirroredStrategy::communicator() const {
  return multi_worker_extended(*this).communicator();
}

}  // namespace cohort
