#include "optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/collective_purpose.h"
#include "base/raise.h"
#include "base/timeline.h"
#include "cohort/graph.h"
#include "cohort/graph_variable.h"
#include "cohort/ops.h"
#include "graph/scopes.h"
#include "graph/tracing.h"
#include "ops/dispatch.h"
#include "ops/traced_step.h"
#include "variables/graph_variable.h"

namespace cohort::optim {
namespace internal {

using cohort::internal::Attrs;
using cohort::internal::builds_session_graph;
using cohort::internal::is_of_graph;
using cohort::internal::raise;
using cohort::internal::UpdatePath;
using cohort::internal::VariableAccess;
using cohort::internal::VariableImpl;

namespace {

// `saved`, when defined, is what the slot begins with.
VariableRequest slot_request(const Variable& variable, const SlotSpec& spec, const Tensor& saved) {
  const Shape shape = variable.shape();
  const DType dtype = variable.dtype();
  return {[shape, dtype, saved, value = spec.initial_value] {
            const cohort::internal::LibraryCode here;
            return saved.defined() ? saved : fill(shape, cast(Tensor(value), dtype));
          },
          {.name = variable.name() + "/" + spec.name, .trainable = false}};
}

// Makes the slot where its variable lives.
Variable make_slot(const Variable& variable, const VariableRequest& request,
                   const UpdatePath* path) {
  if (path != nullptr) return path->make_beside(variable, request);
  const Tensor& handle = VariableAccess::impl(variable)->handle().handle;
  std::optional<Colocation> together;
  if (handle.is_symbolic()) together.emplace(handle);
  return Variable(request.initializer, request.options);
}

// All workers share one count, on the device that a variable asks for, wherever the optimizer was
// made: the chief would never initialise a worker's own count. The count is not colocated with the
// variable, because an op that changes the count may ask for another device.
Variable make_graph_count(const std::string& prefix, const std::string& device) {
  const NameScope outside("");
  const DeviceScope anywhere(nullptr);
  const DeviceScope there(device);
  return cohort::internal::make_update_count(prefix);
}

}  // namespace

// The replicas of a strategy share one state.
struct OptimizerState {
  LearningRate rate;
  cohort::internal::TracedSetting rate_setting = {};
  Clipping clipping;
  Rule rule;
  std::string name_prefix = {};  // of the count of updates

  // Guards all below; entries of `slots` never move. A Turn, because the thread that makes a slot
  // or moves the count may wait for other tasks.
  cohort::internal::Turn turn = {};
  // The result of describe_settings(); null after a change.
  std::shared_ptr<const std::string> settings = nullptr;
  // In a session's graph the first update makes the count, because an update knows a variable whose
  // device the count can share. So does a call of count() before that.
  std::optional<Variable> iterations = std::nullopt;
  // The slots of each variable in the rule's order, and all slots in the order in which they were
  // made.
  std::map<std::shared_ptr<VariableImpl>, std::vector<Variable>> slots = {};
  std::vector<Variable> made = {};
  // The values that slots which are not made yet begin with, by variable and slot.
  std::map<std::pair<std::shared_ptr<VariableImpl>, std::string>, Tensor> awaited = {};
  cohort::internal::IdleVariables idle = {};

  // In a session's graph, makes a count for that graph on the device of `neighbour`: the optimizer
  // may have been made before the graph.
  void enter_graph(const Variable& neighbour) {
    if (!builds_session_graph()) return;
    const std::lock_guard lock(turn);
    if (iterations && is_of_graph(*iterations)) return;
    iterations = make_graph_count(name_prefix, neighbour.device());
  }

  Variable count() {
    const std::lock_guard lock(turn);
    if (!iterations) {
      cohort::get_default_graph();  // throws unless a graph is being built
      iterations = make_graph_count(name_prefix, "");
      cohort::internal::follow_first_variable(*iterations);
    }
    return *iterations;
  }

  // "ApplySgd, learning rate 0.1, weight_decay 0". The workers compare the text at each update:
  // with different settings their copies would drift apart.
  std::shared_ptr<const std::string> describe_settings() {
    const std::lock_guard lock(turn);
    if (settings != nullptr) return settings;
    const std::optional<double> constant = rate.constant();
    std::string text = fmt::format("{}, learning rate {}", rule.op->name,
                                   constant ? fmt::format("{}", *constant) : "by a schedule");
    for (const auto& [name, value] : rule.constants.entries()) {
      if (const auto* number = std::get_if<double>(&value)) {
        text += fmt::format(", {} {}", name, *number);
      } else if (const auto* flag = std::get_if<bool>(&value)) {
        text += fmt::format(", {} {}", name, *flag);
      }
    }
    settings = std::make_shared<const std::string>(std::move(text));
    return settings;
  }

