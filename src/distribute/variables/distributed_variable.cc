#include "distribute/variables/distributed_variable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/raise.h"
#include "distribute/contexts/context.h"
#include "distribute/variables/update_guards.h"
#include "graph/scopes.h"
#include "ops/dispatch.h"
#include "tensor/devices.h"

namespace cohort::internal {
namespace {

using Kind = DistributedValue::Kind;

// A value for each of `copies` copies, where `value` has them.
std::optional<std::vector<Tensor>> parts_of(const DistributedValue& value, size_t copies) {
  const bool apart = value.kind() == Kind::Mirrored ||
                     (value.kind() == Kind::Variable && is_mirrored(value.variable()));
  if (!apart || value.size() != copies) return std::nullopt;
  std::vector<Tensor> parts;
  for (const Gradient& component : value.components()) parts.push_back(component.dense());
  return parts;
}

int64_t next_number() {
  static std::atomic<int64_t> numbers = 0;
  return numbers.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::string_view name_of(Write how) {
  static constexpr std::array<std::string_view, 3> kNames = {"assign", "assign_add", "assign_sub"};
  return kNames[static_cast<size_t>(how)];
}

std::string_view name_of(ScatterOp op) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "scatter_update", "scatter_add", "scatter_sub", "scatter_mul",
      "scatter_div",    "scatter_min", "scatter_max"};
  return kNames[static_cast<size_t>(op)];
}

DistributedVariable::DistributedVariable(std::vector<Variable> copies, VariableOptions options)
    : copies_(std::move(copies)), options_(std::move(options)), number_here_(next_number()) {}

VariableUse DistributedVariable::use(std::string_view what) const {
  const Mode* mode = current_mode();
  if (mode == nullptr) return {};
  if (mode->strategy != strategy) {
    // Throws, unless the mode is that of no strategy at all.
    const EnterOrAssert here(*strategy, fmt::format("{} of variable '{}'", what, name()));
    return {};
  }
  const size_t last = copies_.size() - 1;
  if (ReplicaContext* replica = mode->replica) {
    return {std::min(replica->local_replica(), last), replica};
  }
  if (const std::optional<size_t> index = update_index()) return {std::min(*index, last), nullptr};
  return {};
}

Variable DistributedVariable::self() const {
  return VariableAccess::make(std::const_pointer_cast<DistributedVariable>(shared_from_this()));
}

std::string DistributedVariable::label() const {
  const StrategyExtended& extended = owner().extended();
  const bool is_alone =
      static_cast<size_t>(extended.num_replicas_in_sync()) == extended.num_local_replicas();
  if (is_alone) return fmt::format("'{}' (number {})", name(), number_here_);
  const bool is_agreed = agreement_holds_ != nullptr && agreement_holds_->load() &&
                         thread_dispatch().builder == nullptr;
  return is_agreed ? fmt::format("'{}' (number {})", name(), agreed_number_)
                   : fmt::format("'{}'", name());
}

void DistributedVariable::agree_on_number(int64_t number,
                                          std::shared_ptr<const std::atomic<bool>> holds) {
  agreed_number_ = number;
  agreement_holds_ = std::move(holds);
}

const std::string& DistributedVariable::name() const { return copy(0).name(); }
const VariableHandle& DistributedVariable::first_copy() const { return copy(0).handle(); }

const VariableHandle& DistributedVariable::handle() const {
  const std::optional<size_t> own = use("use").copy;
  return copy(own ? *own : copy_across()).handle();
}

std::string DistributedVariable::device() const {
  const std::optional<size_t> own = use("device").copy;
  return copy(own.value_or(0)).device();
}

bool DistributedVariable::is_initialized() const {
  return std::ranges::all_of(copies_, &Variable::is_initialized);
}

Tensor DistributedVariable::read() const {
  const std::optional<size_t> own = use("read").copy;
  return own ? copy(*own).read() : read_across();
}

Tensor DistributedVariable::convert() const {
  const std::optional<size_t> own = use("read").copy;
  return own ? copy(*own).convert() : convert_across();
}

Tensor DistributedVariable::write_value(Write how, const WrittenValue& given) {
  const VariableUse use = this->use(name_of(how));
  if (use.replica != nullptr) return write_in_replica(*use.replica, how, given);
  if (!use.copy) return write_everywhere(how, given.value);
  note_own_write();
  return copy(*use.copy).write(how, given.value);
}

Tensor DistributedVariable::write(Write how, const DistributedValue& value) {
  const VariableUse use = this->use(name_of(how));
  const bool across = !use.copy && use.replica == nullptr;
  const bool in_update = use.copy && use.replica == nullptr;
  // A value with one local component is a part, too, if other workers have other components.
  const bool has_parts =
      value.kind() == Kind::PerReplica && (value.size() > 1 || owner().num_replicas_in_sync() > 1);
  if (has_parts && !in_update) check_takes_parts(use);
  if (across) {
    if (const auto parts = parts_of(value, copies_.size())) return write_across(how, *parts);
  }
  return write(how, value.value().dense());
}

void DistributedVariable::check_takes_parts(const VariableUse& use) const {
  if (use.replica == nullptr) {
    refuse_parts("reduce it, or give copies different values with extended().update()");
  }
  const bool merges = options_.synchronization == VariableSynchronization::OnWrite &&
                      options_.aggregation != VariableAggregation::None;
  if (!merges) refuse_parts("nothing says how they become one: take the replica's own value");
}

Tensor DistributedVariable::scatter(ScatterOp op, const IndexedSlices& slices) {
  const VariableUse use = this->use("scatter");
  if (use.replica != nullptr) return scatter_in_replica(*use.replica, op, slices);
  if (!use.copy) return scatter_across(op, slices);
  note_own_write();
  return copy(*use.copy).scatter(op, slices);
}

void DistributedVariable::restore(const Tensor& value) { write_everywhere(Write::Assign, value); }

std::shared_ptr<VariableImpl> DistributedVariable::deep_copy() const {
  use("deep_copy");
  std::vector<Variable> fresh;
  for (const Variable& each : copies_) fresh.push_back(each.deep_copy());
  const std::shared_ptr<DistributedVariable> made = like_this(std::move(fresh));
  made->take_over(*strategy);
  made->share_order(order_);
  return made;
}

std::string DistributedVariable::to_string() const {
  std::string text = fmt::format("{}:{{", kind());
  for (size_t i = 0; i < copies_.size(); ++i) {
    text += fmt::format("{}\n  {}: {}", i == 0 ? "" : ",", i, copies_[i].to_string());
  }
  return text + "\n}";
}

// The workers compare the first value. All copies that get this value share the result of the
// comparison.
std::vector<Tensor> DistributedVariable::compared_with_workers(Write how,
                                                               std::vector<Tensor> values) const {
  const Tensor given = values[0];
  const Tensor compared = guard_write_across(*this, name_of(how), {given})[0];
  for (Tensor& value : values) {
    if (same_tensor(value, given)) value = compared;
  }
  return values;
}

Tensor DistributedVariable::write_copy(size_t index, Write how, const Tensor& value) const {
  const CopyDeviceScope there(copy(index).device());
  return copy(index).write(how, value);
}

void DistributedVariable::refuse_parts(std::string_view reason) const {
  raise(
      Code::InvalidArgument,
      "[{}] variable '{}' of {} was given a PerReplica, which has another value for each copy; {}",
      kind(), name(), owner().extended().name(), reason);
}

void DistributedVariable::take_over(Strategy& owner) {
  strategy = &owner;
  for (const Variable& each : copies_) {
    VariableImpl& impl = *VariableAccess::impl(each);
    impl.strategy = &owner;
    impl.whole = weak_from_this();
  }
}

Variable adopt_copies(Strategy& strategy, std::shared_ptr<DistributedVariable> variable) {
  variable->take_over(strategy);
  return VariableAccess::make(std::move(variable));
}

std::shared_ptr<DistributedVariable> distributed(const Variable& variable) {
  return std::dynamic_pointer_cast<DistributedVariable>(VariableAccess::impl(variable));
}

std::vector<Variable> copies_of(const Variable& variable) {
  const auto whole = distributed(variable);
  return whole != nullptr ? whole->copies() : std::vector{variable};
}

Tensor read_copy(const Variable& copy) {
  const RecordingPause not_recorded;
  return copy.read_value({});
}

Variable container_of(const Variable& copy) {
  const std::shared_ptr<VariableImpl> whole = VariableAccess::impl(copy)->whole.lock();
  return whole != nullptr ? VariableAccess::make(whole) : copy;
}

bool is_mirrored(const Variable& variable) {
  return VariableAccess::impl(variable)->strategy != nullptr &&
         variable.synchronization() != VariableSynchronization::OnRead;
}

DistributedValue change_copies(const Variable& variable, const StrategyExtended::Change& change) {
  const std::vector<Variable> copies = copies_of(variable);
  const auto whole = distributed(variable);
  std::optional<ModeScope> across;
  if (whole != nullptr) {
    whole->use("update");
    across.emplace(Mode{&whole->owner(), nullptr});
    whole->note_own_write();  // `change` may do something else for each copy
  }
  const WritersTurn turn = turn_to_write(variable);
  std::vector<Gradient> results;
  for (size_t k = 0; k < copies.size(); ++k) {
    const UpdateScope updating(k);
    const CopyDeviceScope there(copies[k].device());
    results.emplace_back(change(copies[k], k));
  }
  return {DistributedValue::Kind::Mirrored, std::move(results)};
}

CopyDeviceScope::CopyDeviceScope(const std::string& device) {
  const auto is_of_this_task = [&] {
    return has_device(device) || is_local(DeviceName::parse_any_form(device));
  };
  if (thread_dispatch().builder != nullptr || is_of_this_task()) scope_.emplace(device);
}

std::string label_of(const Variable& variable) {
  const auto whole = distributed(variable);
  return whole != nullptr ? whole->label() : fmt::format("'{}'", variable.name());
}

std::vector<std::string> labels_of(const std::vector<Variable>& variables) {
  const auto number = [](const Variable& variable) {
    const auto whole = distributed(variable);
    return whole != nullptr ? whole->number_here() : -1;
  };
  std::vector<std::string> labels;
  std::map<std::string, std::set<int64_t>> made;  // by label
  for (const Variable& variable : variables) {
    made[labels.emplace_back(label_of(variable))].insert(number(variable));
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    const std::set<int64_t>& alike = made[labels[i]];
    const auto later = std::distance(alike.begin(), alike.find(number(variables[i])));
    if (later > 0) labels[i] += fmt::format(" (made {} later)", later);
  }
  return labels;
}

WritersTurn turn_to_write(const Variable& variable) {
  const auto whole = distributed(variable);
  if (whole == nullptr || update_index() || builds_session_graph()) return {};
  return WritersTurn(whole->writing_all());
}

Tensor write_parts(const Variable& target, Write write, const DistributedValue& value, Site site) {
  const SiteScope there(site);
  if (const auto copies = distributed(target)) return copies->write(write, value);
  return VariableAccess::impl(target)->write(write, value.value().dense());
}

}  // namespace cohort::internal
