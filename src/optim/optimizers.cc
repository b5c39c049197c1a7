// The rules of the optimizers: op, constants and slots of each.

#include "ops/all_ops.h"
#include "optim/optimizer.h"

namespace cohort::optim {
namespace {

using cohort::internal::kApplyAdagrad;
using cohort::internal::kApplyAdam;
using cohort::internal::kApplyFtrl;
using cohort::internal::kApplyMomentum;
using cohort::internal::kApplyRmsProp;
using cohort::internal::kApplySgd;
using internal::require;
using internal::Rule;

void require_not_negative(std::string_view optimizer, std::string_view name, double value) {
  require(value >= 0, optimizer, std::string(name) + " must not be negative", value);
}

void require_fraction(std::string_view optimizer, std::string_view name, double value) {
  require(value >= 0 && value < 1, optimizer, std::string(name) + " must be in [0, 1)", value);
}

template <typename Options>
bool is_tensorflow(const Options& options) {
  return options.formula == Formula::TensorFlow;
}

// Whether rows without a gradient move, too.
template <typename Options>
bool moves_all_rows(const Options& options) {
  return !options.lazy_rows.value_or(!is_tensorflow(options));
}

// The formulas keep different things in the slot for momentum. A checkpoint of one formula must not
// be read as a checkpoint of the other.
std::string velocity_name(Formula formula) {
  return formula == Formula::TensorFlow ? "velocity" : "momentum";
}

Rule rule(const SgdOptions& options) {
  require_not_negative("Sgd", "momentum", options.momentum);
  require(!options.nesterov || options.momentum > 0, "Sgd", "nesterov needs a positive momentum",
          options.momentum);
  require_not_negative("Sgd", "weight_decay", options.weight_decay);
  if (options.momentum == 0) {
    // Without a gradient nothing but decay moves a row.
    return {&kApplySgd,
            {{"weight_decay", options.weight_decay},
             {"all_rows", moves_all_rows(options) && options.weight_decay > 0}},
            {}};
  }
  return {&kApplyMomentum,
          {{"weight_decay", options.weight_decay},
           {"momentum", options.momentum},
           {"nesterov", options.nesterov},
           {"tensorflow", is_tensorflow(options)},
           {"all_rows", moves_all_rows(options)}},
          {{.name = velocity_name(options.formula)}}};
}

// Adam and AdamW differ only in how weights decay.
template <typename Options>
Rule adam_rule(std::string_view name, const Options& options, double weight_decay, bool decoupled) {
  const bool tensorflow = is_tensorflow(options);
  const double epsilon = options.epsilon.value_or(tensorflow ? 1e-7 : 1e-8);
  require_fraction(name, "beta1", options.beta1);
  require_fraction(name, "beta2", options.beta2);
  require_not_negative(name, "epsilon", epsilon);
  require_not_negative(name, "weight_decay", weight_decay);
  return {&kApplyAdam,
          {{"beta1", options.beta1},
           {"beta2", options.beta2},
           {"epsilon", epsilon},
           {"weight_decay", weight_decay},
           {"decoupled", decoupled || tensorflow},
           {"tensorflow", tensorflow},
           {"all_rows", moves_all_rows(options)}},
          {{.name = "mean"}, {.name = "square"}}};
}

Rule rule(const AdagradOptions& options) {
  const bool tensorflow = is_tensorflow(options);
  const double accumulator = options.initial_accumulator.value_or(tensorflow ? 0.1 : 0);
  const double epsilon = options.epsilon.value_or(tensorflow ? 1e-7 : 1e-10);
  require_not_negative("Adagrad", "initial_accumulator", accumulator);
  require_not_negative("Adagrad", "epsilon", epsilon);
  require_not_negative("Adagrad", "weight_decay", options.weight_decay);
  return {&kApplyAdagrad,
          {{"epsilon", epsilon},
           {"weight_decay", options.weight_decay},
           {"tensorflow", tensorflow},
           // Without a gradient nothing but decay moves a row.
           {"all_rows", moves_all_rows(options) && options.weight_decay > 0}},
          {{.name = "accumulator", .initial_value = accumulator}}};
}

Rule rule(const RmsPropOptions& options) {
  const bool tensorflow = is_tensorflow(options);
  const double rho = options.rho.value_or(tensorflow ? 0.9 : 0.99);
  const double epsilon = options.epsilon.value_or(tensorflow ? 1e-7 : 1e-8);
  require_fraction("RmsProp", "rho", rho);
  require_not_negative("RmsProp", "momentum", options.momentum);
  require_not_negative("RmsProp", "epsilon", epsilon);
  require_not_negative("RmsProp", "weight_decay", options.weight_decay);
  return {&kApplyRmsProp,
          {{"rho", rho},
           {"epsilon", epsilon},
           {"momentum", options.momentum},
           {"weight_decay", options.weight_decay},
           {"centered", options.centered},
           {"tensorflow", tensorflow},
           {"all_rows", moves_all_rows(options)}},
          {{.name = "square"}, {.name = velocity_name(options.formula)}, {.name = "mean"}}};
}

Rule rule(const FtrlOptions& options) {
  require_not_negative("Ftrl", "initial_accumulator", options.initial_accumulator);
  require(options.learning_rate_power <= 0, "Ftrl", "learning_rate_power must not be positive",
          options.learning_rate_power);
  require_not_negative("Ftrl", "l1", options.l1);
  require_not_negative("Ftrl", "l2", options.l2);
  return {
      &kApplyFtrl,
      {{"learning_rate_power", options.learning_rate_power},
       {"l1", options.l1},
       {"l2", options.l2},
       {"all_rows", false}},
      {{.name = "accumulator", .initial_value = options.initial_accumulator}, {.name = "linear"}}};
}

}  // namespace

Sgd::Sgd(const SgdOptions& options)
    : Optimizer(options.learning_rate, options.clipping, rule(options)) {}

Adam::Adam(const AdamOptions& options)
    : Optimizer(options.learning_rate, options.clipping,
                adam_rule("Adam", options, options.weight_decay, false)) {}

AdamW::AdamW(const AdamWOptions& options)
    : Optimizer(
          options.learning_rate, options.clipping,
          adam_rule("AdamW", options,
                    options.weight_decay.value_or(is_tensorflow(options) ? 0.004 : 0.01), true)) {}

Adagrad::Adagrad(const AdagradOptions& options)
    : Optimizer(options.learning_rate.value_or(is_tensorflow(options) ? 0.001 : 0.01),
                options.clipping, rule(options)) {}

RmsProp::RmsProp(const RmsPropOptions& options)
    : Optimizer(options.learning_rate.value_or(is_tensorflow(options) ? 0.001 : 0.01),
                options.clipping, rule(options)) {}

Ftrl::Ftrl(const FtrlOptions& options)
    : Optimizer(options.learning_rate, options.clipping, rule(options)) {}

}  // namespace cohort::optim
