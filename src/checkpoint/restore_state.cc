#include "checkpoint/restore_state.h"

#include <vector>

#include "base/log.h"
#include "base/raise.h"
#include "base/text.h"
#include "cohort/ops.h"
#include "optim/optimizer.h"
#include "optim/update_path.h"

namespace cohort {
namespace internal {
namespace {

using optim::internal::OptimizerAccess;

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
  const std::vector<Variable> parts = parts_of_variable(slot.variable);
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

RestoreState::RestoreState(std::string_view prefix) : files_(prefix) {
  for (const auto& [name, entry] : files_.manifest().tensors) unused_.insert(name);
}

RestoreState::~RestoreState() {
  if (quiet_ || unused_.empty()) return;
  log_warning(
      "[Checkpoint] restoring '{}' used nothing of {}; expect_partial() says that this is meant",
      files_.prefix(), some_of(unused_));
}

void RestoreState::check_fits(const std::string& name, DType dtype, const Shape& shape) const {
  const SavedEntry& entry = files_.entry(name);
  if (entry.dtype == dtype && entry.shape.is_compatible_with(shape)) return;
  raise(Code::InvalidArgument, "[Checkpoint] '{}' has '{}' as {} {}, but the object wants {} {}",
        files_.prefix(), name, to_string(entry.dtype), entry.shape.to_string(), to_string(dtype),
        shape.to_string());
}

// One text, or one of each worker.
Shape RestoreState::bytes_shape(const std::string& path) const {
  const auto& saved = files_.manifest().tensors;
  const auto found = saved.find(path);
  const bool several =
      found != saved.end() && found->second.shape.rank() == 1 && found->second.shape[0] > 1;
  return several ? found->second.shape : Shape{};
}

std::string RestoreState::read_bytes(const std::string& path, const TrackedState& state) const {
  const std::vector<std::string> of_workers = files_.read(path).to_vector<std::string>();
  if (of_workers.size() == 1) return of_workers[0];
  const StrategyExtended* const strategy = state.strategy();
  const InputContext worker = strategy == nullptr ? InputContext() : strategy->input_context();
  const bool as_many = static_cast<size_t>(worker.num_input_pipelines()) == of_workers.size();
  return of_workers.at(as_many ? static_cast<size_t>(worker.input_pipeline_id()) : 0);
}

RestoreState::Values RestoreState::read_values(const TrackedState& state) {
  Values values;
  const auto wanted = [&](const std::string& path, DType dtype, const Shape& shape) {
    if (!files_.manifest().tensors.contains(path)) missing_.insert(path);
    if (!unused_.contains(path)) return false;
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
      values.variables.emplace_back(variable, files_.read(path));
    }
  }
  for (const auto& [path, optimizer] : state.optimizers) {
    for (const std::string& name : unused_) {
      const auto slot = state.awaited_slot(path, name);
      if (slot && wanted(name, slot->variable.dtype(), slot->variable.shape())) {
        values.slots.push_back({optimizer, *slot, files_.read(name)});
      }
    }
  }
  return values;
}

std::optional<double> RestoreState::beginning_of(const TrackedState& state,
                                                 const std::string& path) const {
  const auto slot = state.slot_beginnings.find(path);
  const auto& saved = files_.manifest().tensors;
  if (slot == state.slot_beginnings.end() || saved.contains(path) ||
      !unused_.contains(slot->second.iterations)) {
    return std::nullopt;
  }
  return slot->second.value;
}

void RestoreState::apply(const TrackedState& state) {
  const std::lock_guard lock(mutex_);
  const Values values = read_values(state);
  // Programs' own code first: it is the part that may fail.
  for (const auto& [restore, saved] : values.bytes) restore(saved);
  for (const auto& [variable, value] : values.variables) {
    VariableAccess::impl(variable)->restore(value);
  }
  for (const auto& [optimizer, slot, value] : values.slots) {
    await_slot(*optimizer, slot, value);
  }
  for (const std::string& name : values.used) unused_.erase(name);
}

std::optional<Tensor> RestoreState::take(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (unused_.erase(name) == 0) return std::nullopt;
  return files_.read(name);
}

void RestoreState::assert_existing_objects_matched() {
  const std::lock_guard lock(mutex_);
  quiet_ = true;
  if (missing_.empty()) return;
  raise(Code::FailedPrecondition, "[Checkpoint] '{}' has no values for {}", files_.prefix(),
        some_of(missing_));
}

void RestoreState::assert_consumed() {
  assert_existing_objects_matched();
  const std::lock_guard lock(mutex_);
  if (unused_.empty()) return;
  raise(Code::FailedPrecondition,
        "[Checkpoint] '{}' has values that no object took: {}; track what they are for",
        files_.prefix(), some_of(unused_));
}

void RestoreState::expect_partial() {
  const std::lock_guard lock(mutex_);
  quiet_ = true;
}

}  // namespace internal

RestoreStatus::RestoreStatus(std::shared_ptr<internal::RestoreState> state)
    : state_(std::move(state)) {}

const RestoreStatus& RestoreStatus::assert_consumed() const {
  state_->assert_consumed();
  return *this;
}

const RestoreStatus& RestoreStatus::assert_existing_objects_matched() const {
  state_->assert_existing_objects_matched();
  return *this;
}

const RestoreStatus& RestoreStatus::expect_partial() const {
  state_->expect_partial();
  return *this;
}

}  // namespace cohort
