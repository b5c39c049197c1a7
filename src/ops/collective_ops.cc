// Reductions and gathers between replicas, and reductions, gathers and broadcasts between workers.
// The kernels wait for the others.

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "base/collective_purpose.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "base/random_number.h"
#include "base/time_limit.h"
#include "cohort/ops.h"
#include "kernels/reduce_elements.h"
#include "ops/all_ops.h"
#include "ops/collective_ports.h"
#include "ops/kernel.h"

namespace cohort::internal {
namespace {

// How they meet, and this thread's purpose and its site.
constexpr AttrList kCollectiveAttrs{{"bytes_per_pack", AttrKind::Int}, {"timeout", AttrKind::Int},
                                    {"implementation", AttrKind::Int}, {"what", AttrKind::Text},
                                    {"file", AttrKind::Text},          {"line", AttrKind::Int}};
constexpr int64_t kNoTimeout = 0;  // a given timeout is positive, in nanoseconds
// Sets the attribute `name`, the number of the place where they meet, and kCollectiveAttrs.
void set_collective_attrs(Attrs& attrs, std::string_view name, int64_t number,
                          const CommunicationOptions& options) {
  attrs.set(name, number);
  attrs.set("bytes_per_pack", options.bytes_per_pack);
  const auto timeout = endless_if_zero(options.timeout);
  attrs.set("timeout", timeout ? int64_t{timeout->count()} : kNoTimeout);
  attrs.set("implementation", static_cast<int64_t>(options.implementation));
  const CollectivePurpose* const purpose = CollectivePurpose::current();
  const Site site = purpose != nullptr ? purpose->site() : Site();
  attrs.set("what", std::string(purpose != nullptr ? purpose->text() : ""));
  attrs.set("file", std::string(site.file));
  attrs.set("line", int64_t{site.line});
}

CommunicationOptions options_of(const Attrs& attrs) {
  CommunicationOptions options;
  options.bytes_per_pack = attrs.integer("bytes_per_pack");
  const int64_t timeout = attrs.integer("timeout");
  if (timeout != kNoTimeout) options.timeout = std::chrono::nanoseconds(timeout);
  options.implementation =
      static_cast<CommunicationImplementation>(attrs.integer("implementation"));
  return options;
}

// The purpose that it was made for, again; the attributes must outlive it.
CollectivePurpose purpose_of(const Attrs& attrs) {
  return CollectivePurpose(attrs.get<std::string>("what"),
                           {.file = attrs.get<std::string>("file").c_str(),
                            .line = static_cast<int>(attrs.integer("line"))});
}

// The attribute "op". InvalidArgument for a number that is none.
ReduceOp reduce_op_of(const Attrs& attrs) { return static_cast<ReduceOp>(attrs.integer("op")); }
void check_reduce_op(const OpInputs& inputs) {
  const int64_t number = inputs.attrs.integer("op");
  if (number >= 0 && number <= static_cast<int64_t>(ReduceOp::Product)) return;
  raise(Code::InvalidArgument, "[{}] {} is not a ReduceOp", inputs.op, number);
}

// The attribute "axis" of a value of known rank. Throws InvalidArgument for a scalar, and for an
// axis that the value does not have.
int checked_gather_axis(const OpInputs& inputs) {
  const Shape& shape = inputs.shape(0);
  require_rank_at_least(inputs.op, shape, 1, "a value to gather");
  const int64_t axis = inputs.attrs.integer("axis");
  if (axis >= 0 && axis < shape.rank()) return static_cast<int>(axis);
  raise(Code::InvalidArgument, "[{}] axis {} is outside of 0 to {} of shape {}", inputs.op, axis,
        shape.rank() - 1, shape.to_string());
}

Specs as_the_inputs(const OpInputs& inputs) { return specs_of(inputs.tensors); }

// Runs `body`, which may be a user's code, as if no kernel called it.
template <typename Body>
void set_outputs(Kernel& k, const Body& body) {
  const PlainDispatch plain;
  const OutsideKernel outside;
  const CollectivePurpose purpose = purpose_of(k.attrs);
  const std::vector<Tensor> results = body();
  std::copy(results.begin(), results.end(), k.outputs.begin());
}

int64_t num_replicas(const ReplicaPort* port) { return port != nullptr ? port->num_replicas() : 1; }

// The attributes that both ops have: for how many replicas the call is made, and how they meet.
void set_common(Attrs& attrs, const CommunicationOptions& options) {
  set_collective_attrs(attrs, "replicas", num_replicas(replica_port()), options);
}

// Whether a call reaches the other replicas here and now, instead of through a node of a graph that
// this replica builds by itself.
bool meets_now(const ReplicaPort* port, std::span<const Tensor> inputs) {
  if (port == nullptr) return false;
  if (port->is_shared(thread_dispatch().builder)) return true;
  return thread_dispatch().builder == nullptr &&
         std::none_of(inputs.begin(), inputs.end(),
                      [](const Tensor& input) { return input.is_symbolic(); });
}

void record(const OpDef& op, Attrs attrs, const CommunicationOptions& options,
            std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (thread_dispatch().recorder == nullptr) return;
  set_common(attrs, options);
  record_call({.op = &op,
               .attrs = std::move(attrs),
               .inputs = {inputs.begin(), inputs.end()},
               .outputs = {outputs.begin(), outputs.end()}});
}

// Lets the replicas meet(port), now or as a node. Tapes record the whole and nothing inside it.
template <typename Meet>
std::vector<Tensor> call_replicas(const OpDef& op, Attrs attrs, std::span<const Tensor> values,
                                  const CommunicationOptions& options, Site site,
                                  const Meet& meet) {
  ReplicaPort* const port = replica_port();
  if (!meets_now(port, values)) {
    set_common(attrs, options);
    return apply_many(op, values, std::move(attrs), site);
  }
  std::vector<Tensor> outputs;
  {
    const RecordingPause not_recorded;
    outputs = meet(*port);
  }
  record(op, std::move(attrs), options, values, outputs);
  return outputs;
}

// The port of a kernel. A function that a replica traced means nothing elsewhere.
ReplicaPort* port_for(const Kernel& k, std::string_view op) {
  ReplicaPort* port = replica_port();
  const int64_t wanted = k.attrs.integer("replicas");
  if (num_replicas(port) == wanted) return port;
  raise(Code::FailedPrecondition,
        "[{}] was traced for {} replicas, but runs with {}; call the function inside the same "
        "strategy's run()",
        op, wanted, num_replicas(port));
}

// What one replica alone gets.
void alias_inputs(Kernel& k) {
  for (size_t i = 0; i < k.inputs.size(); ++i) {
    const DType dtype = reduced_dtype(reduce_op_of(k.attrs), k.inputs[i].dtype());
    set(k, in(k, i).to(to_aten(dtype)).alias(), i);
  }
}

void compute_all_reduce(Kernel& k) {
  ReplicaPort* port = port_for(k, "ReplicaAllReduce");
  if (port == nullptr) return alias_inputs(k);
  set_outputs(
      k, [&] { return port->all_reduce(reduce_op_of(k.attrs), k.inputs, options_of(k.attrs)); });
}

void compute_all_gather(Kernel& k) {
  ReplicaPort* port = port_for(k, "ReplicaAllGather");
  const int64_t axis = k.attrs.integer("axis");
  if (port == nullptr) {
    set(k, in(k).alias(), 0);
    return set(k, at::arange(in(k).size(axis), at::kLong), 1);
  }
  set_outputs(k, [&] {
    return port->all_gather(k.inputs[0], static_cast<int>(axis), options_of(k.attrs));
  });
}

// The value of all replicas, and which rows of it are this one's.
std::vector<Tensor> gather_with_rows(const Tensor& value, int axis,
                                     const CommunicationOptions& options, Site site) {
  return call_replicas(kReplicaAllGather, {{"axis", int64_t{axis}}}, {&value, 1}, options, site,
                       [&](ReplicaPort& port) { return port.all_gather(value, axis, options); });
}

Tensor sum_over_replicas(const Tensor& x, const CommunicationOptions& options) {
  return replica_all_reduce(ReduceOp::Sum, {&x, 1}, options)[0];
}

// What comes in for the outputs that have gradients: zeros where this replica's target does not
// depend on one, since that of another replica may. All of them reduce the same list.
struct Incoming {
  std::vector<Tensor> values = {};
  std::vector<size_t> places = {};

