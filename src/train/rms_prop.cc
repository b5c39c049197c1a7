#include "train/optimizer.h"

namespace cohort {
namespace internal {
extern const OpDef kApplyRmsProp;
}  // namespace internal

namespace optim {
namespace {

internal::Rule rule(const RmsPropOptions& options) {
  internal::require(options.rho >= 0 && options.rho < 1, "RmsProp", "rho must be in [0, 1)",
                    options.rho);
  internal::require(options.momentum >= 0, "RmsProp", "momentum must not be negative",
                    options.momentum);
  internal::require(options.epsilon >= 0, "RmsProp", "epsilon must not be negative",
                    options.epsilon);
  internal::require(options.weight_decay >= 0, "RmsProp", "weight_decay must not be negative",
                    options.weight_decay);
  return {&cohort::internal::kApplyRmsProp,
          {{"rho", options.rho},
           {"epsilon", options.epsilon},
           {"momentum", options.momentum},
           {"weight_decay", options.weight_decay},
           {"centered", options.centered}},
          {{.name = "square"}, {.name = "momentum"}, {.name = "mean"}}};
}

}  // namespace

RmsProp::RmsProp(const RmsPropOptions& options)
    : Optimizer(options.learning_rate, options.clipping, rule(options)) {}

}  // namespace optim
}  // namespace cohort
