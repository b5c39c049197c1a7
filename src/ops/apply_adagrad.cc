#include <cmath>

#include "ops/optimizer_rule.h"

namespace cohort::internal {

extern constexpr OpDef kApplyAdagrad{
    .name = "ApplyAdagrad",
    .inputs = {5, 6},
    .dtypes = kNumericTypes | kResourceType,
    .attrs = AttrList{{"epsilon", AttrKind::Float},
                      {"weight_decay", AttrKind::Float},
                      {"tensorflow", AttrKind::Bool}} +
             kUpdateAttrs,
    .infer = infer_update,
    .compute =
        [](Kernel& k) {
          const double epsilon = k.attrs.number("epsilon");
          const double decay = k.attrs.number("weight_decay");
          const bool tensorflow = k.attrs.flag("tensorflow");
          OptimizerUpdate<1>(k).run([=]<typename T>(const UpdateStep& step,
                                                    std::array<T*, 2> values, auto gradient,
                                                    int64_t count) {
            const T rate = static_cast<T>(step.learning_rate);
            const DecayIn<T> weights(tensorflow, step.learning_rate, decay);
            const EpsilonIn<T> small(tensorflow, epsilon);
            T* parameter = values[0];
            T* accumulator = values[1];
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) {
              const T slope = gradient[i] + weights.gradient * parameter[i];
              accumulator[i] += slope * slope;
              parameter[i] =
                  weights.parameter * parameter[i] -
                  rate * slope / (std::sqrt(accumulator[i] + small.inside) + small.outside);
            }
          });
        },
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect,
};

}  // namespace cohort::internal
