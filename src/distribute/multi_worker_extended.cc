#include "distribute/multi_worker_extended.h"

#include <array>
#include <thread>

#include "base/exceptions.h"
#include "base/log.h"
#include "base/purpose.h"
#include "base/raise.h"
#include "collectives/access.h"
#include "distribute/context.h"
#include "distribute/distributed_variable.h"
#include "distribute/lone_process.h"
#include "distribute/variables.h"
#include "distribute/worker_reductions.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

WorkerList workers_of(const ClusterResolver& resolver) {
  const ClusterSpec cluster = resolver.cluster_spec();
  if (!cluster) {
    warn_if_one_of_several("MultiWorkerMirroredStrategy",
                           "leave the resolver, which names no cluster, out of its arguments");
    return {.workers = {{.name = "this process"}}};
  }
  const auto type = resolver.task_type();
  const auto id = resolver.task_id();
  validate_task(cluster, type, id);
  return list_workers(cluster, *type, *id);
}

void check_times(const MultiWorkerOptions& options) {
  if (options.start_timeout.count() > 0 && options.silence_limit.count() > 0) return;
  raise(Code::InvalidArgument,
        "[MultiWorkerMirroredStrategy] start_timeout is {} ms and silence_limit {} ms; both are at "
        "least 1",
        options.start_timeout.count(), options.silence_limit.count());
}

// What all workers must have alike, because collectives depend on it.
std::string describe(const MultiWorkerOptions& options) {
  const GuardOptions& guards = options.guards;
  return fmt::format(
      "guards (divergence {} every {} steps, non_finite {}, lone_writes {}), bytes_per_pack {}, "
      "overlap {}",
      static_cast<int>(guards.divergence), guards.divergence_interval,
      static_cast<int>(guards.non_finite), static_cast<int>(guards.lone_writes),
      options.communication.bytes_per_pack,
      options.overlap ? (*options.overlap ? "on" : "off") : "by itself");
}

// Inside of a replica of a multi-worker strategy whose variables these are.
GradientListener* listener_of_replica(const std::vector<Variable>& sources) {
  const ReplicaContext* const replica = get_replica_context();
  if (replica == nullptr || sources.empty() || thread_dispatch().builder != nullptr) return nullptr;
  const auto* const extended =
      dynamic_cast<const MultiWorkerExtended*>(&replica->strategy().extended());
  const bool is_ours =
      extended != nullptr && VariableAccess::impl(sources[0])->strategy == &replica->strategy();
  return is_ours ? extended->gradient_listener(replica->local_replica()) : nullptr;
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
  join(options_.start_timeout, false);
}

MultiWorkerExtended::~MultiWorkerExtended() = default;

void MultiWorkerExtended::join(std::chrono::milliseconds timeout, bool resumes) {
  if (is_alone()) return;
  const AdoptedPurpose nobodys(nullptr);  // a worker that starts meets others that recover
  const CollectivePurpose purpose("the start of the strategy");
  note_joint_training();
  gradients_.reset();
  group_.reset();
  updates_.clear();
  if (is_current_group_ != nullptr) *is_current_group_ = false;
  is_current_group_ = std::make_shared<std::atomic<bool>>(true);
  variables_made_ = 0;
  group_ = std::make_unique<WorkerGroup>(
      workers_, WorkerGroup::Options{.start = {.credentials = options_.credentials,
                                               .timeout = timeout,
                                               .replicas = num_local_replicas(),
                                               .settings = describe(options_),
                                               .resumes = resumes},
                                     .silence_limit = options_.silence_limit});
  together_.set_group(group_->communicator());
  gradients_ = std::make_unique<WorkerGradients>(
      group_->communicator(),
      WorkerGradients::Options{.overlap = should_overlap(),
                               .communication = options_.communication,
                               .replicas = num_local_replicas(),
                               .add = [this](const auto& values) { return add_up(values); }},
      meetings_);
  if (gradients_->overlaps()) set_gradient_listener_finder(listener_of_replica);
  is_newcomer_ = group_->is_newcomer();
  log_info("[MultiWorkerMirroredStrategy] {} is worker {} of {}, with {} replicas each",
           workers_.own().name, worker_id(), num_workers(), num_local_replicas());
}

// The same on all workers: the way, and what is known of the machine, may differ.
bool MultiWorkerExtended::should_overlap() const {
  const bool pays = group_->communicator().way() != "shared-memory" ||
                    replicas_on_host() < std::thread::hardware_concurrency();
  const Tensor votes =
      group_->communicator().all_reduce(Tensor(options_.overlap.value_or(pays)), ReduceOp::Product);
  return votes.to<bool>();
}

GradientListener* MultiWorkerExtended::gradient_listener(size_t local_replica) const {
  const bool listens = gradients_ != nullptr && gradients_->overlaps();
  return listens ? &gradients_->listener(local_replica) : nullptr;
}

