#include "checkpoint/tracked_state.h"

#include <span>

#include "base/log.h"
#include "base/raise.h"
#include "base/text.h"
#include "cohort/metrics.h"
#include "cohort/ops.h"
#include "cohort/optim.h"
#include "optim/optimizer.h"

namespace cohort {
namespace internal {
namespace {

using optim::internal::OptimizerAccess;

constexpr std::string_view kSlots = "/slots/";
constexpr const char* kIterations = "/iterations";

// The tracked variable that another is a part of.
using Wholes = std::map<const VariableImpl*, const Variable*>;

Wholes wholes_of_parts(const std::map<std::string, Variable>& variables) {
  Wholes wholes;
  for (const auto& [path, variable] : variables) {
    for (const Variable& part : VariableAccess::impl(variable)->shards()) {
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
    for (const Variable& part : VariableAccess::impl(*whole)->shards()) {
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
  for (const Variable& sum : metric.variables()) named.emplace_back(last_part(sum.name()), sum);
  return named;
}

// A few of the names, for a message.
std::string some_of(const std::set<std::string>& names) {
  constexpr size_t kMaxShown = 10;
  std::vector<std::string> first;
  for (const std::string& name : names) {
    if (first.size() < kMaxShown) first.push_back(name);
  }
  const size_t rest = names.size() - first.size();
  return quoted_list(first) + (rest > 0 ? fmt::format(" and {} more", rest) : "");
}

// Each part of a variable that is made of parts gets its rows.
void await_slot(optim::Optimizer& optimizer, const TrackedState::AwaitedSlot& slot,
                const Tensor& value) {
  const std::span<const Variable> parts = VariableAccess::impl(slot.variable)->shards();
  if (parts.empty()) return OptimizerAccess::await(optimizer, slot.variable, slot.slot, value);
  int64_t begin = 0;
  for (const Variable& part : parts) {
    const int64_t end = begin + part.shape()[0];
    OptimizerAccess::await(optimizer, part, slot.slot,
                           identity(slice(value, {{.begin = begin, .end = end}})));
    begin = end;
  }
}

}  // namespace

std::shared_ptr<const Tracked> tracked_bytes(TrackedState::Bytes bytes) {
  return std::make_shared<Tracked>(
      Tracked{[bytes = std::move(bytes)](const std::string& path, TrackedState& state) {
        state.add(path, bytes);
      }});
}

void TrackedState::check_new(const std::string& path) const {
  if (!variables.contains(path) && !bytes.contains(path)) return;
  raise(Code::AlreadyExists,
        "[Checkpoint] two values have the name '{}'; give each value its own name", path);
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
  const std::string slot(last_part(tensor));
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

struct RestoreState::Values {
  std::vector<std::pair<Variable, Tensor>> variables;
  std::vector<std::pair<Trackable::RestoreBytes, std::string>> bytes;
  struct Slot {
    optim::Optimizer* optimizer;
    TrackedState::AwaitedSlot slot;
    Tensor value;
  };
  std::vector<Slot> slots;
  std::vector<std::string> used;
};

RestoreState::RestoreState(std::string_view prefix) : files(prefix) {
  for (const auto& [name, entry] : files.manifest().tensors) unused.insert(name);
}

RestoreState::~RestoreState() {
  if (quiet || unused.empty()) return;
  log_warning(
      "[Checkpoint] restoring '{}' did not use {}; call expect_partial() if this is intended",
      files.prefix(), some_of(unused));
}

void RestoreState::check_fits(const std::string& name, DType dtype, const Shape& shape) const {
  const SavedEntry& entry = files.entry(name);
  if (entry.dtype == dtype && entry.shape.is_compatible_with(shape)) return;
  raise(Code::InvalidArgument, "[Checkpoint] '{}' has '{}' as {} {}, but the object wants {} {}",
        files.prefix(), name, to_string(entry.dtype), entry.shape.to_string(), to_string(dtype),
        shape.to_string());
}

// One text, or one of each worker.
Shape RestoreState::bytes_shape(const std::string& path) const {
  const auto& saved = files.manifest().tensors;
  const auto found = saved.find(path);
  const bool several =
      found != saved.end() && found->second.shape.rank() == 1 && found->second.shape[0] > 1;
  return several ? found->second.shape : Shape{};
}

std::string RestoreState::read_bytes(const std::string& path, const TrackedState& state) const {
  const std::vector<std::string> of_workers = files.read(path).to_vector<std::string>();
  if (of_workers.size() == 1) return of_workers[0];
  const StrategyExtended* const strategy = state.strategy();
  const InputContext worker = strategy == nullptr ? InputContext() : strategy->input_context();
  const bool as_many = static_cast<size_t>(worker.num_input_pipelines()) == of_workers.size();
  return of_workers.at(as_many ? static_cast<size_t>(worker.input_pipeline_id()) : 0);
}

RestoreState::Values RestoreState::read_values(const TrackedState& state) {
  Values values;
  const auto wanted = [&](const std::string& path, DType dtype, const Shape& shape) {
    if (!files.manifest().tensors.contains(path)) missing.insert(path);
    if (!unused.contains(path)) return false;
    check_fits(path, dtype, shape);
    values.used.push_back(path);
    return true;
  };
  for (const auto& [path, bytes] : state.bytes) {
    if (wanted(path, kString, bytes_shape(path))) {
      values.bytes.emplace_back(bytes.restore, read_bytes(path, state));
    }
  }
  for (const auto& [path, variable] : state.variables) {
    if (const auto beginning = beginning_of(state, path)) {
      const Tensor value = cast(Tensor(*beginning), variable.dtype());
      values.variables.emplace_back(variable, fill(variable.shape(), value));
    } else if (wanted(path, variable.dtype(), variable.shape())) {
      values.variables.emplace_back(variable, files.read(path));
    }
  }
  for (const auto& [path, optimizer] : state.optimizers) {
    for (const std::string& name : unused) {
      const auto slot = state.awaited_slot(path, name);
      if (slot && wanted(name, slot->variable.dtype(), slot->variable.shape())) {
        values.slots.push_back({optimizer, *slot, files.read(name)});
      }
    }
  }
  return values;
}

std::optional<double> RestoreState::beginning_of(const TrackedState& state,
                                                 const std::string& path) const {
  const auto slot = state.slot_beginnings.find(path);
  const auto& saved = files.manifest().tensors;
  if (slot == state.slot_beginnings.end() || saved.contains(path) ||
      !unused.contains(slot->second.iterations)) {
    return std::nullopt;
  }
  return slot->second.value;
}

void RestoreState::apply(const TrackedState& state) {
  const std::lock_guard one_at_a_time(turn);
  const Values values = read_values(state);
  // Programs' own code first: it is the part that may fail.
  for (const auto& [restore, saved] : values.bytes) restore(saved);
  for (const auto& [variable, value] : values.variables) {
    VariableAccess::impl(variable)->restore(value);
  }
  for (const auto& [optimizer, slot, value] : values.slots) {
    await_slot(*optimizer, slot, value);
  }
  for (const std::string& name : values.used) unused.erase(name);
  for (const std::string& path : state.objects) {
    if (!state.optimizers.contains(path)) objects.insert(path);
  }
}

std::optional<Tensor> RestoreState::take(const std::string& name) {
  const std::lock_guard one_at_a_time(turn);
  if (unused.erase(name) == 0) return std::nullopt;
  return files.read(name);
}

}  // namespace internal

using internal::Tracked;
using internal::TrackedState;

Trackable::Trackable(std::shared_ptr<const Tracked> tracked) : tracked_(std::move(tracked)) {}

Trackable::Trackable(std::function<nn::NamedVariables()> variables, std::nullptr_t)
    : Trackable(std::make_shared<Tracked>(
          Tracked{[variables = std::move(variables)](const std::string& path, TrackedState& state) {
            for (const auto& [name, variable] : variables()) {
              state.add(name.empty() ? path : path + "/" + name, variable);
            }
          }})) {}

Trackable::Trackable(const Variable& variable)
    : Trackable(
          [variable] {
            return nn::NamedVariables{{"", variable}};
          },
          nullptr) {}

Trackable::Trackable(optim::Optimizer& optimizer)
    : Trackable(std::make_shared<Tracked>(
          Tracked{[&optimizer](const std::string& path, TrackedState& state) {
            state.add(path + internal::kIterations, optimizer.iterations());
            state.optimizers.emplace(path, &optimizer);
          }})) {}

Trackable::Trackable(const metrics::Metric& metric)
    : Trackable([&metric] { return internal::sums_of(metric); }, nullptr) {}

Trackable Trackable::bytes(SaveBytes save, RestoreBytes restore) {
  if (!save || !restore) {
    internal::raise(
        Code::InvalidArgument,
        "[Checkpoint] Trackable::bytes() needs a function that saves and a function that restores");
  }
  return Trackable(internal::tracked_bytes({std::move(save), std::move(restore)}));
}

RestoreStatus::RestoreStatus(std::shared_ptr<internal::RestoreState> state)
    : state_(std::move(state)) {}

const RestoreStatus& RestoreStatus::assert_existing_objects_matched() const {
  const std::lock_guard one_at_a_time(state_->turn);
  state_->quiet = true;
  if (state_->missing.empty()) return *this;
  internal::raise(Code::FailedPrecondition, "[Checkpoint] '{}' has no values for {}",
                  state_->files.prefix(), internal::some_of(state_->missing));
}

const RestoreStatus& RestoreStatus::assert_consumed() const {
  assert_existing_objects_matched();
  const std::lock_guard one_at_a_time(state_->turn);
  if (state_->unused.empty()) return *this;
  internal::raise(
      Code::FailedPrecondition,
      "[Checkpoint] '{}' has values that no object took: {}; track the objects of these values",
      state_->files.prefix(), internal::some_of(state_->unused));
}

const RestoreStatus& RestoreStatus::assert_variables_exist() const {
  const std::lock_guard one_at_a_time(state_->turn);
  std::set<std::string> without;
  for (const std::string& name : state_->unused) {
    for (size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1)) {
      if (state_->objects.contains(name.substr(0, end))) without.insert(name);
    }
  }
  if (without.empty()) return *this;
  internal::raise(Code::FailedPrecondition,
                  "[Checkpoint] '{}' has values for variables that do not exist: {}. A layer made "
                  "without the size of its input creates its variables in its first call: call the "
                  "model on one batch first",
                  state_->files.prefix(), internal::some_of(without));
}

const RestoreStatus& RestoreStatus::expect_partial() const {
  const std::lock_guard one_at_a_time(state_->turn);
  state_->quiet = true;
  return *this;
}

}  // namespace cohort
