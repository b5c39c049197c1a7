#include <cmath>

#include "ops/optimizer_rule.h"

namespace cohort::internal {

extern constexpr OpDef kApplyAdam{
    .name = "ApplyAdam",
    .inputs = {6, 7},
    .dtypes = kNumericTypes | kResourceType,
    .attrs = AttrList{{"beta1", AttrKind::Float},
                      {"beta2", AttrKind::Float},
                      {"epsilon", AttrKind::Float},
                      {"weight_decay", AttrKind::Float},
                      {"decoupled", AttrKind::Bool},
                      {"tensorflow", AttrKind::Bool}} +
             kUpdateAttrs,
    .infer = infer_update,
    .compute =
        [](Kernel& k) {
          const double beta1 = k.attrs.number("beta1");
          const double beta2 = k.attrs.number("beta2");
          const double epsilon = k.attrs.number("epsilon");
          const double decay = k.attrs.number("weight_decay");
          // Decoupled (AdamW): the parameter shrinks by itself instead of through the gradient.
          const bool decoupled = k.attrs.flag("decoupled");
          const bool tensorflow = k.attrs.flag("tensorflow");
          OptimizerUpdate<2>(k).run([=]<typename T>(const UpdateStep& step,
                                                    std::array<T*, 3> values, auto gradient,
                                                    int64_t count) {
            const T keep1 = static_cast<T>(beta1);
            const T keep2 = static_cast<T>(beta2);
            // Rounded once: 1 - keep2 would be off by the rounding of keep2, a thousand times
            // larger.
            const T take1 = static_cast<T>(1 - beta1);
            const T take2 = static_cast<T>(1 - beta2);
            const T rate = static_cast<T>(step.learning_rate / (1 - std::pow(beta1, step.step)));
            const double unbias_exact = 1 / std::sqrt(1 - std::pow(beta2, step.step));
            const T unbias = static_cast<T>(unbias_exact);
            // TensorFlow's epsilon is added to the root before that is unbiased.
            const T small = static_cast<T>(tensorflow ? epsilon * unbias_exact : epsilon);
            const DecayIn<T> weights(decoupled, step.learning_rate, decay);
            T* parameter = values[0];
            T* mean = values[1];
            T* square = values[2];
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) {
              const T slope = gradient[i] + weights.gradient * parameter[i];
              mean[i] = keep1 * mean[i] + take1 * slope;
              square[i] = keep2 * square[i] + take2 * slope * slope;
              parameter[i] = weights.parameter * parameter[i] -
                             rate * mean[i] / (std::sqrt(square[i]) * unbias + small);
            }
          });
        },
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect,
};

}  // namespace cohort::internal
