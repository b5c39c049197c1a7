#include "ops/infer.h"
#include "ops/run_context.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// A variable of a graph: the handle of the state that the run's device keeps under its name.
extern constexpr OpDef kVariableHandle{
    .name = "VariableHandle",
    .inputs = 0,
    .dtypes = kResourceType,
    .attrs = {{"container", AttrKind::Text}, {"shared_name", AttrKind::Text}},
    .infer = [](const OpInputs&) -> Specs {
      return {{kResource, Shape{}}};
    },
    .compute =
        [](Kernel& k) {
          const auto& container = k.attrs.get<std::string>("container");
          const auto& name = k.attrs.get<std::string>("shared_name");
          k.outputs[0] =
              make_resource(require_run(k.run, "VariableHandle")
                                .resources()
                                .find_or_make<VariableCell>(container, "variable", name, [&] {
                                  return std::make_shared<VariableCell>(name);
                                }));
        },
    .gradient = nullptr,
    .no_gradient_because = "a handle has no value",
    .traits = Trait::HasEffect,
};

}  // namespace cohort::internal
