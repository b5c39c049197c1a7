// The kernels of simulated GPUs: those of the host, on the same bytes. So results are equal to the
// host's down to the last bit.

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "simulated/gpus.h"
#include "simulated/registration.h"
#include "simulated/running_op.h"

namespace cohort::internal {
namespace {

// One call of an operator of torch, which the kernel of the host answers.
class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, torch::jit::Stack& stack) : op_(op), stack_(stack) {}

  void run() {
    const size_t arguments = op_.schema().arguments().size();
    for (c10::IValue& value : top(arguments)) value = lend(value);
    SimulatedGpu& gpu = simulated_gpu(device().index());
    gpu.require_alive();
    gpu.kernels.fetch_add(1, std::memory_order_relaxed);
    {
      const at::AutoDispatchBelowADInplaceOrView no_gradients;
      op_.callBoxed(stack_);
    }
    const c10::DeviceGuard on(device());
    return_resized();
    for (c10::IValue& value : top(op_.schema().returns().size())) value = give(value);
  }

 private:
  struct Loan {
    at::Tensor own;
    at::Tensor host;
  };

  std::span<c10::IValue> top(size_t count) {
    return {stack_.data() + (stack_.size() - count), count};
  }

  c10::Device device() const { return device_.value_or(current_simulated_device()); }

  c10::IValue lend(const c10::IValue& value) {
    if (value.isTensor()) return lend(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> all;
      for (const at::Tensor& tensor : value.toTensorVector()) all.push_back(lend(tensor));
      return all;
    }
    if (value.isOptionalTensorList()) {
      c10::List<c10::optional<at::Tensor>> all;
      for (const c10::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
        all.push_back(tensor ? c10::optional<at::Tensor>(lend(*tensor)) : tensor);
      }
      return all;
    }
    if (value.isDevice()) {
      if (value.toDevice().type() == kSimulated && value.toDevice().has_index()) {
        device_ = value.toDevice();
      }
      return c10::Device(c10::kCPU);
    }
    return value;
  }

  at::Tensor lend(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kSimulated) return tensor;
    // A scalar may be anywhere, as torch has it for its other devices.
    if (!device_ || loans_.empty()) device_ = tensor.device();
    TORCH_CHECK(*device_ == tensor.device() || tensor.dim() == 0, "expected all tensors on ",
                *device_, ", got one on ", tensor.device());
    loans_.push_back({tensor, host_alias(tensor)});
    return loans_.back().host;
  }

  // A kernel that writes into an argument may give that another size.
  void return_resized() {
    for (const Loan& loan : loans_) {
      if (loan.host.sizes() == loan.own.sizes()) continue;
      loan.own.resize_(loan.host.sizes());
      host_alias(loan.own).copy_(loan.host);
    }
  }

  c10::IValue give(const c10::IValue& value) const {
    if (value.isTensor()) return give(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> all;
    for (const at::Tensor& tensor : value.toTensorVector()) all.push_back(give(tensor));
    return all;
  }

  // The argument itself, a view of it, or a copy of what the kernel made.
  at::Tensor give(const at::Tensor& host) const {
    if (!host.defined() || !host.is_cpu()) return host;
    for (const Loan& loan : loans_) {
      if (loan.host.is_same(host)) return loan.own;
    }
    for (const Loan& loan : loans_) {
      if (loan.host.has_storage() && host.has_storage() && loan.host.is_alias_of(host)) {
        return view_storage(loan.own, host.sizes(), host.strides(), host.storage_offset());
      }
    }
    return onto_gpu(host, device());
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  std::optional<c10::Device> device_;
  std::vector<Loan> loans_;
};

void call_host_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string_view name = op.schema().name();
  std::optional<RunningOp> running;
  if (RunningOp::name() == "Device") running.emplace(name);
  HostCall(op, *stack).run();
}

// Convolutions of devices that torch does not know have operators of their own.

at::Tensor convolution(const at::Tensor& x, const at::Tensor& kernel,
                       const c10::optional<at::Tensor>& bias, c10::IntArrayRef stride,
                       c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef output_padding, int64_t groups) {
  const at::AutoDispatchBelowADInplaceOrView no_gradients;
  c10::optional<at::Tensor> host_bias;
  if (bias && bias->defined()) host_bias = host_alias(*bias);
  return onto_gpu(at::convolution(host_alias(x), host_alias(kernel), host_bias, stride, padding,
                                  dilation, transposed, output_padding, groups),
                  x.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& kernel,
    c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
    c10::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> wanted) {
  const at::AutoDispatchBelowADInplaceOrView no_gradients;
  const std::array<int64_t, 1> channels{transposed ? kernel.size(1) * groups : kernel.size(0)};
  const auto [x_gradient, kernel_gradient, bias_gradient] = at::convolution_backward(
      host_alias(gradient), host_alias(x), host_alias(kernel), c10::IntArrayRef(channels), stride,
      padding, dilation, transposed, output_padding, groups, wanted);
  const auto on_gpu = [&](const at::Tensor& host) {
    return host.defined() ? onto_gpu(host, x.device()) : host;
  };
  return {on_gpu(x_gradient), on_gpu(kernel_gradient), on_gpu(bias_gradient)};
}

}  // namespace

void register_host_kernels(torch::Library& library, torch::Library& all_namespaces) {
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolution_backward);
  // Torch has these for any device, in other steps than its kernel for the host. Those of the host
  // give the host's bits.
  for (const char* const name : {"native_layer_norm", "native_group_norm"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&call_host_kernel>());
  }
  all_namespaces.fallback(torch::CppFunction::makeFromBoxedFunction<&call_host_kernel>());
}

}  // namespace cohort::internal
