// Reductions and gathers between replicas. The kernels wait for the other replicas.

#include <algorithm>
#include <atomic>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/collective_attrs.h"
#include "ops/collective_ports.h"
#include "ops/elementwise.h"

namespace cohort::internal {
namespace {

using Finder = ReplicaPort* (*)();

std::atomic<Finder>& port_finder() {
  static std::atomic<Finder> finder{nullptr};
  return finder;
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

// Lets `body` compute the outputs, of which only the whole is recorded.
template <typename Body>
std::vector<Tensor> unrecorded(const Body& body) {
  const RecordingPause unheard;
  return body();
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

// The port of a kernel. A function that a replica traced means nothing elsewhere.
ReplicaPort* port_for(const Kernel& k, std::string_view op) {
  ReplicaPort* port = replica_port();
  const int64_t wanted = k.attrs.integer("replicas");
  if (num_replicas(port) == wanted) return port;
  raise(Code::FailedPrecondition,
        "[{}] was traced in one of {} replicas, but runs where there are {}; call the function "
        "inside of the same strategy's run()",
        op, wanted, num_replicas(port));
}

// What one replica alone gets.
void pass_on(Kernel& k) {
  for (size_t i = 0; i < k.inputs.size(); ++i) {
    const DType dtype = k.inputs[i].dtype();
    const bool divides = reduce_op_of(k.attrs) == ReduceOp::Mean;
    set(k, in(k, i).to(to_aten(divides ? division_dtype(dtype) : dtype)).alias(), i);
  }
}

void compute_all_reduce(Kernel& k) {
  ReplicaPort* port = port_for(k, "ReplicaAllReduce");
  if (port == nullptr) return pass_on(k);
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
  Attrs attrs{{"axis", int64_t{axis}}};
  ReplicaPort* port = replica_port();
  if (!meets_now(port, {&value, 1})) {
    set_common(attrs, options);
    return apply_many(kReplicaAllGather, {&value, 1}, std::move(attrs), site);
  }
  std::vector<Tensor> outputs = unrecorded([&] { return port->all_gather(value, axis, options); });
  record(kReplicaAllGather, std::move(attrs), options, {&value, 1}, outputs);
  return outputs;
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
      const bool divides = reduce_op_of(inputs.attrs) == ReduceOp::Mean;
      Specs specs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const DType dtype = inputs.dtype(i);
        specs.push_back({divides ? division_dtype(dtype) : dtype, inputs.shape(i)});
      }
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

ReplicaPort* replica_port() {
  const Finder finder = port_finder().load(std::memory_order_acquire);
  return finder != nullptr ? finder() : nullptr;
}

void set_replica_port_finder(Finder finder) {
  port_finder().store(finder, std::memory_order_release);
}

std::vector<Tensor> replica_all_reduce(ReduceOp op, std::span<const Tensor> values,
                                       const CommunicationOptions& options, Site site) {
  ReplicaPort* port = replica_port();
  if (!meets_now(port, values)) {
    Attrs attrs{{"op", static_cast<int64_t>(op)}};
    set_common(attrs, options);
    return apply_many(kReplicaAllReduce, values, std::move(attrs), site);
  }
  std::vector<Tensor> outputs = unrecorded([&] { return port->all_reduce(op, values, options); });
  record_all_reduce(op, options, values, outputs);
  return outputs;
}

void record_all_reduce(ReduceOp op, const CommunicationOptions& options,
                       std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  record(kReplicaAllReduce, {{"op", static_cast<int64_t>(op)}}, options, inputs, outputs);
}

Tensor replica_all_gather(const Tensor& value, int axis, const CommunicationOptions& options,
                          Site site) {
  return gather_with_rows(value, axis, options, site)[0];
}

}  // namespace cohort::internal
