#include "ops/device_execution.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "simulated/gpus.h"
#include "simulated/running_op.h"
#include "tensor/aten.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

using Kind = TensorBody::Kind;

bool is_state(const Tensor& input) { return body(input).kind == Kind::Resource; }
bool is_text(const Tensor& input) { return body(input).kind == Kind::Strings; }
// Whether it has elements somewhere. Symbols come to kernels inside functions that are traced.
bool is_numeric_value(const Tensor& tensor) {
  return tensor.defined() && body(tensor).kind == Kind::Numeric;
}

Place place_of(const Tensor& value) { return body(value).device->place; }

// "GPU:1"
std::string short_name(Place place) {
  return place.is_host() ? "the host" : fmt::format("GPU:{}", place.gpu);
}

bool needs_host(const OpDef& op, std::span<const Tensor> inputs) {
  return op.traits.has(Trait::HostOnly) || op.traits.has(Trait::HostKernel) ||
         std::ranges::any_of(inputs, is_text);
}

// Counts the call, and names the op in the log the first time.
void note_bridged(const OpDef& op, Place place) {
  static Mutex mutex;
  static auto& named = *new std::set<std::string_view>;  // guarded by mutex
  simulated_gpu(place.gpu).bridged_ops.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex);
  if (!named.insert(op.name).second) return;
  log_info(
      "[Devices] {} has no kernel for GPUs: it runs on the host, with copies of its inputs and "
      "results",
      op.name);
}

// One call in a process with GPUs.
class DeviceCall {
 public:
  DeviceCall(const OpDef& op, std::span<const Tensor> inputs)
      : op_(op),
        inputs_(inputs),
        device_(device_of_call(inputs)),
        is_bridged_(!device_.place.is_host() && needs_host(op, inputs)),
        kernel_device_(is_bridged_ ? device_at({}) : device_) {
    if (is_bridged_) note_bridged(op, device_.place);
  }

  const Device& kernel_device() const { return kernel_device_; }

  // The inputs at the place of the kernel. The span is that of the caller if all are there already,
  // so that a kernel may still write over values that only a run holds.
  std::span<const Tensor> inputs() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!is_numeric_value(inputs_[i]) || place_of(inputs_[i]) == kernel_device_.place) continue;
      check_reachable(i);
      if (moved_.empty()) moved_.assign(inputs_.begin(), inputs_.end());
      moved_[i] = on_device(inputs_[i], kernel_device_);
    }
    return moved_.empty() ? inputs_ : moved_;
  }

  void place_outputs(std::span<Tensor> outputs) const {
    const Device& home = device_scope_depth() > 0 ? value_device() : device_;
    for (Tensor& output : outputs) {
      if (is_numeric_value(output)) output = reachable_from(home, output);
    }
  }

 private:
  void check_reachable(size_t i) const {
    const Place from = place_of(inputs_[i]);
    if (from.is_host() || device_.place.is_host() || from == device_.place ||
        op_.traits.has(Trait::Copies) || std::ranges::any_of(inputs_, is_state)) {
      return;
    }
    raise(Code::InvalidArgument,
          "[{}] runs on {}, but input {} is on {}; identity() in a scope of {} copies it", op_.name,
          short_name(device_.place), i, short_name(from), short_name(device_.place));
  }

  const OpDef& op_;
  const std::span<const Tensor> inputs_;
  const Device& device_;
  const bool is_bridged_;
  const Device& kernel_device_;
  std::vector<Tensor> moved_;
};

}  // namespace

const Device& device_of_call(std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (is_state(input)) return *body(input).device;
  }
  if (device_scope_depth() > 0) return value_device();
  for (const Tensor& input : inputs) {
    if (is_numeric_value(input) && !place_of(input).is_host()) return *body(input).device;
  }
  return value_device();
}

void compute_with_gpus(const OpDef& op, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                       const std::function<void(std::span<const Tensor>)>& compute) {
  const RunningOp running(op.name);
  DeviceCall call(op, inputs);
  const std::span<const Tensor> there = call.inputs();
  {
    const Device& device = call.kernel_device();
    std::optional<DeviceGuard> current;
    if (&device != &value_device()) current.emplace(device);
    if (device.place.is_host()) {
      compute(there);
    } else {
      const c10::DeviceGuard library(to_aten(device.place));
      compute(there);
    }
  }
  call.place_outputs(outputs);
}

Tensor for_this_scope(const Tensor& value) {
  const bool placed = has_gpus() && device_scope_depth() > 0 && is_numeric_value(value);
  return placed ? reachable_from(value_device(), value) : value;
}

}  // namespace cohort::internal
