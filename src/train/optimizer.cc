#include "train/optimizer.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/graph_variable.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"

namespace cohort::optim {
namespace internal {

using cohort::internal::Attrs;
using cohort::internal::raise;
using cohort::internal::VariableAccess;
using cohort::internal::VariableImpl;

void require(bool holds, std::string_view optimizer, std::string_view what, double value) {
  if (!holds) raise(Code::InvalidArgument, "[{}] {}, got {}", optimizer, what, value);
}

struct OptimizerState {
  LearningRate rate;
  Clipping clipping;
  Rule rule;
  Variable iterations;
  // Slots of each variable, in the rule's order, and all of them in the order of their making.
  std::map<std::shared_ptr<VariableImpl>, std::vector<Variable>> slots = {};
  std::vector<Variable> made = {};
  std::set<std::string> warned = {};

  const std::vector<Variable>& slots_of(const Variable& variable);
  Tensor update(const Variable& variable, const Gradient& gradient, const Tensor& rate_now,
                const Tensor& step);
};

const std::vector<Variable>& OptimizerState::slots_of(const Variable& variable) {
  const auto [entry, fresh] = slots.try_emplace(VariableAccess::impl(variable));
  if (!fresh) return entry->second;
  for (const SlotSpec& spec : rule.slots) {
    const Shape shape = variable.shape();
    const DType dtype = variable.dtype();
    const Initializer initializer = [shape, dtype, value = spec.initial_value] {
      return fill(shape, cast(Tensor(value), dtype));
    };
    entry->second.emplace_back(
        initializer,
        VariableOptions{.name = variable.name() + "/" + spec.name, .trainable = false});
    made.push_back(entry->second.back());
  }
  return entry->second;
}

Tensor OptimizerState::update(const Variable& variable, const Gradient& gradient,
                              const Tensor& rate_now, const Tensor& step) {
  const auto& target = VariableAccess::impl(variable)->handle();
  std::vector<Tensor> inputs{target.handle};
  for (const Variable& slot : slots_of(variable)) {
    inputs.push_back(VariableAccess::impl(slot)->handle().handle);
  }
  if (gradient.is_sparse()) {
    inputs.push_back(gradient.slices().values);
    inputs.push_back(gradient.slices().indices);
  } else {
    inputs.push_back(gradient.dense());
  }
  inputs.push_back(rate_now);
  inputs.push_back(step);
  Attrs attrs = rule.constants;
  attrs.set("sparse", gradient.is_sparse());
  attrs.set("dtype", target.dtype);
  attrs.set("shape", target.shape);
  return cohort::internal::apply(*rule.op, inputs, std::move(attrs), {});
}

namespace {

// Rows that name what the variable has, one index for each.
void check_rows(const Variable& variable, const IndexedSlices& slices) {
  const Shape values = slices.values.shape();
  const Shape indices = slices.indices.shape();
  Shape expected = slices.dense_shape;
  if (expected.rank() > 0 && indices.rank() == 1) expected = expected.with(0, indices[0]);
  if (indices.rank() != 1 || !values.is_compatible_with(expected)) {
    raise(Code::InvalidArgument,
          "[Optimizer] the gradient of variable '{}' has row values of shape {} and indices of "
          "shape {}, which do not make up rows of shape {}",
          variable.name(), values.to_string(), indices.to_string(), slices.dense_shape.to_string());
  }
  if (slices.indices.is_symbolic()) return;
  for (const int64_t row : slices.indices.to_vector<int64_t>()) {
    if (row >= 0 && row < slices.dense_shape[0]) continue;
    raise(Code::InvalidArgument,
          "[Optimizer] the gradient of variable '{}' names row {} of {} rows", variable.name(), row,
          slices.dense_shape[0]);
  }
}

void check_pair(const Variable& variable, const Gradient& gradient) {
  if (!is_floating(variable.dtype())) {
    raise(Code::InvalidArgument, "[Optimizer] variable '{}' is {}; only floating variables train",
          variable.name(), to_string(variable.dtype()));
  }
  const Shape shape =
      gradient.is_sparse() ? gradient.slices().dense_shape : gradient.dense().shape();
  if (!shape.is_compatible_with(variable.shape())) {
    raise(Code::InvalidArgument, "[Optimizer] variable '{}' has shape {}, but its gradient has {}",
          variable.name(), variable.shape().to_string(), shape.to_string());
  }
  const DType dtype =
      gradient.is_sparse() ? gradient.slices().values.dtype() : gradient.dense().dtype();
  if (!is_floating(dtype)) {
    raise(Code::InvalidArgument, "[Optimizer] the gradient of variable '{}' is {}, not floating",
          variable.name(), to_string(dtype));
  }
  if (gradient.is_sparse()) check_rows(variable, gradient.slices());
}

void check_limit(double limit, std::string_view name) {
  if (limit >= 0) return;
  raise(Code::InvalidArgument, "[Optimizer] clipping by {} must not be negative, got {}", name,
        limit);
}

Clipping checked(const Clipping& clipping) {
  check_limit(clipping.value, "value");
  check_limit(clipping.norm, "norm");
  check_limit(clipping.global_norm, "global norm");
  return clipping;
}

// Checks everything before anything changes. Returns whether there is at least one gradient.
bool check_all(const Gradients& gradients, const std::vector<Variable>& variables) {
  if (gradients.size() != variables.size()) {
    raise(Code::InvalidArgument, "[Optimizer] {} gradients for {} variables", gradients.size(),
          variables.size());
  }
  bool any = false;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!gradients[i].defined()) continue;
    check_pair(variables[i], gradients[i]);
    any = true;
  }
  return any;
}

}  // namespace
}  // namespace internal

