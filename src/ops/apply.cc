#include <algorithm>
#include <typeinfo>

#include "base/raise.h"
#include "base/site_scope.h"
#include "cohort/ops.h"
#include "ops/device_execution.h"
#include "ops/dispatch.h"
#include "ops/kernel.h"
#include "ops/variable_cell.h"
#include "tensor/body.h"

namespace cohort {
namespace internal {
namespace {

// The graph that the call belongs to: the one being built here, else a symbolic input's.
std::shared_ptr<GraphBuilder> builder_for(std::span<const Tensor> inputs) {
  if (GraphBuilder* building = thread_dispatch().builder) {
    return {std::shared_ptr<void>(), building};  // kept alive by the scope that opened it
  }
  for (const Tensor& input : inputs) {
    if (!input.is_symbolic()) continue;
    auto builder = static_cast<const SymbolBody&>(body(input)).builder.lock();
    if (builder) return builder;
    raise(Code::FailedPrecondition, "[Graph] the graph of a symbolic input no longer exists");
  }
  return nullptr;
}

void check_dtypes(const OpDef& op, std::span<const Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      raise(Code::FailedPrecondition, "[{}] input {} holds nothing: it was never assigned", op.name,
            i);
    }
    const DType dtype = body(inputs[i]).dtype;
    if (op.dtypes.has(dtype)) continue;
    raise(Code::InvalidArgument, "[{}] input {} is {}, but must be one of {}; cast() converts",
          op.name, i, to_string(dtype), op.dtypes.to_string());
  }
}

// The dtypes and shapes of the outputs. While a graph is built, an error names the line of the
// program that calls the op: no line of a trace says which op failed.
Specs infer(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, bool builds,
            Site site) {
  try {
    return op.infer({op.name, inputs, attrs});
  } catch (const Error& error) {
    const Site line = caller_of(site);
    if (!builds || line.line <= 0) throw;
    Status status = error.status();
    status.message += fmt::format(" (called at {}:{})", line.file, line.line);
    throw Error(std::move(status));
  }
}

void tell_recorders(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                    std::span<const Tensor> outputs) {
  for (Recorder* recorder = thread_dispatch().recorder; recorder; recorder = recorder->outer) {
    if (!recorder->wants(inputs)) continue;
    recorder->record({.op = &op,
                      .attrs = attrs,
                      .inputs = {inputs.begin(), inputs.end()},
                      .outputs = {outputs.begin(), outputs.end()}});
  }
}

// What passes `infer` should compute, unless memory runs out.
[[noreturn]] void raise_kernel_failure(const OpDef& op, std::span<const Tensor> inputs,
                                       std::string_view reason) {
  std::string shapes;
  for (const Tensor& input : inputs)
    shapes += (shapes.empty() ? "" : ", ") + input.shape().to_string();
  const bool out_of_memory = reason.find("not enough memory") != std::string_view::npos ||
                             reason.find("allocate memory") != std::string_view::npos;
  const Place place = has_gpus() ? device_of_call(inputs).place : Place{};
  raise(out_of_memory ? Code::ResourceExhausted : Code::Internal,
        "[{}] the kernel failed{} on inputs of shapes {}: {}", op.name,
        place.is_host() ? "" : fmt::format(" on GPU:{}", place.gpu), shapes, reason);
}

void compute(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
             std::span<Tensor> outputs) {
  // Throws when the open scopes ask for a device that is not here.
  if (remote_resource_of(inputs) == nullptr) current_device();
  const ScopedKernel scope;
  execute(op, inputs, attrs, outputs, nullptr);
}

constinit ContextSlot<int> numerics_guards;  // how many are open

// Throws InvalidArgument naming `op` when an output has a NaN or an infinity, and the input that
// already had one, if so.
void check_outputs(const OpDef& op, std::span<const Tensor> inputs,
                   std::span<const Tensor> outputs) {
  for (const Tensor& output : outputs) {
    const std::string made = describe_non_finite(output);
    if (made.empty()) continue;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string found = describe_non_finite(inputs[i]);
      if (found.empty()) continue;
      raise(Code::InvalidArgument,
            "[{}] input {} already had {}, from before the check began; the output has {}", op.name,
            i, found, made);
    }
    raise(Code::InvalidArgument, "[{}] made {} from finite inputs", op.name, made);
  }
}

}  // namespace

