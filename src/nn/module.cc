#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "base/mutex.h"
#include "base/raise.h"
#include "base/site_scope.h"
#include "cohort/nn_layers.h"
#include "ops/variable_cell.h"

namespace cohort {
namespace internal {

// What the copies of a module share. The first call of a layer may add parts while another thread
// lists the parts of the module.
struct ModuleState {
  struct Part {
    std::string name;
    std::optional<Variable> variable;     // either a variable
    std::shared_ptr<ModuleState> module;  // or a module
  };
  using Loss = std::function<Tensor()>;

  std::vector<Part> parts() const {
    const std::lock_guard lock(mutex);
    return parts_in_order;
  }
  std::vector<Loss> losses() const {
    const std::lock_guard lock(mutex);
    return losses_in_order;
  }

  std::atomic<bool> training = true;
  std::atomic<bool> built = true;  // without the modules below
  mutable Mutex mutex;
  std::vector<Part> parts_in_order;   // of registration; guarded by mutex
  std::vector<Loss> losses_in_order;  // guarded by mutex
};

namespace {

void check_name(const std::vector<ModuleState::Part>& parts, std::string_view name) {
  if (name.empty() || name.find('/') != std::string_view::npos) {
    raise(Code::InvalidArgument,
          "[Module] a part's name must not be empty or contain '/', got '{}'", name);
  }
  const bool taken = std::ranges::find(parts, name, &ModuleState::Part::name) != parts.end();
  if (taken) raise(Code::InvalidArgument, "[Module] a part named '{}' already exists", name);
}

void add_part(ModuleState& state, ModuleState::Part part) {
  const std::lock_guard lock(state.mutex);
  check_name(state.parts_in_order, part.name);
  state.parts_in_order.push_back(std::move(part));
}

bool contains(const ModuleState& outer, const ModuleState& inner) {
  if (&outer == &inner) return true;
  return std::ranges::any_of(outer.parts(), [&](const ModuleState::Part& part) {
    return part.module && contains(*part.module, inner);
  });
}

// Calls visit(prefix, name, variable) for each variable that is not in `seen`.
template <typename Visit>
void visit_variables(const ModuleState& state, const std::string& prefix,
                     std::unordered_set<const VariableImpl*>& seen, const Visit& visit) {
  for (const ModuleState::Part& part : state.parts()) {
    if (part.module) {
      visit_variables(*part.module, prefix + part.name + '/', seen, visit);
    } else if (seen.insert(VariableAccess::impl(*part.variable).get()).second) {
      visit(prefix, part.name, *part.variable);
    }
  }
}

template <typename Visit>
void for_each_variable(const ModuleState& state, const Visit& visit) {
  std::unordered_set<const VariableImpl*> seen;
  visit_variables(state, "", seen, visit);
}

// Appends the losses of `state` and of all modules below it. A module that is reached twice counts
// once.
void collect_losses(const ModuleState& state, std::unordered_set<const ModuleState*>& seen,
                    std::vector<Tensor>& all) {
  if (!seen.insert(&state).second) return;
  for (const ModuleState::Loss& loss : state.losses()) {
    const UsersCode penalty;
    all.push_back(loss());
  }
  for (const ModuleState::Part& part : state.parts()) {
    if (part.module) collect_losses(*part.module, seen, all);
  }
}

void set_training(ModuleState& state, bool training) {
  state.training.store(training, std::memory_order_relaxed);
  for (const ModuleState::Part& part : state.parts()) {
    if (part.module) set_training(*part.module, training);
  }
}

bool is_built(const ModuleState& state) {
  if (!state.built.load(std::memory_order_acquire)) return false;
  return std::ranges::all_of(state.parts(), [](const ModuleState::Part& part) {
    return !part.module || is_built(*part.module);
  });
}

}  // namespace
}  // namespace internal

namespace nn {

using cohort::internal::for_each_variable;

Module::Module() : state_(std::make_shared<cohort::internal::ModuleState>()) {}

NamedVariables Module::named_variables() const {
  NamedVariables all;
  for_each_variable(
      *state_, [&](const std::string& prefix, const std::string& name, const Variable& variable) {
        all.emplace_back(prefix + name, variable);
      });
  return all;
}

std::vector<Variable> Module::variables() const {
  std::vector<Variable> all;
  for_each_variable(*state_, [&](const std::string&, const std::string&, const Variable& variable) {
    all.push_back(variable);
  });
  return all;
}

std::vector<Variable> Module::trainable_variables() const {
  std::vector<Variable> all = variables();
  std::erase_if(all, [](const Variable& variable) { return !variable.trainable(); });
  return all;
}

std::vector<Tensor> Module::losses(Site site) const {
  const cohort::internal::SiteScope there(site);
  std::vector<Tensor> all;
  std::unordered_set<const cohort::internal::ModuleState*> seen;
  cohort::internal::collect_losses(*state_, seen, all);
  return all;
}

void Module::train() { cohort::internal::set_training(*state_, true); }
void Module::eval() { cohort::internal::set_training(*state_, false); }
bool Module::is_training() const { return state_->training.load(std::memory_order_relaxed); }

bool Module::is_built() const { return cohort::internal::is_built(*state_); }
void Module::set_built(bool built) { state_->built.store(built, std::memory_order_release); }

Variable Module::register_variable(std::string_view name, Variable variable) {
  cohort::internal::add_part(*state_,
                             {.name = std::string(name), .variable = variable, .module = nullptr});
  return variable;
}

void Module::add_loss(std::function<Tensor()> loss) {
  if (!loss) cohort::internal::raise(Code::InvalidArgument, "[Module] the loss is empty");
  const std::lock_guard lock(state_->mutex);
  state_->losses_in_order.push_back(std::move(loss));
}

void Module::add_regularizer(const Variable& variable, const Regularizer& regularizer) {
  if (regularizer) add_loss([=] { return regularizer(variable); });
}

void Module::adopt(std::string_view name, const Module& part) {
  if (cohort::internal::contains(*part.state_, *state_)) {
    cohort::internal::raise(Code::InvalidArgument, "[Module] '{}' cannot be a part of itself",
                            name);
  }
  cohort::internal::add_part(
      *state_, {.name = std::string(name), .variable = std::nullopt, .module = part.state_});
}

namespace {

// The nodes that a regularizer adds to a graph have the line that asked for the penalty. If no
// function of the library called the regularizer, they have the line where it was made.
Regularizer made_at(Site site, Regularizer regularizer) {
  return [site, regularizer = std::move(regularizer)](const Tensor& x) {
    const cohort::internal::LibraryCode here;
    const cohort::internal::SiteScope there(site);
    return regularizer(x);
  };
}

void check_factor(std::string_view which, double factor) {
  if (factor >= 0) return;
  cohort::internal::raise(Code::InvalidArgument, "[{}] the factor must not be negative, got {}",
                          which, factor);
}

}  // namespace

Regularizer l1(double factor, Site site) {
  check_factor("l1", factor);
  return made_at(site, [factor](const Tensor& x) { return sum(abs(x)) * factor; });
}

Regularizer l2(double factor, Site site) {
  check_factor("l2", factor);
  return made_at(site, [factor](const Tensor& x) { return sum(square(x)) * factor; });
}

Regularizer l1_l2(double l1_factor, double l2_factor, Site site) {
  return made_at(site, [first = l1(l1_factor), second = l2(l2_factor)](const Tensor& x) {
    return first(x) + second(x);
  });
}

Sequential::Sequential()
    : layers_(std::make_shared<std::vector<cohort::internal::LayerFunction>>()) {}

Tensor Sequential::operator()(const Tensor& x, Site site) const {
  Tensor result = x;
  for (const auto& layer : *layers_) result = layer(result, site);
  return result;
}

}  // namespace nn
}  // namespace cohort