using internal::raise;

Optimizer::Optimizer(LearningRate rate, Clipping clipping, internal::Rule rule)
    : state_(new internal::OptimizerState{
          .rate = std::move(rate),
          .clipping = internal::checked(clipping),
          .rule = std::move(rule),
          .iterations =
              Variable(int64_t{0}, {.name = "iterations",
                                    .trainable = false,
                                    .aggregation = VariableAggregation::OnlyFirstReplica})}) {}

Optimizer::~Optimizer() = default;

Tensor Optimizer::apply_gradients(const Gradients& gradients,
                                  const std::vector<Variable>& variables) {
  if (!internal::check_all(gradients, variables)) {
    raise(Code::InvalidArgument,
          "[Optimizer] none of the {} variables has a gradient; was the loss computed from them "
          "while the tape recorded?",
          variables.size());
  }
  const cohort::internal::RecordingPause pause;
  const Gradients limited = internal::clipped(gradients, state_->clipping);
  const Tensor rate = learning_rate();
  // The rate depends on the updates before this one.
  const ControlDependencies after_rate({rate});
  const Tensor step = state_->iterations.assign_add(int64_t{1});
  std::vector<Tensor> updates{step};
  for (size_t i = 0; i < variables.size(); ++i) {
    if (limited[i].defined()) {
      updates.push_back(state_->update(variables[i], limited[i], rate, step));
    } else if (state_->warned.insert(variables[i].name()).second) {
      cohort::internal::log_warning("[Optimizer] variable '{}' has no gradient and stays as it is",
                                    variables[i].name());
    }
  }
  return step.is_symbolic() ? group(updates) : step;
}

Tensor Optimizer::minimize(const Tensor& loss, const std::vector<Variable>& variables,
                           std::optional<Variable> step) {
  if (!loss.is_symbolic()) {
    raise(
        Code::InvalidArgument,
        "[Optimizer] the loss is a value, so nobody knows how it was computed; use a GradientTape "
        "and apply_gradients(), or minimize() with a function that computes it");
  }
  const std::vector<Variable> all = variables.empty() ? trainable_variables() : variables;
  const Tensor update = apply_gradients(gradients({loss}, all), all);
  if (!step) return update;
  const ControlDependencies after({update});
  return group({update, step->assign_add(int64_t{1})});
}

Tensor Optimizer::minimize(const std::function<Tensor()>& loss,
                           const std::vector<Variable>& variables) {
  GradientTape tape;
  for (const Variable& variable : variables) tape.watch(variable);
  const Tensor value = loss();
  apply_gradients(tape.gradient(value, variables), variables);
  return value;
}

Variable Optimizer::iterations() const { return state_->iterations; }
Tensor Optimizer::learning_rate() const {
  const Tensor rate = state_->rate.at(state_->iterations);
  if (is_floating(rate.dtype()) && rate.shape().is_compatible_with({})) return rate;
  raise(Code::InvalidArgument,
        "[Optimizer] a learning rate is one floating number; the schedule gave shape {}, {}",
        rate.shape().to_string(), to_string(rate.dtype()));
}
void Optimizer::set_learning_rate(LearningRate rate) { state_->rate = std::move(rate); }

Variable Optimizer::slot(const Variable& variable, const std::string& name) const {
  const auto found = state_->slots.find(cohort::internal::VariableAccess::impl(variable));
  for (size_t i = 0; found != state_->slots.end() && i < state_->rule.slots.size(); ++i) {
    if (state_->rule.slots[i].name == name) return found->second[i];
  }
  raise(Code::NotFound, "[Optimizer] no slot '{}' for variable '{}'{}", name, variable.name(),
        found == state_->slots.end() ? ": slots are made at the first update" : "");
}

std::vector<Variable> Optimizer::variables() const {
  std::vector<Variable> all{state_->iterations};
  all.insert(all.end(), state_->made.begin(), state_->made.end());
  return all;
}

}  // namespace cohort::optim
