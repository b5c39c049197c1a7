#include "distribute/reduce/replica_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/raise.h"
#include "base/site_scope.h"
#include "base/time_limit.h"
#include "cohort/ops.h"
#include "distribute/contexts/context.h"
#include "distribute/contexts/distributed_values.h"
#include "distribute/reduce/gradient_presence.h"
#include "distribute/reduce/tensor_reduction.h"
#include "distribute/variables/distributed_variable.h"
#include "ops/collective_ports.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"

namespace cohort {
namespace internal {
namespace {

constexpr size_t kMaxListed = 4;  // a longer list is hard to read

std::string listed(std::span<const Gradient> values) {
  std::string text;
  for (size_t i = 0; i < std::min(values.size(), kMaxListed); ++i) {
    text += ", " + describe(values[i]);
  }
  if (values.size() > kMaxListed) {
    text += fmt::format(" and {} more", values.size() - kMaxListed);
  }
  return text;
}

// "train.cc:12"
std::string base_name(Site site) {
  const std::string_view file = site.file;
  return fmt::format("{}:{}", file.substr(file.find_last_of('/') + 1), site.line);
}

// A call without a site matches every site.
bool same_site(Site a, Site b) {
  if (a.line == 0 || b.line == 0) return true;
  return a.line == b.line && std::string_view(a.file) == b.file;
}

// Throws FailedPrecondition, naming a difference, unless replica 0 and `replica` update the same
// variables.
void check_same_variables(const std::vector<Variable>& first, const std::vector<Variable>& own,
                          size_t replica) {
  if (are_same(first, own)) return;
  const auto label = [](const std::vector<Variable>& list, size_t place) {
    return place < list.size() ? label_of(list[place]) : std::string("missing");
  };
  size_t place = 0;
  while (label(first, place) == label(own, place) && place < first.size()) ++place;
  raise(Code::FailedPrecondition,
        "[apply_gradients] the replicas update different variables: number {} is {} in replica 0, "
        "{} in replica {}; give all the same list in the same order",
        place, label(first, place), label(own, place), replica);
}

}  // namespace

bool are_same(const std::vector<Variable>& one, const std::vector<Variable>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const Variable& a, const Variable& b) {
                      return VariableAccess::impl(a) == VariableAccess::impl(b);
                    });
}

ReplicaRendezvous::Call ReplicaCall::as_call() {
  ReplicaRendezvous::Call call{what, 0, this};
  call.timeout = endless_if_zero(options.timeout).value_or(call.timeout);
  return call;
}

std::string ReplicaCall::to_string() const {
  const std::string how =
      what == "all_reduce" ? cohort::to_string(op) : fmt::format("axis {}", axis);
  const std::string reason_given = reason() != what ? fmt::format(" for {}", reason()) : "";
  const std::string place = site().line != 0 ? " at " + base_name(site()) : "";
  return fmt::format("{}({}{}){}{}", what, how, listed(values), reason_given, place);
}

std::vector<Gradient> ReplicaCalls::at(size_t position) const {
  std::vector<Gradient> values;
  for (size_t replica = 0; replica < size(); ++replica) {
    values.push_back((*this)[replica].values[position]);
  }
  return values;
}

void ReplicaCalls::check_same() const {
  const ReplicaCall& first = (*this)[0];
  for (size_t replica = 1; replica < size(); ++replica) {
    const ReplicaCall& other = (*this)[replica];
    if (first.variables != nullptr && other.variables != nullptr) {
      check_same_variables(*first.variables, *other.variables, replica);
    }
    if (first.op == other.op && first.axis == other.axis &&
        first.values.size() == other.values.size() && first.reason() == other.reason() &&
        same_site(first.site(), other.site())) {
      continue;
    }
    raise(Code::FailedPrecondition,
          "[{}] the replicas make different calls: replica 0 calls {}, replica {} calls {}; all "
          "must make the same calls in the same order",
          first.what, first.to_string(), replica, other.to_string());
  }
}

