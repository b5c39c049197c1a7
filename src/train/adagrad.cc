#include "ops/all_ops.h"
#include "train/optimizer.h"

namespace cohort {
namespace internal {}  // namespace internal

namespace optim {
namespace {

bool is_tensorflow(const AdagradOptions& options) { return options.formula == Formula::TensorFlow; }

internal::Rule rule(const AdagradOptions& options) {
  const bool tensorflow = is_tensorflow(options);
  const double accumulator = options.initial_accumulator.value_or(tensorflow ? 0.1 : 0);
  const double epsilon = options.epsilon.value_or(tensorflow ? 1e-7 : 1e-10);
  internal::require(accumulator >= 0, "Adagrad", "initial_accumulator must not be negative",
                    accumulator);
  internal::require(epsilon >= 0, "Adagrad", "epsilon must not be negative", epsilon);
  internal::require(options.weight_decay >= 0, "Adagrad", "weight_decay must not be negative",
                    options.weight_decay);
  return {&cohort::internal::kApplyAdagrad,
          {{"epsilon", epsilon},
           {"weight_decay", options.weight_decay},
           {"tensorflow", tensorflow},
           // Without a gradient nothing but decay moves a row.
           {"all_rows", options.weight_decay > 0 && !options.lazy_rows.value_or(!tensorflow)}},
          {{.name = "accumulator", .initial_value = accumulator}}};
}

}  // namespace

Adagrad::Adagrad(const AdagradOptions& options)
    : Optimizer(options.learning_rate.value_or(is_tensorflow(options) ? 0.001 : 0.01),
                options.clipping, rule(options)) {}

}  // namespace optim
}  // namespace cohort