std::string describe_non_finite(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype())) return {};
  const at::Tensor& value = aten(x);
  if (at::isfinite(value).all().item<bool>()) return {};
  return fmt::format("{} NaN and {} infinite among {} values of shape {}",
                     at::isnan(value).sum().item<int64_t>(), at::isinf(value).sum().item<int64_t>(),
                     x.size(), x.shape().to_string());
}

bool numerics_guarded() { return numerics_guards.get() > 0; }

const RemoteResource* remote_resource_of(std::span<const Tensor> inputs) {
  if (inputs.empty() || body(inputs[0]).dtype != kResource) return nullptr;
  const Resource* const resource = resource_of(inputs[0]).get();
  // Most handles are those of cells; a cast across classes takes longer than to see that.
  if (typeid(*resource) == typeid(VariableCell)) return nullptr;
  return dynamic_cast<const RemoteResource*>(resource);
}

void execute(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
             std::span<Tensor> outputs, RunContext* run) {
  if (const RemoteResource* const remote = remote_resource_of(inputs)) {
    std::ranges::move(remote->run(op, inputs, attrs), outputs.begin());
    return;
  }
  try {
    if (has_gpus()) [[unlikely]] {
      compute_with_gpus(op, inputs, outputs, [&](std::span<const Tensor> there) {
        Kernel kernel{there, attrs, outputs, run};
        op.compute(kernel);
      });
    } else {
      Kernel kernel{inputs, attrs, outputs, run};
      op.compute(kernel);
    }
  } catch (const c10::Error& error) {
    raise_kernel_failure(op, inputs, error.what_without_backtrace());
  }
  if (numerics_guarded()) check_outputs(op, inputs, outputs);
}

KernelScope::KernelScope() {
  static_assert(sizeof(ScopedKernel) <= sizeof(storage_));
  new (storage_) ScopedKernel();
}
KernelScope::~KernelScope() { reinterpret_cast<ScopedKernel*>(storage_)->~ScopedKernel(); }

ThreadDispatch& thread_dispatch() {
  static constinit ContextSlot<ThreadDispatch> slot;
  return slot.get();
}

void record_call(const OpCall& call) {
  for (Recorder* recorder = thread_dispatch().recorder; recorder; recorder = recorder->outer) {
    if (recorder->wants(call.inputs)) recorder->record(call);
  }
}

void remove_recorder(const Recorder& recorder) {
  const auto unlink = [&](Recorder** link) {
    while (*link != nullptr && *link != &recorder) link = &(*link)->outer;
    if (*link != nullptr) *link = recorder.outer;
  };
  unlink(&thread_dispatch().recorder);
  for (RecordingPause* pause = thread_dispatch().pause; pause; pause = pause->outer_) {
    unlink(&pause->paused_);
  }
}

Tensor apply(const OpDef& op, std::span<const Tensor> inputs, Attrs attrs, Site site) {
  check_dtypes(op, inputs);
  const std::shared_ptr<GraphBuilder> builder = builder_for(inputs);
  const Specs specs = infer(op, inputs, attrs, builder != nullptr, site);
  if (builder != nullptr) {
    Tensor output = builder->append(op, inputs, attrs, specs, site)[0];
    tell_recorders(op, inputs, attrs, {&output, 1});
    return output;
  }
  Tensor output;
  compute(op, inputs, attrs, {&output, 1});
  tell_recorders(op, inputs, attrs, {&output, 1});
  return output;
}

std::vector<Tensor> apply_many(const OpDef& op, std::span<const Tensor> inputs, Attrs attrs,
                               Site site) {
  check_dtypes(op, inputs);
  const std::shared_ptr<GraphBuilder> builder = builder_for(inputs);
  const Specs specs = infer(op, inputs, attrs, builder != nullptr, site);
  std::vector<Tensor> outputs;
  if (builder != nullptr) {
    outputs = builder->append(op, inputs, attrs, specs, site);
  } else {
    outputs.resize(specs.size());
    compute(op, inputs, attrs, outputs);
  }
  tell_recorders(op, inputs, attrs, outputs);
  return outputs;
}

}  // namespace internal

NumericsGuard::NumericsGuard() { ++internal::numerics_guards.get(); }
NumericsGuard::~NumericsGuard() { --internal::numerics_guards.get(); }

}  // namespace cohort
