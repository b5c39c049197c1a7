#include "train/optimizer.h"

namespace cohort {
namespace internal {
extern const OpDef kApplyAdam;
}  // namespace internal

namespace optim {
namespace {

// Adam and AdamW differ in how weights decay and in nothing else.
template <typename Options>
internal::Rule rule(std::string_view name, const Options& options, bool decoupled) {
  internal::require(options.beta1 >= 0 && options.beta1 < 1, name, "beta1 must be in [0, 1)",
                    options.beta1);
  internal::require(options.beta2 >= 0 && options.beta2 < 1, name, "beta2 must be in [0, 1)",
                    options.beta2);
  internal::require(options.epsilon >= 0, name, "epsilon must not be negative", options.epsilon);
  internal::require(options.weight_decay >= 0, name, "weight_decay must not be negative",
                    options.weight_decay);
  return {&cohort::internal::kApplyAdam,
          {{"beta1", options.beta1},
           {"beta2", options.beta2},
           {"epsilon", options.epsilon},
           {"weight_decay", options.weight_decay},
           {"decoupled", decoupled}},
          {{.name = "mean"}, {.name = "square"}}};
}

}  // namespace

Adam::Adam(const AdamOptions& options)
    : Optimizer(options.learning_rate, options.clipping, rule("Adam", options, false)) {}

AdamW::AdamW(const AdamWOptions& options)
    : Optimizer(options.learning_rate, options.clipping, rule("AdamW", options, true)) {}

}  // namespace optim
}  // namespace cohort
