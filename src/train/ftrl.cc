#include "ops/all_ops.h"
#include "train/optimizer.h"

namespace cohort {
namespace internal {}  // namespace internal

namespace optim {
namespace {

internal::Rule rule(const FtrlOptions& options) {
  internal::require(options.initial_accumulator >= 0, "Ftrl",
                    "initial_accumulator must not be negative", options.initial_accumulator);
  internal::require(options.learning_rate_power <= 0, "Ftrl",
                    "learning_rate_power must not be positive", options.learning_rate_power);
  internal::require(options.l1 >= 0, "Ftrl", "l1 must not be negative", options.l1);
  internal::require(options.l2 >= 0, "Ftrl", "l2 must not be negative", options.l2);
  return {
      &cohort::internal::kApplyFtrl,
      {{"learning_rate_power", options.learning_rate_power},
       {"l1", options.l1},
       {"l2", options.l2},
       {"all_rows", false}},
      {{.name = "accumulator", .initial_value = options.initial_accumulator}, {.name = "linear"}}};
}

}  // namespace

Ftrl::Ftrl(const FtrlOptions& options)
    : Optimizer(options.learning_rate, options.clipping, rule(options)) {}

}  // namespace optim
}  // namespace cohort
