// Releases state that a device keeps by name.

#include "base/raise.h"
#include "cohort/ops.h"
#include "graph/graph_impl.h"
#include "ops/run_context.h"

namespace cohort::internal {

// Input 0 gives the names. A name without state is not an error.
extern constexpr OpDef kForgetState{
    .name = "ForgetState",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"container", AttrKind::Text}},
    .infer = [](const OpInputs& inputs) -> Specs {
      if (inputs.dtype(0) != kString || !inputs.shape(0).is_compatible_with({Shape::kUnknownDim})) {
        raise(Code::InvalidArgument, "[ForgetState] input 0 must be a vector of names, got {} {}",
              to_string(inputs.dtype(0)), inputs.shape(0).to_string());
      }
      return {{kBool, Shape{0}}};
    },
    .compute =
        [](Kernel& k) {
          ResourceTable& table = require_run(k.run, "ForgetState").resources();
          const auto& container = k.attrs.get<std::string>("container");
          for (const std::string& name : k.inputs[0].to_vector<std::string>()) {
            table.forget(container, name);
          }
          k.outputs[0] = zeros({0}, kBool);
        },
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect | Trait::HostOnly,
};

}  // namespace cohort::internal