std::vector<Gradients> MultiWorkerExtended::gradient_terms(const Gradients& own,
                                                           const std::vector<Variable>& variables) {
  if (gradients_ == nullptr) return {};
  const RecordingPause unheard;
  return gradients_->terms(own, variables);
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

void MultiWorkerExtended::rejoin(std::chrono::milliseconds timeout) { join(timeout, true); }

Communicator MultiWorkerExtended::communicator() const {
  return group_ != nullptr ? group_->communicator() : Communicator();
}

StrategyTraits MultiWorkerExtended::traits() const {
  return {.is_chief = is_chief(),
          .between_graph = true,
          .shares_gradients = is_alone() && MirroredExtended::traits().shares_gradients};
}

int MultiWorkerExtended::num_replicas_in_sync() const {
  return num_workers() * static_cast<int>(num_local_replicas());
}

size_t MultiWorkerExtended::replicas_on_host() const {
  return num_local_replicas() * (group_ != nullptr ? group_->workers_on_host() : 1);
}

int MultiWorkerExtended::replica_id(size_t local_replica) const {
  return worker_id() * static_cast<int>(num_local_replicas()) + static_cast<int>(local_replica);
}

InputContext MultiWorkerExtended::input_context() const {
  return InputContext(num_workers(), worker_id(), num_replicas_in_sync());
}

InputTotals MultiWorkerExtended::sum_over_workers(const InputTotals& here) {
  if (is_alone()) return here;
  const CollectivePurpose purpose("input totals");
  const MeetingClock::Scope meeting(*meetings_);
  const Tensor own = Tensor::from(std::vector{here.replicas_with_data, here.samples,
                                              here.failed_workers, here.undescribed_workers});
  const Tensor all = group_->communicator().all_reduce(own, ReduceOp::Sum,
                                                       collective_options(options_.communication));
  const std::vector<int64_t> sums = all.to_vector<int64_t>();
  return {.replicas_with_data = sums[0],
          .samples = sums[1],
          .failed_workers = sums[2],
          .undescribed_workers = sums[3]};
}

std::vector<int64_t> MultiWorkerExtended::sum_numbers(const std::vector<int64_t>& here,
                                                      const std::string& what) {
  if (is_alone()) return here;
  const MeetingClock::Scope meeting(*meetings_);
  const CollectivePurpose purpose(what);
  return group_->communicator()
      .all_reduce(Tensor::from(here), ReduceOp::Sum, collective_options(options_.communication))
      .to_vector<int64_t>();
}

std::vector<std::string> MultiWorkerExtended::gather_from_workers(const std::string& here,
                                                                  const std::string& what) {
  if (is_alone()) return {here};
  const MeetingClock::Scope meeting(*meetings_);
  const CollectivePurpose purpose(what);
  Communicator workers = group_->communicator();
  return texts_of_workers(workers, here, collective_options(options_.communication));
}

Tensor MultiWorkerExtended::from_first_worker(const Tensor& value) {
  return is_alone() ? value : together_.from_first(value, options_.communication);
}

void MultiWorkerExtended::call_for_each_replica(const std::function<void(ReplicaContext&)>& body) {
  const RunCount run(runs_);
  try {
    MirroredExtended::call_for_each_replica(body);
  } catch (...) {
    if (!is_alone()) tell_workers(status_of(std::current_exception()));
    throw;
  }
}

namespace {

// After a loss or a cancellation a worker may be started again, and the others wait for it. The end
// of the data is no failure.
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

}  // namespace

void MultiWorkerExtended::tell_workers(const Status& failure) const {
  if (!concerns_all_workers(failure.code)) return;
  CollectiveGroup& group = CollectiveAccess::group(group_->communicator());
  if (runs_ == 1) return group.refuse(failure.message);
  // The calls of another run could be taken for those of this one.
  group.fail({.code = Code::FailedPrecondition,
              .message = fmt::format("[run] {} failed in one of {} runs at the same time: {}",
                                     workers_.own().name, runs_.load(), failure.message),
              .origin = workers_.own().name,
              .cause = std::make_shared<Status>(failure)});
}

namespace {

// What must be the same on all workers: the kinds decide what reads and writes mean.
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

Variable MultiWorkerExtended::create_variable(const NextCreator& next,
                                              const VariableRequest& request) {
  if (is_alone() || is_newcomer_ || !request.initializer || KnownInitialValues::is_open()) {
    return MirroredExtended::create_variable(next, request);
  }
  VariableRequest told = request;
  const auto number = std::make_shared<std::optional<int64_t>>();
  told.initializer = [this, own = request.initializer, options = request.options, number] {
    const Tensor value = own();
    if (value.is_symbolic()) return value;
    const PlainDispatch now;  // though a function may be traced meanwhile
    const CollectivePurpose purpose("a variable's first value");
    check_same_on_workers(group_->communicator(), "Variable",
                          describe_new_variable(options, value));
    const Tensor first = from_first_worker(value);
    *number = variables_made_++;
    return first;
  };
  const Variable made = MirroredExtended::create_variable(next, told);
  if (*number) distributed(made)->agree_on_number(**number, is_current_group_);
  return made;
}

std::unique_ptr<StrategyExtended> MultiWorkerExtended::clone() const {
  if (is_alone()) {
    return std::make_unique<MultiWorkerExtended>(resolver_, worker_devices(), options_);
  }
  raise(Code::InvalidArgument,
        "[MultiWorkerMirroredStrategy] cannot be copied: it holds this worker's place among {}",
        num_workers());
}

}  // namespace cohort::internal
