#include "ops/optimizer_rule.h"

namespace cohort::internal {

Specs infer_update(const OpInputs& inputs) {
  return {{inputs.attrs.get<DType>("dtype"), inputs.attrs.get<Shape>("shape")}};
}

extern constexpr OpDef kApplySgd{
    .name = "ApplySgd",
    .inputs = {4, 5},
    .dtypes = kNumericTypes | kResourceType,
    .attrs = AttrList{{"weight_decay", AttrKind::Float}} + kUpdateAttrs,
    .infer = infer_update,
    .compute =
        [](Kernel& k) {
          const double decay = k.attrs.number("weight_decay");
          OptimizerUpdate<0>(k).run([=]<typename T>(const UpdateStep& step,
                                                    std::array<T*, 1> values, auto gradient,
                                                    int64_t count) {
            const T rate = static_cast<T>(step.learning_rate);
            const T shrink = static_cast<T>(decay);
            T* parameter = values[0];
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) {
              parameter[i] -= rate * (gradient[i] + shrink * parameter[i]);
            }
          });
        },
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kApplyMomentum{
    .name = "ApplyMomentum",
    .inputs = {5, 6},
    .dtypes = kNumericTypes | kResourceType,
    .attrs = AttrList{{"weight_decay", AttrKind::Float},
                      {"momentum", AttrKind::Float},
                      {"nesterov", AttrKind::Bool},
                      {"tensorflow", AttrKind::Bool}} +
             kUpdateAttrs,
    .infer = infer_update,
    .compute =
        [](Kernel& k) {
          const double decay = k.attrs.number("weight_decay");
          const double momentum = k.attrs.number("momentum");
          const bool nesterov = k.attrs.flag("nesterov");
          const bool tensorflow = k.attrs.flag("tensorflow");
          OptimizerUpdate<1>(k).run([=]<typename T>(const UpdateStep& step,
                                                    std::array<T*, 2> values, auto gradient,
                                                    int64_t count) {
            const RateIn<T> rate(tensorflow, step.learning_rate);
            const DecayIn<T> weights(tensorflow, step.learning_rate, decay);
            const T keep = static_cast<T>(momentum);
            T* parameter = values[0];
            T* velocity = values[1];
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) {
              const T slope = rate.velocity * (gradient[i] + weights.gradient * parameter[i]);
              velocity[i] = keep * velocity[i] + slope;
              const T way = nesterov ? slope + keep * velocity[i] : velocity[i];
              parameter[i] = weights.parameter * parameter[i] - rate.parameter * way;
            }
          });
        },
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect,
};

}  // namespace cohort::internal
