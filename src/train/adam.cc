#include "ops/all_ops.h"
#include "train/optimizer.h"

namespace cohort {
namespace internal {}  // namespace internal

namespace optim {
namespace {

struct Decay {
  double weight;
  bool decoupled;
};

// Adam and AdamW differ in how weights decay and in nothing else.
template <typename Options>
internal::Rule rule(std::string_view name, const Options& options, Decay decay) {
  const bool tensorflow = options.formula == Formula::TensorFlow;
  const double epsilon = options.epsilon.value_or(tensorflow ? 1e-7 : 1e-8);
  internal::require(options.beta1 >= 0 && options.beta1 < 1, name, "beta1 must be in [0, 1)",
                    options.beta1);
  internal::require(options.beta2 >= 0 && options.beta2 < 1, name, "beta2 must be in [0, 1)",
                    options.beta2);
  internal::require(epsilon >= 0, name, "epsilon must not be negative", epsilon);
  internal::require(decay.weight >= 0, name, "weight_decay must not be negative", decay.weight);
  return {&cohort::internal::kApplyAdam,
          {{"beta1", options.beta1},
           {"beta2", options.beta2},
           {"epsilon", epsilon},
           {"weight_decay", decay.weight},
           {"decoupled", decay.decoupled || tensorflow},
           {"tensorflow", tensorflow},
           {"all_rows", !options.lazy_rows.value_or(!tensorflow)}},
          {{.name = "mean"}, {.name = "square"}}};
}

Decay decay_of(const AdamWOptions& options) {
  const double usual = options.formula == Formula::TensorFlow ? 0.004 : 0.01;
  return {.weight = options.weight_decay.value_or(usual), .decoupled = true};
}

}  // namespace

Adam::Adam(const AdamOptions& options)
    : Optimizer(options.learning_rate, options.clipping,
                rule("Adam", options, {options.weight_decay, false})) {}

AdamW::AdamW(const AdamWOptions& options)
    : Optimizer(options.learning_rate, options.clipping,
                rule("AdamW", options, decay_of(options))) {}

}  // namespace optim
}  // namespace cohort