namespace {

// The size of a value along an axis, as a scalar of the graph when it is not known yet.
Tensor size_along(const Tensor& value, int axis) {
  const int64_t size = value.shape().has_rank() ? value.shape()[axis] : Shape::kUnknownDim;
  return size >= 0 ? Tensor(size) : cohort::shape(value)[axis];
}

// 0 to n - 1 for the n rows of a value along an axis.
Tensor rows_along(const Tensor& value, int axis) {
  const int64_t size = value.shape().has_rank() ? value.shape()[axis] : Shape::kUnknownDim;
  if (size >= 0) return range(size);
  // range() takes a number. Where the size is known in a run only, ones are counted.
  std::vector<cohort::Range> first(static_cast<size_t>(value.rank()),
                                   cohort::Range{.begin = 0, .end = 1});
  first[static_cast<size_t>(axis)] = {};
  return cumsum(ones_like(cast(reshape(slice(value, first), {-1}), kInt64))) - 1;
}

// Which rows of the gathered value are those of the replica.
Tensor own_rows(std::span<const Gradient> values, size_t replica, int axis) {
  Tensor rows = rows_along(values[replica].dense(), axis);
  for (size_t lower = 0; lower < replica; ++lower) {
    rows = rows + size_along(values[lower].dense(), axis);
  }
  return rows;
}

// How many rows of the gathered value the workers before this one have; undefined without such
// workers.
Tensor rows_of_lower_workers(StrategyExtended& extended, std::span<const Gradient> values,
                             const ReplicaCall& call) {
  const InputContext workers = extended.input_context();
  if (workers.num_input_pipelines() == 1) return {};
  Tensor rows = cast(Tensor(0), kInt64);
  for (const Gradient& value : values) rows = rows + size_along(value.dense(), call.axis);
  const DistributedValue all = extended.gather_to(DistributedValue(reshape(rows, {1})),
                                                  extended.worker_devices()[0], 0, call.options);
  return sum(slice(all[0].dense(), {{.begin = 0, .end = workers.input_pipeline_id()}}));
}

// One replica calls this for all: sets the gathered value, and which of its rows are those of each
// replica.
void gather_for_all(const ReplicaCalls& calls) {
  StrategyExtended& extended = get_replica_context()->strategy().extended();
  const int axis = calls[0].axis;
  const std::vector<Gradient> values = calls.at(0);
  check_gatherable("all_gather", values, axis);
  const ModeScope cross({&extended.strategy(), nullptr});
  const Tensor lower = rows_of_lower_workers(extended, values, calls[0]);
  const DistributedValue gathered = extended.gather_to(
      {DistributedValue::Kind::PerReplica, values},
      Destinations::of_devices(extended.worker_devices()), axis, calls[0].options);
  for (size_t replica = 0; replica < calls.size(); ++replica) {
    const Tensor rows = own_rows(values, replica, axis);
    calls[replica].results = {gathered[replica], lower.defined() ? rows + lower : rows};
  }
}

// Reaches the other replicas through the context of the replica that this thread runs.
class ContextPort final : public ReplicaPort {
 public:
  int num_replicas() const override { return get_replica_context()->num_replicas_in_sync(); }

  std::vector<Tensor> all_reduce(ReduceOp op, std::span<const Tensor> values,
                                 const CommunicationOptions& options) override {
    ReplicaContext& context = *get_replica_context();
    const std::vector<Gradient> own(values.begin(), values.end());
    std::vector<Tensor> results;
    for (const Gradient& result : context.strategy().extended().replica_all_reduce(
             context, {.op = op, .values = own, .options = options})) {
      results.push_back(result.dense());
    }
    return results;
  }

  std::vector<Tensor> all_gather(const Tensor& value, int axis,
                                 const CommunicationOptions& options) override {
    ReplicaContext& context = *get_replica_context();
    const Gradient gathered = value;
    ReplicaCall own{
        .what = "all_gather",
        .axis = axis,
        .values = {&gathered, 1},
        .options = context.strategy().extended().traits().communication.merged_with(options)};
    meet_once(context, own, gather_for_all);
    return {own.results[0].dense(), own.results[1].dense()};
  }

  bool is_shared(const GraphBuilder* graph) const override {
    const ReplicaRendezvous* rendezvous = Access::rendezvous(*get_replica_context());
    return graph != nullptr && rendezvous != nullptr && rendezvous->shared_graph() == graph;
  }
};

// Tells the tapes of what is dense: rows have no gradient.
void record_dense(ReduceOp op, const std::vector<Gradient>& values,
                  const std::vector<Gradient>& results, const CommunicationOptions& options) {
  if (thread_dispatch().recorder == nullptr) return;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined() || values[i].is_sparse() || results[i].is_sparse()) continue;
    inputs.push_back(values[i].dense());
    outputs.push_back(results[i].dense());
  }
  if (!inputs.empty()) record_all_reduce(op, options, inputs, outputs);
}

}  // namespace

ReplicaPort* replica_port() {
  static ContextPort port;
  const ReplicaContext* context = get_replica_context();
  return context != nullptr && context->num_replicas_in_sync() > 1 ? &port : nullptr;
}

bool is_tracing_alone(const ReplicaContext& context) {
  const GraphBuilder* graph = thread_dispatch().builder;
  const ReplicaRendezvous* rendezvous = Access::rendezvous(context);
  return graph != nullptr && (rendezvous == nullptr || rendezvous->shared_graph() != graph);
}