  Incoming(const OpCall& call, Grads g) {
    for (size_t i = 0; i < g.size(); ++i) {
      if (!is_floating(call.outputs[i].dtype()) || !is_floating(call.inputs[i].dtype())) continue;
      values.push_back(g[i].defined() ? g[i] : zeros_like(call.outputs[i]));
      places.push_back(i);
    }
  }
};

// Of the summed gradient, the share of a replica that holds the extreme.
Tensor gradient_of_extreme(const Tensor& x, const Tensor& extreme, const Tensor& g,
                           const CommunicationOptions& options) {
  const Tensor holds = cast(equal(x, extreme), g.dtype());
  const std::vector<Tensor> both{g, holds};
  const std::vector<Tensor> sums = replica_all_reduce(ReduceOp::Sum, both, options);
  return sums[0] * holds / sums[1];
}

// Times the product of the other replicas' values, which stays right where some are zero.
Tensor gradient_of_product(const Tensor& x, const Tensor& g, const CommunicationOptions& options) {
  const std::vector<Tensor> all = gather_with_rows(expand_dims(x, 0), 0, options, {});
  const Tensor others = apply(kProdOthers, {all[0]},
                              {{"axes", std::vector<int64_t>{0}}, {"all", false}, {"keep", false}});
  return sum_over_replicas(g, options) * squeeze(gather(others, all[1], 0), 0);
}

Gradients all_reduce_gradient(const OpCall& call, Grads g) {
  const ReduceOp op = reduce_op_of(call.attrs);
  const CommunicationOptions options = options_of(call.attrs);
  const Incoming incoming(call, g);
  Gradients gradients(call.inputs.size());
  if (op == ReduceOp::Sum || op == ReduceOp::Mean) {
    const std::vector<Tensor> reduced = replica_all_reduce(op, incoming.values, options);
    for (size_t k = 0; k < reduced.size(); ++k) gradients[incoming.places[k]] = reduced[k];
    return gradients;
  }
  for (size_t k = 0; k < incoming.places.size(); ++k) {
    const size_t i = incoming.places[k];
    const Tensor& from = incoming.values[k];
    gradients[i] = op == ReduceOp::Product
                       ? gradient_of_product(call.inputs[i], from, options)
                       : gradient_of_extreme(call.inputs[i], call.outputs[i], from, options);
  }
  return gradients;
}

}  // namespace

extern constexpr OpDef kReplicaAllReduce{
    .name = "ReplicaAllReduce",
    .inputs = {1, kAnyNumber},
    .dtypes = kNumberTypes,
    .attrs = AttrList{{"op", AttrKind::Int}, {"replicas", AttrKind::Int}} + kCollectiveAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      check_reduce_op(inputs);
      Specs specs = as_the_inputs(inputs);
      for (Spec& spec : specs) spec.dtype = reduced_dtype(reduce_op_of(inputs.attrs), spec.dtype);
      return specs;
    },
    .compute = compute_all_reduce,
    .gradient = all_reduce_gradient,
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kReplicaAllGather{
    .name = "ReplicaAllGather",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = AttrList{{"axis", AttrKind::Int}, {"replicas", AttrKind::Int}} + kCollectiveAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      if (!shape.has_rank()) return {{inputs.dtype(0), shape}, {kInt64, Shape{-1}}};
      const int axis = checked_gather_axis(inputs);
      return {{inputs.dtype(0), shape.with(axis, Shape::kUnknownDim)},
              {kInt64, Shape{shape[axis]}}};
    },
    .compute = compute_all_gather,
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor total = sum_over_replicas(g[0], options_of(call.attrs));
      return {gather(total, call.outputs[1], static_cast<int>(call.attrs.integer("axis")))};
    },
    .traits = Trait::HasEffect,
};

