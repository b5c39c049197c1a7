#include <cmath>

#include "ops/optimizer_rule.h"

namespace cohort::internal {

extern constexpr OpDef kApplyAdagrad{
    .name = "ApplyAdagrad",
    .dtypes = kNumericTypes | kResourceType,
    .infer = infer_update,
    .compute =
        [](Kernel& k) {
          const double epsilon = k.attrs.number("epsilon");
          const double decay = k.attrs.number("weight_decay");
          OptimizerUpdate<1>(k).run([=]<typename T>(const UpdateStep& step,
                                                    std::array<T*, 2> values, auto gradient,
                                                    int64_t count) {
            const T rate = static_cast<T>(step.learning_rate);
            const T small = static_cast<T>(epsilon);
            const T l2 = static_cast<T>(decay);
            T* parameter = values[0];
            T* accumulator = values[1];
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) {
              const T slope = gradient[i] + l2 * parameter[i];
              accumulator[i] += slope * slope;
              parameter[i] -= rate * slope / (std::sqrt(accumulator[i]) + small);
            }
          });
        },
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .stateful = true,
};

}  // namespace cohort::internal
