#include <algorithm>

#include "base/raise.h"
#include "base/site_scope.h"
#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "tensor/body.h"

namespace cohort {
namespace internal {
namespace {

using GradientFunction = std::function<Gradients(std::span<const Tensor>)>;

// The user's function, carried as the call's last input.
struct GradientClosure : Resource {
  explicit GradientClosure(GradientFunction given) : function(std::move(given)) {}
  GradientFunction function;
};

void check_shape(const Gradient& gradient, const Tensor& input, size_t position) {
  if (!gradient.defined()) return;
  const Shape shape =
      gradient.is_sparse() ? gradient.slices().dense_shape : gradient.dense().shape();
  if (shape.is_compatible_with(input.shape())) return;
  raise(Code::InvalidArgument,
        "[CustomGradient] the function returned a gradient of shape {} for input {}, which has {}",
        shape.to_string(), position, input.shape().to_string());
}

Gradients call_closure(const OpCall& call, std::span<const Tensor> output_gradients) {
  const auto& closure = static_cast<const GradientClosure&>(*resource_of(call.inputs.back()));
  Gradients gradients = [&] {
    const UsersCode gradient;
    return closure.function(output_gradients);
  }();
  if (gradients.size() != call.inputs.size() - 1) {
    raise(Code::InvalidArgument,
          "[CustomGradient] the function returned {} gradients for {} inputs", gradients.size(),
          call.inputs.size() - 1);
  }
  for (size_t i = 0; i < gradients.size(); ++i) check_shape(gradients[i], call.inputs[i], i);
  gradients.emplace_back();
  return gradients;
}

// Never applied: only recorded, around what the user's function computed.
constexpr OpDef kCustomGradient{
    .name = "CustomGradient",
    .inputs = {0, kAnyNumber},
    .dtypes = kAnyType | kResourceType,
    .infer = nullptr,
    .compute = nullptr,
    .gradient = call_closure,
};

// Whether a recorder knows `tensor` already.
bool is_recorded(const Tensor& tensor) {
  for (Recorder* recorder = thread_dispatch().recorder; recorder; recorder = recorder->outer) {
    if (recorder->wants({&tensor, 1})) return true;
  }
  return false;
}

bool contains(std::span<const Tensor> tensors, const Tensor& tensor) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& other) {
    return TensorAccess::id(other) == TensorAccess::id(tensor);
  });
}

// Replaces each output that is an input, an earlier output or already recorded by a tensor of its
// own: an input, for example, would be the source of its own gradient. An output that is new stays
// as it is. The user's function may have kept it for the gradient, where second derivatives must
// find it.
void make_distinct(std::vector<Tensor>& outputs, std::span<const Tensor> inputs, Site site) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::span<const Tensor> before(outputs.data(), i);
    if (contains(inputs, outputs[i]) || contains(before, outputs[i]) || is_recorded(outputs[i])) {
      const RecordingPause pause;
      outputs[i] = identity(outputs[i], site);
    }
  }
}

}  // namespace
}  // namespace internal

std::vector<Tensor> custom_gradient(
    const std::function<WithGradient(std::span<const Tensor> inputs)>& body,
    const std::vector<Tensor>& inputs, Site site) {
  if (!body) internal::raise(Code::InvalidArgument, "[CustomGradient] the function is empty");
  WithGradient made;
  {
    const internal::RecordingPause pause;
    const internal::UsersCode function;
    made = body(inputs);
  }
  if (!made.gradient) {
    internal::raise(Code::InvalidArgument, "[CustomGradient] the function returned no gradient");
  }
  internal::make_distinct(made.outputs, inputs, site);
  internal::OpCall call{
      .op = &internal::kCustomGradient, .inputs = inputs, .outputs = made.outputs};
  call.inputs.push_back(
      internal::make_resource(std::make_shared<internal::GradientClosure>(made.gradient)));
  internal::record_call(call);
  return made.outputs;
}

}  // namespace cohort
