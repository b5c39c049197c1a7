#include "distribute/multi_worker_extended.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "distribute/check_components.h"
#include "distribute/context.h"
#include "distribute/replica_reductions.h"
#include "distribute/sparse_reduction.h"
#include "distribute/undistributed.h"
#include "distribute/variables.h"
#include "distribute/worker_reductions.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

using Kind = DistributedValue::Kind;

WorkerList workers_of(const ClusterResolver& resolver) {
  const ClusterSpec cluster = resolver.cluster_spec();
  if (!cluster) return {.workers = {{.name = "this process"}}};
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

// Which variables have none is decided when a function is traced: the workers compare it, instead
// of adding up the gradients of different variables.
std::string describe_gradients(const std::vector<Gradient>& sums,
                               const std::vector<Variable>& variables) {
  std::vector<std::string> without;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].defined()) without.push_back("'" + variables[i].name() + "'");
  }
  return fmt::format("the gradients of {} variables{}{}: ", variables.size(),
                     without.empty() ? "" : ", none for ", fmt::join(without, ", "));
}

// One component per replica, or one for the worker when all replicas have the same.
DistributedValue contributions(const DistributedValue& value) {
  if (value.kind() == Kind::Plain) return {Kind::PerReplica, {value[0]}};
  return value;
}

Gradient divided(const Gradient& total, int64_t count) {
  if (!total.is_sparse()) return div(total.dense(), count);
  const IndexedSlices& rows = total.slices();
  return IndexedSlices{div(rows.values, count), rows.indices, rows.dense_shape};
}

DistributedValue spread(const Gradient& total, const Destinations& destinations,
                        CrossDeviceOps& copying) {
  if (!total.is_sparse()) return copying.broadcast(total.dense(), destinations);
  std::vector<Gradient> copies;
  for (const std::string& device : destinations.devices()) {
    const DeviceScope on(device);
    copies.emplace_back(join_slices(ReduceOp::Sum, {&total, 1}));
  }
  return {Kind::Mirrored, std::move(copies)};
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
  join(options_.start_timeout, false);
}

MultiWorkerExtended::~MultiWorkerExtended() = default;

