#include "ops/all_ops.h"
#include "train/optimizer.h"

namespace cohort {
namespace internal {}  // namespace internal

namespace optim {
namespace {

bool is_tensorflow(const RmsPropOptions& options) { return options.formula == Formula::TensorFlow; }

internal::Rule rule(const RmsPropOptions& options) {
  const bool tensorflow = is_tensorflow(options);
  const double rho = options.rho.value_or(tensorflow ? 0.9 : 0.99);
  const double epsilon = options.epsilon.value_or(tensorflow ? 1e-7 : 1e-8);
  internal::require(rho >= 0 && rho < 1, "RmsProp", "rho must be in [0, 1)", rho);
  internal::require(options.momentum >= 0, "RmsProp", "momentum must not be negative",
                    options.momentum);
  internal::require(epsilon >= 0, "RmsProp", "epsilon must not be negative", epsilon);
  internal::require(options.weight_decay >= 0, "RmsProp", "weight_decay must not be negative",
                    options.weight_decay);
  return {
      &cohort::internal::kApplyRmsProp,
      {{"rho", rho},
       {"epsilon", epsilon},
       {"momentum", options.momentum},
       {"weight_decay", options.weight_decay},
       {"centered", options.centered},
       {"tensorflow", tensorflow},
       {"all_rows", !options.lazy_rows.value_or(!tensorflow)}},
      {{.name = "square"}, {.name = internal::velocity_name(options.formula)}, {.name = "mean"}}};
}

}  // namespace

RmsProp::RmsProp(const RmsPropOptions& options)
    : Optimizer(options.learning_rate.value_or(is_tensorflow(options) ? 0.001 : 0.01),
                options.clipping, rule(options)) {}

}  // namespace optim
}  // namespace cohort
