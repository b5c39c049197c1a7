#include <cmath>

#include "ops/optimizer_rule.h"

namespace cohort::internal {

extern constexpr OpDef kApplyRmsProp{
    .name = "ApplyRmsProp",
    .inputs = {7, 8},
    .dtypes = kNumericTypes | kResourceType,
    .attrs = AttrList{{"rho", AttrKind::Float},
                      {"epsilon", AttrKind::Float},
                      {"momentum", AttrKind::Float},
                      {"weight_decay", AttrKind::Float},
                      {"centered", AttrKind::Bool},
                      {"tensorflow", AttrKind::Bool}} +
             kUpdateAttrs,
    .infer = infer_update,
    .compute =
        [](Kernel& k) {
          const double rho = k.attrs.number("rho");
          const double epsilon = k.attrs.number("epsilon");
          const double momentum = k.attrs.number("momentum");
          const double decay = k.attrs.number("weight_decay");
          const bool centered = k.attrs.flag("centered");
          const bool tensorflow = k.attrs.flag("tensorflow");
          // Slots: mean square, velocity, mean.
          OptimizerUpdate<3>(k).run([=]<typename T>(const UpdateStep& step,
                                                    std::array<T*, 4> values, auto gradient,
                                                    int64_t count) {
            const RateIn<T> rate(tensorflow, step.learning_rate);
            const T keep = static_cast<T>(rho);
            const T take = static_cast<T>(1 - rho);
            const DecayIn<T> weights(tensorflow, step.learning_rate, decay);
            const EpsilonIn<T> small(tensorflow, epsilon);
            auto [parameter, square, velocity, mean] = values;
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) {
              const T slope = gradient[i] + weights.gradient * parameter[i];
              square[i] = keep * square[i] + take * slope * slope;
              T variance = square[i];
              if (centered) {
                mean[i] = keep * mean[i] + take * slope;
                variance -= mean[i] * mean[i];
              }
              const T scaled = slope / (std::sqrt(variance + small.inside) + small.outside);
              velocity[i] = static_cast<T>(momentum) * velocity[i] + rate.velocity * scaled;
              parameter[i] = weights.parameter * parameter[i] - rate.parameter * velocity[i];
            }
          });
        },
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect,
};

}  // namespace cohort::internal