  // Moves the count of updates to where the variables are.
  void settle(const UpdatePath& path, const Variable& neighbour) {
    const std::lock_guard lock(turn);
    cohort::internal::settle_update_count(*iterations, path, neighbour);
  }

  const std::vector<Variable>& slots_of(const Variable& variable, const UpdatePath* path) {
    const std::lock_guard lock(turn);
    const auto found = slots.find(VariableAccess::impl(variable));
    if (found != slots.end()) return found->second;
    std::vector<Variable> fresh;
    for (const SlotSpec& spec : rule.slots) {
      const Tensor saved = take_awaited(variable, spec.name);
      fresh.push_back(make_slot(variable, slot_request(variable, spec, saved), path));
    }
    made.insert(made.end(), fresh.begin(), fresh.end());
    return slots.emplace(VariableAccess::impl(variable), std::move(fresh)).first->second;
  }

  // Makes one update along the path of the variables' strategy. Returns the number of updates made.
  Tensor apply(const Gradients& gradients, const std::vector<Variable>& variables) {
    if (!variables.empty()) enter_graph(variables[0]);
    const auto path = cohort::internal::find_update_path(variables);
    if (path == nullptr) return step(gradients, variables, {});
    settle(*path, variables[0]);
    const auto take = [&](const Gradients& sums, size_t copy) {
      return step(sums, variables, {path.get(), copy});
    };
    const Tensor done = path->apply(gradients, variables, {take, count()});
    return done.defined() ? done : count().read_value();
  }

  // What one update changes: that copy of each variable and slot, and of the count. Without a path
  // each variable is its only copy.
  struct Target {
    const UpdatePath* path = nullptr;
    size_t copy = 0;

    const Variable& of(const Variable& variable) const {
      return path != nullptr ? path->copy_of(variable, copy) : variable;
    }
  };

  // One update of the target.
  Tensor step(const Gradients& gradients, const std::vector<Variable>& variables,
              const Target& target) {
    cohort::internal::require_some_gradient(gradients);
    const Gradients limited = clipped(gradients, clipping);
    const Variable counted = count();
    const Tensor now = rate_at(counted);
    // The rate depends on the updates before this one.
    const ControlDependencies after_rate({now});
    const Tensor taken = Variable(target.of(counted)).assign_add(int64_t{1});
    std::vector<Tensor> updates{taken};
    for (size_t i = 0; i < variables.size(); ++i) {
      if (!limited[i].defined()) {
        idle.name_once(variables[i]);
        continue;
      }
      updates.push_back(update(variables[i], target, limited[i], now, taken));
    }
    if (!taken.is_symbolic()) return taken;
    const Tensor done = group(updates);
    cohort::internal::end_traced_step(taken, done);
    return done;
  }

