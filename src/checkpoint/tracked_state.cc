#include "checkpoint/tracked_state.h"

#include "base/raise.h"
#include "checkpoint/checkpoint_impl.h"
#include "cohort/internal/common_bytes.h"
#include "cohort/metrics.h"
#include "cohort/optim.h"
#include "optim/optimizer.h"
#include "optim/update_path.h"

namespace cohort {
namespace internal {
namespace {

using optim::internal::OptimizerAccess;

constexpr std::string_view kSlots = "/slots/";
constexpr const char* kIterations = "/iterations";

std::string last_part_of(const std::string& name) { return name.substr(name.rfind('/') + 1); }

struct TrackedVariables : Tracked {
  explicit TrackedVariables(std::function<nn::NamedVariables()> list)
      : variables(std::move(list)) {}
  void collect(const std::string& path, TrackedState& state) const override {
    for (const auto& [name, variable] : variables()) {
      state.add(name.empty() ? path : path + "/" + name, variable);
    }
  }
  const std::function<nn::NamedVariables()> variables;
};

struct TrackedBytes : Tracked {
  explicit TrackedBytes(TrackedState::Bytes both) : bytes(std::move(both)) {}
  void collect(const std::string& path, TrackedState& state) const override {
    state.add(path, bytes);
  }
  const TrackedState::Bytes bytes;
};

struct TrackedOptimizer : Tracked {
  explicit TrackedOptimizer(optim::Optimizer& which) : optimizer(which) {}
  void collect(const std::string& path, TrackedState& state) const override {
    state.add(path + kIterations, optimizer.iterations());
    state.optimizers.emplace(path, &optimizer);
  }
  optim::Optimizer& optimizer;
};

// The tracked variable that another is a part of.
using Wholes = std::map<const VariableImpl*, const Variable*>;

Wholes wholes_of_parts(const std::map<std::string, Variable>& variables) {
  Wholes wholes;
  for (const auto& [path, variable] : variables) {
    for (const Variable& part : parts_of_variable(variable)) {
      wholes.emplace(VariableAccess::impl(part).get(), &variable);
    }
  }
  return wholes;
}

// The slots with those of a variable's parts as one each: what is saved does not depend on how the
// variable was cut.
std::vector<OptimizerAccess::Slot> joined(const std::vector<OptimizerAccess::Slot>& slots,
                                          const Wholes& wholes) {
  std::vector<OptimizerAccess::Slot> all;
  std::map<std::pair<const Variable*, std::string>, std::map<const VariableImpl*, Variable>> parts;
  std::map<std::string, double> beginnings;
  for (const OptimizerAccess::Slot& slot : slots) {
    const VariableImpl* owner = VariableAccess::impl(slot.variable).get();
    const auto whole = wholes.find(owner);
    if (whole == wholes.end()) {
      all.push_back(slot);
      continue;
    }
    parts[{whole->second, slot.name}].emplace(owner, slot.value);
    beginnings[slot.name] = slot.initial_value;
  }
  for (const auto& [which, values] : parts) {
    const auto& [whole, name] = which;
    std::vector<Variable> in_order;
    for (const Variable& part : parts_of_variable(*whole)) {
      const auto value = values.find(VariableAccess::impl(part).get());
      if (value != values.end()) in_order.push_back(value->second);
    }
    all.push_back(
        {*whole, name, join_variables(in_order, whole->name() + "/" + name), beginnings.at(name)});
  }
  return all;
}

nn::NamedVariables sums_of(const metrics::Metric& metric) {
  nn::NamedVariables named;
  for (const Variable& sum : metric.variables()) named.emplace_back(last_part_of(sum.name()), sum);
  return named;
}

}  // namespace

void TrackedState::check_new(const std::string& path) const {
  if (!variables.contains(path) && !bytes.contains(path)) return;
  raise(Code::AlreadyExists, "[Checkpoint] two things are called '{}'; give them other names",
        path);
}

void TrackedState::add(const std::string& path, const Variable& variable) {
  check_new(path);
  variables.emplace(path, variable);
}

void TrackedState::add(const std::string& path, const Bytes& each) {
  check_new(path);
  bytes.emplace(path, each);
}

void TrackedState::add_slots() {
  std::map<const VariableImpl*, std::string> paths;
  for (const auto& [path, variable] : variables) {
    paths.emplace(VariableAccess::impl(variable).get(), path);
  }
  const Wholes wholes = wholes_of_parts(variables);
  for (const auto& [path, optimizer] : optimizers) {
    const std::vector<OptimizerAccess::Slot> slots =
        joined(OptimizerAccess::slots(*optimizer), wholes);
    for (const OptimizerAccess::Slot& slot : slots) {
      const auto known = paths.find(VariableAccess::impl(slot.variable).get());
      // Variables that no object tracks go by their names.
      const std::string owner = known != paths.end() ? known->second : slot.variable.name();
      const std::string own = fmt::format("{}{}{}/{}", path, kSlots, owner, slot.name);
      add(own, slot.value);
      slot_beginnings.emplace(own, SlotBeginning{slot.initial_value, path + kIterations});
    }
  }
}

std::optional<TrackedState::AwaitedSlot> TrackedState::awaited_slot(
    const std::string& optimizer_path, const std::string& tensor) const {
  const std::string beginning = optimizer_path + std::string(kSlots);
  const size_t end = tensor.rfind('/');
  if (!tensor.starts_with(beginning) || end <= beginning.size() || variables.contains(tensor)) {
    return std::nullopt;
  }
  const auto owner = variables.find(tensor.substr(beginning.size(), end - beginning.size()));
  const std::string slot = last_part_of(tensor);
  if (owner == variables.end() ||
      !OptimizerAccess::has_slot(*optimizers.at(optimizer_path), slot)) {
    return std::nullopt;
  }
  return AwaitedSlot{owner->second, slot};
}

StrategyExtended* TrackedState::strategy() const {
  StrategyExtended* found = has_strategy() ? &get_strategy().extended() : nullptr;
  for (const auto& [path, variable] : variables) {
    const Strategy* const made_by = VariableAccess::impl(variable)->strategy;
    if (made_by == nullptr) continue;
    found = &made_by->extended();
    if (found->input_context().num_input_pipelines() > 1) break;
  }
  return found;
}

}  // namespace internal

using internal::TrackedBytes;
using internal::TrackedOptimizer;
using internal::TrackedVariables;

Trackable::Trackable(std::shared_ptr<const internal::Tracked> tracked)
    : tracked_(std::move(tracked)) {}

Trackable::Trackable(std::function<nn::NamedVariables()> variables, std::nullptr_t)
    : tracked_(std::make_shared<TrackedVariables>(std::move(variables))) {}

Trackable::Trackable(const Variable& variable)
    : Trackable(
          [variable] {
            return nn::NamedVariables{{"", variable}};
          },
          nullptr) {}

Trackable::Trackable(optim::Optimizer& optimizer)
    : tracked_(std::make_shared<TrackedOptimizer>(optimizer)) {}

Trackable::Trackable(const metrics::Metric& metric)
    : Trackable([&metric] { return internal::sums_of(metric); }, nullptr) {}

Trackable Trackable::bytes(SaveBytes save, RestoreBytes restore) {
  if (!save || !restore) {
    internal::raise(Code::InvalidArgument, "[Checkpoint] bytes need a way there and a way back");
  }
  return Trackable(std::make_shared<TrackedBytes>(
      internal::TrackedState::Bytes{std::move(save), std::move(restore)}));
}

Trackable internal::common_bytes(Trackable::SaveBytes save, Trackable::RestoreBytes restore) {
  return CheckpointImpl::trackable(std::make_shared<TrackedBytes>(
      TrackedState::Bytes{std::move(save), std::move(restore), /*is_common=*/true}));
}

}  // namespace cohort
