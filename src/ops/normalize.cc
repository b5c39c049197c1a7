#include "ops/normalize.h"

#include "cohort/ops.h"

namespace cohort::internal {

NormalizeGradients second_order(const NormalizeCall& call, const Tensor& of_x,
                                const Tensor& of_scale, const Tensor& of_offset) {
  const auto average = [&](const Tensor& t) { return mean(t, call.axes, KeepDims::Yes); };
  const Tensor n = (call.x - call.mean) * call.r;
  // What a change of n makes of x: linear and its own transpose. The first gradient of x is this of
  // h = g * scale.
  const auto through = [&](const Tensor& t) {
    return call.r * (t - average(t) - n * average(t * n));
  };
  const Tensor h = call.g * call.scale;
  const Tensor v = of_x;
  const Tensor of_h = through(v);

  // sum(v * through(h)) = count * r * (covariance(v, h) - a * b), by x: through r, then through n.
  const Tensor a = average(v * n);
  const Tensor b = average(h * n);
  const Tensor covariance = average(v * h) - average(v) * average(h);
  const Tensor by_r = call.r * call.r * n * (covariance - a * b);
  return {.g = of_h * call.scale + of_scale * n + of_offset,
          .x = through(call.g * of_scale) - by_r - call.r * through(b * v + a * h),
          .scale = of_h * call.g};
}

}  // namespace cohort::internal
