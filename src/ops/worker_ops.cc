// Reductions, gathers and broadcasts between workers. The kernels wait for the other workers.

#include <map>
#include <mutex>

#include "base/machine.h"
#include "base/raise.h"
#include "ops/all_ops.h"
#include "ops/collective_attrs.h"
#include "ops/worker_collectives_interface.h"

namespace cohort::internal {
namespace {

constexpr std::string_view kNoWorkerGradient =
    "workers reduce outside of replicas, where nobody knows what the loss of all is; reduce inside "
    "of run() with ReplicaContext::all_reduce or all_gather";

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
  mutable std::mutex mutex_;
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
        "[{}] the strategy whose workers were to meet here has ended, or is one of another "
        "process; call the function in the process that traced it, while the strategy lives",
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

void compute_worker_all_reduce(Kernel& k) {
  meet_workers(k, "WorkerAllReduce", [&](WorkerPort& port, const CommunicationOptions& options) {
    return port.all_reduce(reduce_op_of(k.attrs), k.inputs, options);
  });
}

void compute_worker_all_gather(Kernel& k) {
  const auto axis = static_cast<int>(k.attrs.integer("axis"));
  meet_workers(k, "WorkerAllGather", [&](WorkerPort& port, const CommunicationOptions& options) {
    return std::vector<Tensor>{port.all_gather(k.inputs[0], axis, options)};
  });
}

void compute_worker_broadcast(Kernel& k) {
  meet_workers(k, "WorkerBroadcast", [&](WorkerPort& port, const CommunicationOptions& options) {
    return std::vector<Tensor>{port.broadcast(k.inputs[0], options)};
  });
}

std::vector<Tensor> call_workers(const OpDef& op, int64_t port, std::span<const Tensor> values,
                                 Attrs attrs, const CommunicationOptions& options) {
  set_collective_attrs(attrs, "port", port, options);
  return apply_many(op, values, std::move(attrs), {});
}

Specs as_the_inputs(const OpInputs& inputs) {
  Specs specs;
  for (size_t i = 0; i < inputs.size(); ++i) specs.push_back({inputs.dtype(i), inputs.shape(i)});
  return specs;
}

}  // namespace

extern constexpr OpDef kWorkerAllReduce{
    .name = "WorkerAllReduce",
    .inputs = {1, kAnyNumber},
    .dtypes = kNumberTypes,
    .attrs = AttrList{{"op", AttrKind::Int}, {"port", AttrKind::Int}} + kCollectiveAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      check_reduce_op(inputs);
      if (reduce_op_of(inputs.attrs) == ReduceOp::Mean) {
        raise(Code::InvalidArgument,
              "[{}] workers do not know how many replicas the others have; sum, then divide",
              inputs.op);
      }
      return as_the_inputs(inputs);
    },
    .compute = compute_worker_all_reduce,
    .no_gradient_because = kNoWorkerGradient,
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kWorkerAllGather{
    .name = "WorkerAllGather",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = AttrList{{"axis", AttrKind::Int}, {"port", AttrKind::Int}} + kCollectiveAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      if (!shape.has_rank()) return {{inputs.dtype(0), shape}};
      return {{inputs.dtype(0), shape.with(checked_gather_axis(inputs), Shape::kUnknownDim)}};
    },
    .compute = compute_worker_all_gather,
    .no_gradient_because = kNoWorkerGradient,
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kWorkerBroadcast{
    .name = "WorkerBroadcast",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = AttrList{{"port", AttrKind::Int}} + kCollectiveAttrs,
    .infer = as_the_inputs,
    .compute = compute_worker_broadcast,
    .no_gradient_because = kNoWorkerGradient,
    .traits = Trait::HasEffect,
};

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