std::vector<Tensor> replica_all_reduce(ReduceOp op, std::span<const Tensor> values,
                                       const CommunicationOptions& options, Site site) {
  return call_replicas(kReplicaAllReduce, {{"op", static_cast<int64_t>(op)}}, values, options, site,
                       [&](ReplicaPort& port) { return port.all_reduce(op, values, options); });
}

void record_all_reduce(ReduceOp op, const CommunicationOptions& options,
                       std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  record(kReplicaAllReduce, {{"op", static_cast<int64_t>(op)}}, options, inputs, outputs);
}

Tensor replica_all_gather(const Tensor& value, int axis, const CommunicationOptions& options,
                          Site site) {
  return gather_with_rows(value, axis, options, site)[0];
}

namespace {

// The ports of this process.
class PortTable {
 public:
  int64_t add(WorkerPort& port) {
    const std::lock_guard lock(mutex_);
    int64_t number = kNoWorkerPort;
    while (number == kNoWorkerPort || ports_.contains(number))
      number = static_cast<int64_t>(random_number() >> 1);
    ports_[number] = &port;
    return number;
  }

  void remove(int64_t number) {
    const std::lock_guard lock(mutex_);
    ports_.erase(number);
  }

  WorkerPort* find(int64_t number) const {
    const std::lock_guard lock(mutex_);
    const auto found = ports_.find(number);
    return found == ports_.end() ? nullptr : found->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<int64_t, WorkerPort*> ports_;
};

// Never destroyed: strategies may live until the program ends.
PortTable& port_table() {
  static auto* table = new PortTable();
  return *table;
}

// The port of a kernel; null for one worker alone.
WorkerPort* worker_port_for(const Kernel& k, std::string_view op) {
  const int64_t number = k.attrs.integer("port");
  if (number == kNoWorkerPort) return nullptr;
  if (WorkerPort* const port = port_table().find(number)) return port;
  raise(Code::FailedPrecondition,
        "[{}] the strategy of this call has ended or belongs to another process; call the function "
        "in the process that traced it, while the strategy exists",
        op);
}

// Lets `body` ask the port; one worker alone gets what it gives.
template <typename Body>
void meet_workers(Kernel& k, std::string_view op, const Body& body) {
  if (WorkerPort* const port = worker_port_for(k, op)) {
    return set_outputs(k, [&] { return body(*port, options_of(k.attrs)); });
  }
  for (size_t i = 0; i < k.inputs.size(); ++i) set(k, in(k, i).alias(), i);
}

constexpr OpDef worker_op(std::string_view name, InputCount inputs, DTypeSet dtypes,
                          const AttrList& attrs, Infer infer, Compute compute) {
  return {.name = name,
          .inputs = inputs,
          .dtypes = dtypes,
          .attrs = attrs + AttrList{{"port", AttrKind::Int}} + kCollectiveAttrs,
          .infer = infer,
          .compute = compute,
          .no_gradient_because =
              "workers reduce outside of replicas, where the loss of all replicas is unknown; "
              "reduce inside run() with ReplicaContext::all_reduce or all_gather",
          .traits = Trait::HasEffect};
}

std::vector<Tensor> call_workers(const OpDef& op, int64_t port, std::span<const Tensor> values,
                                 Attrs attrs, const CommunicationOptions& options) {
  set_collective_attrs(attrs, "port", port, options);
  return apply_many(op, values, std::move(attrs), {});
}

}  // namespace

extern constexpr OpDef kWorkerAllReduce = worker_op(
    "WorkerAllReduce", {1, kAnyNumber}, kNumberTypes, {{"op", AttrKind::Int}},
    [](const OpInputs& inputs) -> Specs {
      check_reduce_op(inputs);
      if (reduce_op_of(inputs.attrs) == ReduceOp::Mean) {
        raise(Code::InvalidArgument,
              "[{}] a mean over workers is not supported, because a worker does not know how many "
              "replicas the other workers have; sum, then divide",
              inputs.op);
      }
      return as_the_inputs(inputs);
    },
    [](Kernel& k) {
      meet_workers(k, "WorkerAllReduce", [&](WorkerPort& port, const auto& options) {
        return port.all_reduce(reduce_op_of(k.attrs), k.inputs, options);
      });
    });

extern constexpr OpDef kWorkerAllGather = worker_op(
    "WorkerAllGather", 1, kNumericTypes, {{"axis", AttrKind::Int}},
    [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      if (!shape.has_rank()) return {{inputs.dtype(0), shape}};
      return {{inputs.dtype(0), shape.with(checked_gather_axis(inputs), Shape::kUnknownDim)}};
    },
    [](Kernel& k) {
      const auto axis = static_cast<int>(k.attrs.integer("axis"));
      meet_workers(k, "WorkerAllGather", [&](WorkerPort& port, const auto& options) {
        return std::vector<Tensor>{port.all_gather(k.inputs[0], axis, options)};
      });
    });

extern constexpr OpDef kWorkerBroadcast =
    worker_op("WorkerBroadcast", 1, kNumericTypes, {}, as_the_inputs, [](Kernel& k) {
      meet_workers(k, "WorkerBroadcast", [&](WorkerPort& port, const auto& options) {
        return std::vector<Tensor>{port.broadcast(k.inputs[0], options)};
      });
    });

WorkerPortEntry::WorkerPortEntry(WorkerPort& port) : number_(port_table().add(port)) {}
WorkerPortEntry::~WorkerPortEntry() { port_table().remove(number_); }

std::vector<Tensor> worker_all_reduce(int64_t port, ReduceOp op, std::span<const Tensor> values,
                                      const CommunicationOptions& options) {
  return call_workers(kWorkerAllReduce, port, values, {{"op", static_cast<int64_t>(op)}}, options);
}

Tensor worker_all_gather(int64_t port, const Tensor& value, int axis,
                         const CommunicationOptions& options) {
  return call_workers(kWorkerAllGather, port, {&value, 1}, {{"axis", int64_t{axis}}}, options)[0];
}

Tensor worker_broadcast(int64_t port, const Tensor& value, const CommunicationOptions& options) {
  return call_workers(kWorkerBroadcast, port, {&value, 1}, {}, options)[0];
}

}  // namespace cohort::internal
