#include "distribute/mirrored_variable.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/device.h"
#include "distribute/aggregate.h"
#include "distribute/update_guards.h"
#include "ops/dispatch.h"

namespace cohort::internal {

size_t MirroredVariable::copy_across() const {
  const Device& here = value_device();
  for (size_t i = 1; i < copies().size(); ++i) {
    if (body(copy(i).handle().handle).device == &here) return i;
  }
  return 0;
}

bool MirroredVariable::may_differ() const {
  return differs_.load(std::memory_order_relaxed) ||
         is_traced_to_differ_.load(std::memory_order_relaxed);
}

void MirroredVariable::note_own_write() {
  const bool is_traced = thread_dispatch().builder != nullptr;
  (is_traced ? is_traced_to_differ_ : differs_).store(true, std::memory_order_relaxed);
}

DistributedValue MirroredVariable::parts() const {
  std::vector<Gradient> values;
  for (const Variable& each : copies()) values.emplace_back(each.read_value());
  return {DistributedValue::Kind::Mirrored, std::move(values)};
}

Tensor MirroredVariable::write_across(Write how, const Tensor& value) {
  const std::lock_guard lock(writing_all());  // before the workers meet, so that all see one order
  const Tensor same = guard_write_across(*this, name_of(how), {value})[0];
  return write_all(how, std::vector<Tensor>(copies().size(), same));
}

Tensor MirroredVariable::write_across_parts(Write how, const std::vector<Tensor>& values) {
  const std::lock_guard lock(writing_all());
  std::vector<Tensor> parts = values;
  parts[0] = guard_write_across(*this, name_of(how), {values[0]})[0];
  return write_all(how, parts);
}

void MirroredVariable::restore(const Tensor& value) {
  const std::lock_guard lock(writing_all());
  write_all(Write::Assign, std::vector<Tensor>(copies().size(), value));
}

Tensor MirroredVariable::write_all(Write how, const std::vector<Tensor>& values) {
  std::vector<Tensor> written;
  for (size_t i = 0; i < values.size(); ++i) written.push_back(write_copy(i, how, values[i]));
  const bool is_traced = thread_dispatch().builder != nullptr;
  if (how == Write::Assign && !is_traced) differs_.store(false, std::memory_order_relaxed);
  return written[copy_across()];
}

Tensor MirroredVariable::write_in_replica(ReplicaContext& replica, Write how,
                                          const WrittenValue& given) {
  VariableImpl& own = copy(replica.local_replica());
  if (options().aggregation != VariableAggregation::None) {
    ReplicaTurn turn(replica, writing_all());
    const Tensor one = aggregate(replica, *this, how, given);
    turn.all_met();
    Tensor written = write_to(own, how, one);
    await_other_copies(replica);
    return written;
  }
  note_lone_write(replica, name_of(how));
  return write_to(own, how, given.value);
}

Tensor MirroredVariable::scatter_across(ScatterOp op, const IndexedSlices& slices) {
  require_scatter(*this, op);
  const std::lock_guard lock(writing_all());
  const std::vector<Tensor> same =
      guard_write_across(*this, name_of(op), {slices.values, slices.indices});
  std::vector<Tensor> written;
  for (size_t i = 0; i < copies().size(); ++i) {
    const DeviceScope there(copy(i).device());
    written.push_back(copy(i).scatter(op, {same[0], same[1], slices.dense_shape}));
  }
  return written[copy_across()];
}

Tensor MirroredVariable::scatter_in_replica(ReplicaContext& replica, ScatterOp op,
                                            const IndexedSlices& slices) {
  require_scatter(*this, op);
  VariableImpl& own = copy(replica.local_replica());
  if (options().aggregation != VariableAggregation::None) {
    ReplicaTurn turn(replica, writing_all());
    const IndexedSlices joined = aggregate(replica, *this, op, slices);
    turn.all_met();
    Tensor written = own.scatter(op, joined);
    await_other_copies(replica);
    return written;
  }
  note_lone_write(replica, name_of(op));
  return own.scatter(op, slices);
}

void MirroredVariable::note_lone_write(const ReplicaContext& replica, std::string_view what) {
  const GuardAction action = owner().extended().guards().lone_writes;
  if (action == GuardAction::Stop || (action != GuardAction::Off && !warned_.exchange(true))) {
    const std::string text = fmt::format(
        "[MirroredVariable] {} of variable '{}' in replica {}: with aggregation None it writes "
        "this "
        "replica's copy alone; make the variable with Sum, Mean or OnlyFirstReplica",
        what, name(), replica.replica_id_in_sync_group());
    if (action == GuardAction::Stop) raise(Code::FailedPrecondition, "{}", text);
    log_warning("{}", text);
  }
  note_own_write();
}

std::shared_ptr<DistributedVariable> MirroredVariable::like_this(
    std::vector<Variable> copies) const {
  return std::make_shared<MirroredVariable>(std::move(copies), options());
}

Tensor write_parts(const Variable& target, Write write, const Variable& value) {
  const auto source = std::dynamic_pointer_cast<MirroredVariable>(VariableAccess::impl(value));
  if (source != nullptr && !source->use("read").copy) {
    return write_parts(target, write, source->parts());
  }
  return write_to(*VariableAccess::impl(target), write, value);
}

}  // namespace cohort::internal
