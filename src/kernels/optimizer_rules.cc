// Justified by the steps of `bench_foundation` (MLP, LeNet): one pass over parameter, slots and
// gradient, where the kernel library would make one pass and a temporary tensor for each operation.

#include "kernels/optimizer_rules.h"

#include <cmath>

namespace cohort::internal {
namespace {

// torch's and TensorFlow's formulas differ in where a constant goes. A rule has both places; in the
// place that is not used the constant has no effect, to the last bit.

// Where weights decay: through the gradient, or (decoupled) the parameter shrinks by itself.
template <typename T>
struct DecayIn {
  DecayIn(bool decoupled, double rate, double decay)
      : gradient(static_cast<T>(decoupled ? 0 : decay)),
        parameter(static_cast<T>(decoupled ? 1 - rate * decay : 1)) {}
  T gradient;
  T parameter;
};

// The constant that keeps a divisor away from 0: added to the root, or inside it (TensorFlow).
template <typename T>
struct EpsilonIn {
  EpsilonIn(bool tensorflow, double epsilon)
      : inside(static_cast<T>(tensorflow ? epsilon : 0)),
        outside(static_cast<T>(tensorflow ? 0 : epsilon)) {}
  T inside;
  T outside;
};

// Where the rate goes: it multiplies the velocity, or (TensorFlow) the addend of the velocity.
template <typename T>
struct RateIn {
  RateIn(bool tensorflow, double rate)
      : velocity(static_cast<T>(tensorflow ? rate : 1)),
        parameter(static_cast<T>(tensorflow ? 1 : rate)) {}
  T velocity;
  T parameter;
};

template <typename T>
void update(const SgdRule& rule, const UpdateStep& step, T* const* values, const T* gradient,
            int64_t count) {
  const T rate = static_cast<T>(step.learning_rate);
  const T shrink = static_cast<T>(rule.weight_decay);
  T* const parameter = values[0];
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    parameter[i] -= rate * (gradient[i] + shrink * parameter[i]);
  }
}

template <typename T>
void update(const MomentumRule& rule, const UpdateStep& step, T* const* values, const T* gradient,
            int64_t count) {
  const RateIn<T> rate(rule.tensorflow, step.learning_rate);
  const DecayIn<T> weights(rule.tensorflow, step.learning_rate, rule.weight_decay);
  const T keep = static_cast<T>(rule.momentum);
  const bool nesterov = rule.nesterov;
  T* const parameter = values[0];
  T* const velocity = values[1];
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const T slope = rate.velocity * (gradient[i] + weights.gradient * parameter[i]);
    velocity[i] = keep * velocity[i] + slope;
    const T change = nesterov ? slope + keep * velocity[i] : velocity[i];
    parameter[i] = weights.parameter * parameter[i] - rate.parameter * change;
  }
}

template <typename T>
void update(const AdagradRule& rule, const UpdateStep& step, T* const* values, const T* gradient,
            int64_t count) {
  const T rate = static_cast<T>(step.learning_rate);
  const DecayIn<T> weights(rule.tensorflow, step.learning_rate, rule.weight_decay);
  const EpsilonIn<T> small(rule.tensorflow, rule.epsilon);
  T* const parameter = values[0];
  T* const accumulator = values[1];
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const T slope = gradient[i] + weights.gradient * parameter[i];
    accumulator[i] += slope * slope;
    parameter[i] = weights.parameter * parameter[i] -
                   rate * slope / (std::sqrt(accumulator[i] + small.inside) + small.outside);
  }
}

template <typename T>
void update(const AdamRule& rule, const UpdateStep& step, T* const* values, const T* gradient,
            int64_t count) {
  const T keep1 = static_cast<T>(rule.beta1);
  const T keep2 = static_cast<T>(rule.beta2);
  // Rounded once: 1 - keep2 would be off by the rounding of keep2, a thousand times larger.
  const T take1 = static_cast<T>(1 - rule.beta1);
  const T take2 = static_cast<T>(1 - rule.beta2);
  const T rate = static_cast<T>(step.learning_rate / (1 - std::pow(rule.beta1, step.step)));
  const double unbias_exact = 1 / std::sqrt(1 - std::pow(rule.beta2, step.step));
  const T unbias = static_cast<T>(unbias_exact);
  // TensorFlow adds its epsilon to the root before the root is unbiased.
  const T small = static_cast<T>(rule.tensorflow ? rule.epsilon * unbias_exact : rule.epsilon);
  const DecayIn<T> weights(rule.decoupled, step.learning_rate, rule.weight_decay);
  T* const parameter = values[0];
  T* const mean = values[1];
  T* const square = values[2];
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const T slope = gradient[i] + weights.gradient * parameter[i];
    mean[i] = keep1 * mean[i] + take1 * slope;
    square[i] = keep2 * square[i] + take2 * slope * slope;
    parameter[i] =
        weights.parameter * parameter[i] - rate * mean[i] / (std::sqrt(square[i]) * unbias + small);
  }
}

template <typename T>
void update(const RmsPropRule& rule, const UpdateStep& step, T* const* values, const T* gradient,
            int64_t count) {
  const RateIn<T> rate(rule.tensorflow, step.learning_rate);
  const T keep = static_cast<T>(rule.rho);
  const T take = static_cast<T>(1 - rule.rho);
  const T momentum = static_cast<T>(rule.momentum);
  const bool centered = rule.centered;
  const DecayIn<T> weights(rule.tensorflow, step.learning_rate, rule.weight_decay);
  const EpsilonIn<T> small(rule.tensorflow, rule.epsilon);
  T* const parameter = values[0];
  T* const square = values[1];
  T* const velocity = values[2];
  T* const mean = values[3];
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
    velocity[i] = momentum * velocity[i] + rate.velocity * scaled;
    parameter[i] = weights.parameter * parameter[i] - rate.parameter * velocity[i];
  }
}

// A parameter whose linear term stays within l1 is 0.
template <typename T>
void update(const FtrlRule& rule, const UpdateStep& step, T* const* values, const T* gradient,
            int64_t count) {
  const T rate = static_cast<T>(step.learning_rate);
  if (rate == 0) return;  // nothing moves; the linear term would become infinite
  const T exponent = static_cast<T>(-rule.learning_rate_power);
  const T sparse = static_cast<T>(rule.l1);
  const T l2 = static_cast<T>(rule.l2);
  T* const parameter = values[0];
  T* const accumulator = values[1];
  T* const linear = values[2];
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const T sum = accumulator[i] + gradient[i] * gradient[i];
    const T root = std::pow(sum, exponent);
    const T sigma = (root - std::pow(accumulator[i], exponent)) / rate;
    linear[i] += gradient[i] - sigma * parameter[i];
    accumulator[i] = sum;
    const T curvature = root / rate + 2 * l2;
    const T excess = std::copysign(sparse, linear[i]) - linear[i];
    parameter[i] = std::abs(linear[i]) > sparse ? excess / curvature : T{0};
  }
}

}  // namespace

template <typename T>
void update_elements(const OptimizerRule& any, const UpdateStep& step, T* const* values,
                     const T* gradient, int64_t count) {
  std::visit([&](const auto& rule) { update(rule, step, values, gradient, count); }, any);
}

template void update_elements(const OptimizerRule&, const UpdateStep&, float* const*, const float*,
                              int64_t);
template void update_elements(const OptimizerRule&, const UpdateStep&, double* const*,
                              const double*, int64_t);

}  // namespace cohort::internal
