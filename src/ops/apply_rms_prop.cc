#include <cmath>

#include "ops/optimizer_rule.h"

namespace cohort::internal {

extern constexpr OpDef kApplyRmsProp{
    .name = "ApplyRmsProp",
    .dtypes = kNumericTypes | kResourceType,
    .infer = infer_update,
    .compute =
        [](Kernel& k) {
          const double rho = k.attrs.number("rho");
          const double epsilon = k.attrs.number("epsilon");
          const double momentum = k.attrs.number("momentum");
          const double decay = k.attrs.number("weight_decay");
          const bool centered = k.attrs.flag("centered");
          // Slots: mean square, velocity, mean.
          OptimizerUpdate<3>(k).run([=]<typename T>(const UpdateStep& step,
                                                    std::array<T*, 4> values, auto gradient,
                                                    int64_t count) {
            const T rate = static_cast<T>(step.learning_rate);
            const T keep = static_cast<T>(rho);
            const T take = static_cast<T>(1 - rho);
            const T small = static_cast<T>(epsilon);
            const T l2 = static_cast<T>(decay);
            auto [parameter, square, velocity, mean] = values;
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) {
              const T slope = gradient[i] + l2 * parameter[i];
              square[i] = keep * square[i] + take * slope * slope;
              T variance = square[i];
              if (centered) {
                mean[i] = keep * mean[i] + take * slope;
                variance -= mean[i] * mean[i];
              }
              velocity[i] =
                  static_cast<T>(momentum) * velocity[i] + slope / (std::sqrt(variance) + small);
              parameter[i] -= rate * velocity[i];
            }
          });
        },
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .stateful = true,
};

}  // namespace cohort::internal
