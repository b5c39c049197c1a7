#include <algorithm>

#include "base/raise.h"
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

Gradients call_closure(const OpCall& call, std::span<const Tensor> output_gradients) {
  const auto& closure = static_cast<const GradientClosure&>(*resource_of(call.inputs.back()));
  Gradients gradients = closure.function(output_gradients);
  if (gradients.size() != call.inputs.size() - 1) {
    raise(Code::InvalidArgument,
          "[CustomGradient] the function returned {} gradients for {} inputs", gradients.size(),
          call.inputs.size() - 1);
  }
  gradients.emplace_back();
  return gradients;
}

// Never applied: only recorded, around what the user's function computed.
constexpr OpDef kCustomGradient{
    .name = "CustomGradient",
    .dtypes = kAnyType | kResourceType,
    .infer = nullptr,
    .compute = nullptr,
    .gradient = call_closure,
};

}  // namespace
}  // namespace internal

std::vector<Tensor> custom_gradient(
    const std::function<WithGradient(std::span<const Tensor> inputs)>& body,
    const std::vector<Tensor>& inputs) {
  WithGradient made;
  {
    const internal::RecordingPause pause;
    made = body(inputs);
    // An output that is an input would be its own gradient's source.
    for (Tensor& output : made.outputs) output = identity(output);
  }
  internal::OpCall call{
      .op = &internal::kCustomGradient, .inputs = inputs, .outputs = made.outputs};
  call.inputs.push_back(
      internal::make_resource(std::make_shared<internal::GradientClosure>(made.gradient)));
  internal::record_call(call);
  return made.outputs;
}

}  // namespace cohort