  Tensor update(const Variable& variable, const Target& target, const Gradient& gradient,
                const Tensor& rate_now, const Tensor& step) {
    const auto& handle = VariableAccess::impl(target.of(variable))->handle();
    std::vector<Tensor> inputs{handle.handle};
    for (const Variable& slot : slots_of(variable, target.path)) {
      inputs.push_back(VariableAccess::impl(target.of(slot))->handle().handle);
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
    attrs.set("dtype", handle.dtype);
    attrs.set("shape", handle.shape);
    return cohort::internal::apply(*rule.op, inputs, std::move(attrs), {});
  }

  // Takes the awaited value of the slot; undefined when there is none.
  Tensor take_awaited(const Variable& variable, const std::string& slot) {
    const auto found = awaited.find({VariableAccess::impl(variable), slot});
    return found != awaited.end() ? std::move(awaited.extract(found).mapped()) : Tensor();
  }

  // The rate after that many updates.
  Tensor rate_at(const Variable& taken) const {
    rate_setting.use();
    const Tensor now = [&] {
      const cohort::internal::UsersCode schedule;
      return rate.at(taken);
    }();
    if (is_floating(now.dtype()) && now.shape().is_compatible_with({})) return now;
    raise(Code::InvalidArgument,
          "[Optimizer] a learning rate must be one floating number, but the schedule returned "
          "shape {}, {}",
          now.shape().to_string(), to_string(now.dtype()));
  }

  // The rate for a caller that only asks: in a session's graph all callers share one node.
  Tensor asked_rate() {
    const Variable taken = count();
    const Tensor& handle = VariableAccess::impl(taken)->first_copy().handle;
    return cohort::internal::keep_about(fmt::format("learning rate {}", rate_setting.version()),
                                        {handle}, [&] { return rate_at(taken); });
  }
};

std::vector<OptimizerAccess::Slot> OptimizerAccess::slots(const Optimizer& optimizer) {
  const OptimizerState& state = *optimizer.state_;
  const std::lock_guard lock(optimizer.state_->turn);
  std::vector<Slot> all;
  for (const auto& [impl, values] : state.slots) {
    for (size_t i = 0; i < values.size(); ++i) {
      const SlotSpec& spec = state.rule.slots[i];
      all.push_back({VariableAccess::make(impl), spec.name, values[i], spec.initial_value});
    }
  }
  return all;
}

bool OptimizerAccess::has_slot(const Optimizer& optimizer, std::string_view name) {
  const std::vector<SlotSpec>& specs = optimizer.state_->rule.slots;
  return std::ranges::find(specs, name, &SlotSpec::name) != specs.end();
}

void OptimizerAccess::await(Optimizer& optimizer, const Variable& variable, const std::string& slot,
                            Tensor value) {
  const std::lock_guard lock(optimizer.state_->turn);
  optimizer.state_->awaited[{VariableAccess::impl(variable), slot}] = std::move(value);
}

}  // namespace internal

using internal::raise;

Optimizer::Optimizer(LearningRate rate, Clipping clipping, internal::Rule rule)
    : state_(new internal::OptimizerState{.rate = std::move(rate),
                                          .clipping = internal::checked(clipping),
                                          .rule = std::move(rule),
                                          .name_prefix = cohort::internal::name_prefix()}) {
  if (!internal::builds_session_graph()) state_->iterations = cohort::internal::make_update_count();
}

Optimizer::~Optimizer() = default;

Tensor Optimizer::apply_gradients(const Gradients& gradients,
                                  const std::vector<Variable>& variables, Site site) {
  const std::shared_ptr<const std::string> settings = state_->describe_settings();
  const cohort::internal::CollectivePurpose purpose("apply_gradients", site, *settings);
  const cohort::internal::SiteScope made_there(site);
  internal::check_all(gradients, variables);
  const cohort::internal::RecordingPause pause;
  if (const auto parts = cohort::internal::expand_variables(gradients, variables)) {
    return apply_gradients(parts->gradients, parts->variables, site);
  }
  cohort::internal::OptimizerSpan span(cohort::internal::thread_dispatch().builder == nullptr);
  const Tensor done = state_->apply(gradients, variables);
  if (span.is_kept() && !done.is_symbolic()) span.set_number(done.to<int64_t>());
  return done;
}

Tensor Optimizer::minimize(const Tensor& loss, const std::vector<Variable>& variables,
                           std::optional<Variable> step, Site site) {
  if (!loss.is_symbolic()) {
    raise(Code::InvalidArgument,
          "[Optimizer] the loss is a value, so its computation is unknown; use a GradientTape and "
          "apply_gradients(), or minimize() with a function that computes the loss");
  }
  const cohort::internal::SiteScope made_there(site);
  const std::vector<Variable> all = variables.empty() ? trainable_variables() : variables;
  const Tensor update = apply_gradients(gradients({loss}, all), all, site);
  if (!step) return update;
  const ControlDependencies after({update});
  return group({step->assign_add(int64_t{1})});
}

Tensor Optimizer::minimize(const std::function<Tensor()>& loss,
                           const std::vector<Variable>& variables, Site site) {
  GradientTape tape;
  for (const Variable& variable : variables) tape.watch(variable, site);
  const Tensor value = loss();
  apply_gradients(tape.gradient(value, variables, {}, site), variables, site);
  return value;
}

Variable Optimizer::iterations(Site site) const {
  const cohort::internal::SiteScope made_there(site);
  return state_->count();
}
Tensor Optimizer::learning_rate(Site site) const {
  const cohort::internal::SiteScope made_there(site);
  return state_->asked_rate();
}
void Optimizer::set_learning_rate(LearningRate rate) {
  const std::lock_guard lock(state_->turn);
  state_->rate = std::move(rate);
  state_->settings = nullptr;
  state_->rate_setting.changed();
}

Variable Optimizer::slot(const Variable& variable, const std::string& name) const {
  const std::lock_guard lock(state_->turn);
  const auto found = state_->slots.find(cohort::internal::VariableAccess::impl(variable));
  for (size_t i = 0; found != state_->slots.end() && i < state_->rule.slots.size(); ++i) {
    if (state_->rule.slots[i].name == name) return found->second[i];
  }
  raise(Code::NotFound, "[Optimizer] slot '{}' of variable '{}' does not exist{}", name,
        variable.name(),
        found == state_->slots.end() ? ": slots are made at the first update" : "");
}

std::vector<Variable> Optimizer::variables() const {
  std::vector<Variable> all{state_->count()};
  const std::lock_guard lock(state_->turn);
  all.insert(all.end(), state_->made.begin(), state_->made.end());
  return all;
}

}  // namespace cohort::optim