void meet_once(ReplicaContext& context, ReplicaCall& own,
               const std::function<void(const ReplicaCalls&)>& once) {
  if (Access::rendezvous(context) == nullptr) {
    raise(Code::Unimplemented,
          "[{}] replica {} of {} has no rendezvous with the others; the strategy must provide one",
          own.what, context.replica_id_in_sync_group(), context.strategy().extended().name());
  }
  Access::rendezvous(context)->meet(
      context.local_replica(), own.as_call(),
      [&](std::span<void* const> owns) {
        const ReplicaCalls calls(owns);
        calls.check_same();
        const AdoptedPurpose of_the_first(calls[0].purpose);  // whichever replica this is
        once(calls);
      },
      nullptr);
}

std::vector<Gradient> trace_all_reduce(ReduceOp op, const std::vector<Gradient>& values,
                                       int replicas, const CommunicationOptions& options) {
  const bool adds = op == ReduceOp::Sum || op == ReduceOp::Mean;
  std::vector<Gradient> results(values.size());
  std::vector<Tensor> dense;
  std::vector<size_t> positions;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined()) continue;
    if (values[i].is_sparse() && adds) continue;
    dense.push_back(values[i].dense());
    positions.push_back(i);
  }
  // At least one reduction, so that all replicas meet and compare what they have.
  if (dense.empty() && !values.empty()) dense.push_back(zeros(Shape{}));
  if (dense.empty()) return results;
  const std::vector<Tensor> reduced = replica_all_reduce(op, dense, options);
  for (size_t k = 0; k < positions.size(); ++k) results[positions[k]] = reduced[k];
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined() || !values[i].is_sparse() || !adds) continue;
    const IndexedSlices& own = values[i].slices();
    Tensor rows = replica_all_gather(own.values, 0, options);
    if (op == ReduceOp::Mean) rows = div(rows, replicas);
    results[i] = IndexedSlices{rows, replica_all_gather(own.indices, 0, options), own.dense_shape};
  }
  return results;
}

void reduce_for_all(StrategyExtended& extended, const ReplicaCalls& calls) {
  calls.check_same();
  const Destinations everywhere = Destinations::of_devices(extended.worker_devices());
  std::vector<ReduceRequest> requests;
  std::vector<size_t> places;
  for (size_t i = 0; i < calls[0].values.size(); ++i) {
    std::vector<Gradient> values = calls.at(i);
    if (!fill_undefined(calls[0].op, values)) continue;
    check_reducible("all_reduce", values);
    requests.push_back({{DistributedValue::Kind::PerReplica, std::move(values)}, everywhere});
    places.push_back(i);
  }
  const ModeScope cross({&extended.strategy(), nullptr});
  const std::vector<DistributedValue> reduced =
      extended.batch_reduce_to(calls[0].op, requests, calls[0].options);
  for (size_t replica = 0; replica < calls.size(); ++replica) {
    calls[replica].results.assign(calls[0].values.size(), Gradient());
    for (size_t k = 0; k < reduced.size(); ++k) {
      calls[replica].results[places[k]] =
          reduced[k].size() == 1 ? reduced[k][0] : reduced[k][replica];
    }
  }
}

std::vector<Gradient> all_reduce_values(ReplicaContext& context, ReduceOp op,
                                        const std::vector<Gradient>& values, bool may_lack,
                                        const CommunicationOptions& options,
                                        const std::string& structure, Site site) {
  const SiteScope there(site);
  require_replica(context, "all_reduce");
  check(options);
  if (context.num_replicas_in_sync() == 1) return values;
  const bool is_tracing = is_tracing_alone(context);
  // A reduction of the library itself has the purpose of its caller.
  std::optional<CollectivePurpose> purpose;
  if (site.line != 0 || CollectivePurpose::current() == nullptr) {
    if (is_tracing) {
      purpose.emplace(describe_presence(values), site);
    } else if (!structure.empty()) {
      purpose.emplace("all_reduce of " + structure, site);
    } else {
      purpose.emplace("all_reduce", site);
    }
  }
  if (is_tracing) {
    return trace_all_reduce(op, values, context.num_replicas_in_sync(), options);
  }
  std::vector<Gradient> results;
  {
    // Tapes get one all_reduce (record_dense) instead of the additions that it makes.
    const RecordingPause not_recorded;
    results = context.strategy().extended().replica_all_reduce(
        context, {.op = op, .values = values, .may_lack = may_lack, .options = options});
  }
  record_dense(op, values, results, options);
  return results;
}

Tensor all_gather_value(ReplicaContext& context, const Gradient& value, int axis,
                        const CommunicationOptions& options, const std::string& structure,
                        Site site) {
  const SiteScope there(site);
  const CollectivePurpose purpose(
      fmt::format("all_gather{}{} along axis {}", structure.empty() ? "" : " of ", structure, axis),
      site);
  require_replica(context, "all_gather");
  check(options);
  const bool alone = context.num_replicas_in_sync() == 1;
  if (alone || value.is_sparse()) check_gatherable("all_gather", {&value, 1}, axis);
  const Tensor own = value.dense();
  return alone ? own : replica_all_gather(own, axis, options);
}

}  // namespace internal
}  // namespace cohort
