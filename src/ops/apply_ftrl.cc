#include <cmath>

#include "ops/optimizer_rule.h"

namespace cohort::internal {

extern constexpr OpDef kApplyFtrl{
    .name = "ApplyFtrl",
    .inputs = {6, 7},
    .dtypes = kNumericTypes | kResourceType,
    .attrs = AttrList{{"learning_rate_power", AttrKind::Float},
                      {"l1", AttrKind::Float},
                      {"l2", AttrKind::Float}} +
             kUpdateAttrs,
    .infer = infer_update,
    .compute =
        [](Kernel& k) {
          const double power = -k.attrs.number("learning_rate_power");
          const double l1 = k.attrs.number("l1");
          const double l2 = k.attrs.number("l2");
          // Slots: sum of squares, linear term. A parameter whose linear term stays within l1 is 0.
          OptimizerUpdate<2>(k).run([=]<typename T>(const UpdateStep& step,
                                                    std::array<T*, 3> values, auto gradient,
                                                    int64_t count) {
            const T rate = static_cast<T>(step.learning_rate);
            if (rate == 0) return;  // nothing moves; the linear term would become infinite
            const T exponent = static_cast<T>(power);
            const T sparse = static_cast<T>(l1);
            auto [parameter, accumulator, linear] = values;
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) {
              const T sum = accumulator[i] + gradient[i] * gradient[i];
              const T root = std::pow(sum, exponent);
              const T sigma = (root - std::pow(accumulator[i], exponent)) / rate;
              linear[i] += gradient[i] - sigma * parameter[i];
              accumulator[i] = sum;
              const T curvature = root / rate + 2 * static_cast<T>(l2);
              const T excess = std::copysign(sparse, linear[i]) - linear[i];
              parameter[i] = std::abs(linear[i]) > sparse ? excess / curvature : T{0};
            }
          });
        },
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect,
};

}  // namespace cohort::internal
