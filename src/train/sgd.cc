#include "ops/all_ops.h"
#include "train/optimizer.h"

namespace cohort {
namespace internal {}  // namespace internal

namespace optim {
namespace {

internal::Rule rule(const SgdOptions& options) {
  internal::require(options.momentum >= 0, "Sgd", "momentum must not be negative",
                    options.momentum);
  internal::require(!options.nesterov || options.momentum > 0, "Sgd",
                    "nesterov needs a positive momentum", options.momentum);
  internal::require(options.weight_decay >= 0, "Sgd", "weight_decay must not be negative",
                    options.weight_decay);
  const bool tensorflow = options.formula == Formula::TensorFlow;
  const bool all_rows = !options.lazy_rows.value_or(!tensorflow);
  if (options.momentum == 0) {
    // Without a gradient nothing but decay moves a row.
    return {&cohort::internal::kApplySgd,
            {{"weight_decay", options.weight_decay},
             {"all_rows", all_rows && options.weight_decay > 0}},
            {}};
  }
  return {&cohort::internal::kApplyMomentum,
          {{"weight_decay", options.weight_decay},
           {"momentum", options.momentum},
           {"nesterov", options.nesterov},
           {"tensorflow", tensorflow},
           {"all_rows", all_rows}},
          {{.name = internal::velocity_name(options.formula)}}};
}

}  // namespace

Sgd::Sgd(const SgdOptions& options)
    : Optimizer(options.learning_rate, options.clipping, rule(options)) {}

}  // namespace optim
}  // namespace cohort
