#pragma once

#include <cstdint>
#include <variant>

// The update rules of the optimizers, on arrays of float or double.
namespace cohort::internal {

// The scalars of one update.
struct UpdateStep {
  double learning_rate;
  double step;  // 1 for the first update
};

// The constants of each rule. kSlots is the number of arrays that a rule keeps for a parameter,
// besides the parameter itself. `tensorflow` chooses TensorFlow's formula where it differs from
// torch's.
struct SgdRule {
  static constexpr int kSlots = 0;
  double weight_decay;
};
struct MomentumRule {
  static constexpr int kSlots = 1;  // velocity
  double weight_decay;
  double momentum;
  bool nesterov;
  bool tensorflow;
};
struct AdagradRule {
  static constexpr int kSlots = 1;  // sum of squares
  double epsilon;
  double weight_decay;
  bool tensorflow;
};
struct AdamRule {
  static constexpr int kSlots = 2;  // mean, mean square
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  bool decoupled;  // AdamW: the parameter shrinks by itself instead of through the gradient
  bool tensorflow;
};
struct RmsPropRule {
  static constexpr int kSlots = 3;  // mean square, velocity, mean
  double rho;
  double epsilon;
  double momentum;
  double weight_decay;
  bool centered;
  bool tensorflow;
};
struct FtrlRule {
  static constexpr int kSlots = 2;  // sum of squares, linear term
  double learning_rate_power;
  double l1;
  double l2;
};
using OptimizerRule =
    std::variant<SgdRule, MomentumRule, AdagradRule, AdamRule, RmsPropRule, FtrlRule>;

// Updates `count` elements of float or double. `values` are the parameter and its slots. No two
// arrays overlap.
template <typename T>
void update_elements(const OptimizerRule& rule, const UpdateStep& step, T* const* values,
                     const T* gradient, int64_t count);

}  // namespace cohort::internal
