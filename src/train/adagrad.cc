#include "train/optimizer.h"

namespace cohort {
namespace internal {
extern const OpDef kApplyAdagrad;
}  // namespace internal

namespace optim {
namespace {

internal::Rule rule(const AdagradOptions& options) {
  internal::require(options.initial_accumulator >= 0, "Adagrad",
                    "initial_accumulator must not be negative", options.initial_accumulator);
  internal::require(options.epsilon >= 0, "Adagrad", "epsilon must not be negative",
                    options.epsilon);
  internal::require(options.weight_decay >= 0, "Adagrad", "weight_decay must not be negative",
                    options.weight_decay);
  return {&cohort::internal::kApplyAdagrad,
          {{"epsilon", options.epsilon}, {"weight_decay", options.weight_decay}},
          {{.name = "accumulator", .initial_value = options.initial_accumulator}}};
}

}  // namespace

Adagrad::Adagrad(const AdagradOptions& options)
    : Optimizer(options.learning_rate, options.clipping, rule(options)) {}

}  // namespace optim
}  // namespace cohort