void MultiWorkerExtended::join(std::chrono::milliseconds timeout, bool resumes) {
  if (is_alone()) return;
  gradients_.reset();
  group_.reset();
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

void MultiWorkerExtended::rejoin(std::chrono::milliseconds timeout) { join(timeout, true); }

Communicator MultiWorkerExtended::communicator() const {
  return group_ != nullptr ? group_->communicator() : Communicator();
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

std::vector<std::string> MultiWorkerExtended::gather_from_workers(const std::string& here) {
  if (is_alone()) return {here};
  Communicator workers = group_->communicator();
  return texts_of_workers(workers, here);
}

Tensor MultiWorkerExtended::from_first_worker(const Tensor& value) {
  return is_alone() ? value : together_.from_first(value, options_.communication);
}

Variable MultiWorkerExtended::create_variable(const NextCreator& next,
                                              const VariableRequest& request) {
  if (is_alone() || is_newcomer_ || !request.initializer || KnownInitialValues::is_open()) {
    return MirroredExtended::create_variable(next, request);
  }
  VariableRequest told = request;
  told.initializer = [this, own = request.initializer, name = request.options.name] {
    const Tensor value = own();
    if (value.is_symbolic()) return value;
    const PlainDispatch now;  // though a function may be traced meanwhile
    check_same_on_workers(group_->communicator(), "Variable",
                          fmt::format("variable '{}' {} {}", name, to_string(value.dtype()),
                                      value.shape().to_string()));
    return from_first_worker(value);
  };
  return MirroredExtended::create_variable(next, told);
}

DistributedValue MultiWorkerExtended::reduce_to(ReduceOp op, const DistributedValue& value,
                                                const Destinations& destinations,
                                                const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::reduce_to(op, value, destinations, options);
  require_cross_replica_or_default(strategy(), "reduce_to");
  if (value.kind() != Kind::Plain) {
    if (auto common = reduce_undistributed(op, value, destinations, cross_device_ops(),
                                           num_replicas_in_sync())) {
      return *std::move(common);
    }
  }
  const ReduceRequest request{value, destinations};
  return batch_reduce_to(op, {&request, 1}, options)[0];
}

std::vector<DistributedValue> MultiWorkerExtended::batch_reduce_to(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::batch_reduce_to(op, requests, options);
  require_cross_replica_or_default(strategy(), "batch_reduce_to");
  const CommunicationOptions how = completed(options);
  const ReduceOp inside = op == ReduceOp::Mean ? ReduceOp::Sum : op;
  std::vector<ReduceRequest> here;
  for (const ReduceRequest& request : requests) {
    here.push_back({contributions(request.value), request.destinations.devices()[0]});
  }
  std::vector<Gradient> totals;
  for (const DistributedValue& local : cross_device_ops().batch_reduce(inside, here, how)) {
    totals.push_back(local[0]);
  }
  totals = together_.reduce(inside, totals, how);
  std::vector<DistributedValue> results;
  for (size_t i = 0; i < totals.size(); ++i) {
    const auto count = static_cast<int64_t>(here[i].value.size()) * num_workers();
    results.push_back(spread(op == ReduceOp::Mean ? divided(totals[i], count) : totals[i],
                             requests[i].destinations, cross_device_ops()));
  }
  return results;
}

DistributedValue MultiWorkerExtended::gather_to(const DistributedValue& value,
                                                const Destinations& destinations, int axis,
                                                const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::gather_to(value, destinations, axis, options);
  require_cross_replica_or_default(strategy(), "gather_to");
  const CommunicationOptions how = completed(options);
  const DistributedValue local =
      cross_device_ops().gather(contributions(value), destinations.devices()[0], axis, how);
  const Tensor all = together_.gather(local[0].dense(), axis, how);
  return cross_device_ops().broadcast(all, destinations);
}

void MultiWorkerExtended::meet(ReplicaContext& context, ReplicaCall& own,
                               const std::function<void(const ReplicaCalls&)>& once) {
  const MergePoint::Call call = own.at_meeting();
  if (context.meeting() == nullptr) return once(ReplicaCalls({&call.own, 1}));
  context.meeting()->meet(
      context.local_replica(), call, [&](std::span<void* const> owns) { once(ReplicaCalls(owns)); },
      nullptr);
}

std::vector<Gradient> MultiWorkerExtended::replica_all_reduce(ReplicaContext& context, ReduceOp op,
                                                              const std::vector<Gradient>& values,
                                                              const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::replica_all_reduce(context, op, values, options);
  ReplicaCall own{.what = "all_reduce", .op = op, .values = values, .options = completed(options)};
  meet(context, own, [&](const ReplicaCalls& calls) { reduce_for_all(*this, calls); });
  return std::move(own.results);
}

Gradients MultiWorkerExtended::replica_sum_gradients(ReplicaContext& context, const Gradients& own,
                                                     const std::vector<Variable>& variables) {
  if (is_alone() || is_tracing_alone(context)) {
    return MirroredExtended::replica_sum_gradients(context, own, variables);
  }
  const RecordingPause unheard;
  ReplicaCall call{.what = "apply_gradients", .values = own, .options = options_.communication};
  meet(context, call, [&](const ReplicaCalls& calls) { sum_gradients(calls, variables); });
  return std::move(call.results);
}

std::vector<Gradient> MultiWorkerExtended::add_up(
    const std::vector<std::vector<Gradient>>& values) const {
  const std::string here = worker_devices()[0];
  std::vector<ReduceRequest> requests;
  for (const std::vector<Gradient>& each : values) {
    check_reducible("apply_gradients", each);
    requests.push_back({{Kind::PerReplica, each}, here});
  }
  const RecordingPause unheard;
  std::vector<Gradient> sums;
  for (const DistributedValue& sum :
       cross_device_ops().batch_reduce(ReduceOp::Sum, requests, options_.communication)) {
    sums.push_back(sum[0]);
  }
  return sums;
}

std::vector<Gradient> MultiWorkerExtended::trace_sums(const ReplicaGradients& own,
                                                      const std::vector<Variable>& variables) {
  std::vector<size_t> everywhere(variables.size());
  std::iota(everywhere.begin(), everywhere.end(), size_t{0});
  std::vector<Gradient> sums =
      totals_of(own, everywhere, [this](const auto& values) { return add_up(values); });
  std::vector<Gradient> present;
  std::copy_if(sums.begin(), sums.end(), std::back_inserter(present),
               [](const Gradient& sum) { return sum.defined(); });
  present = together_.reduce(ReduceOp::Sum, present, options_.communication,
                             describe_gradients(sums, variables));
  auto next = present.begin();
  for (Gradient& sum : sums) {
    if (sum.defined()) sum = std::move(*next++);
  }
  return sums;
}

void MultiWorkerExtended::sum_gradients(const ReplicaCalls& calls,
                                        const std::vector<Variable>& variables) {
  calls.check_same();
  ReplicaGradients own;
  for (size_t replica = 0; replica < calls.size(); ++replica) {
    own.emplace_back(calls[replica].values.begin(), calls[replica].values.end());
  }
  const ModeScope cross({&strategy(), nullptr});
  const bool as_nodes = thread_dispatch().builder != nullptr;
  const std::vector<Gradient> sums =
      as_nodes ? trace_sums(own, variables) : gradients_->sum(own, variables);
  if (calls.size() == 1) {
    calls[0].results = sums;
    return;
  }
  const Destinations everywhere = Destinations::of_devices(worker_devices());
  for (size_t replica = 0; replica < calls.size(); ++replica) {
    calls[replica].results.resize(sums.size());
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].defined()) continue;
    const DistributedValue spread_out = spread(sums[i], everywhere, cross_device_ops());
    for (size_t replica = 0; replica < calls.size(); ++replica) {
      calls[replica].results[i] = spread_out[replica];
    }
  }
}

GatheredValue MultiWorkerExtended::replica_all_gather(ReplicaContext& context, const Tensor& value,
                                                      int axis,
                                                      const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::replica_all_gather(context, value, axis, options);
  const Gradient gathered = value;
  ReplicaCall own{
      .what = "all_gather", .axis = axis, .values = {&gathered, 1}, .options = completed(options)};
  meet(context, own, [&](const ReplicaCalls& calls) {
    const std::vector<Gradient> values = calls.at(0);
    check_gatherable("all_gather", values, axis);
    const Tensor rows = reshape(rows_of_all(values, axis), {1});
    const Tensor all = together_.gather(rows, 0, own.options);
    const std::vector<Range> lower{{.begin = 0, .end = worker_id()}};
    gather_for_all(*this, calls, sum(slice(all, lower)));
  });
  return {own.results[0].dense(), own.results[1].dense()};
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
