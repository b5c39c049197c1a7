#include "distribute/sync_on_read_variable.h"

#include <fmt/format.h>

#include "base/purpose.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "distribute/aggregate.h"
#include "distribute/context.h"
#include "distribute/update_guards.h"
#include "distribute/variable_scopes.h"

namespace cohort::internal {
namespace {

std::string read_purpose(const DistributedVariable& variable) {
  return fmt::format("a read of variable {}", variable.label());
}

}  // namespace

Tensor SyncOnReadVariable::read() const {
  const VariableUse where = use("read");
  if (where.replica != nullptr && syncs_on_read()) {
    raise(Code::Unimplemented,
          "[SyncOnReadVariable] '{}': read_value() is not defined inside "
          "variable_sync_on_read_context(); use the variable where a tensor is wanted",
          name());
  }
  return where.copy ? copy(*where.copy).read() : read_across();
}

Tensor SyncOnReadVariable::convert() const {
  const VariableUse where = use("read");
  if (where.replica == nullptr || !syncs_on_read()) return read();
  require_aggregation("read");
  const CollectivePurpose purpose(read_purpose(*this));
  return aggregate_values(*where.replica, *this, copy(*where.copy).read());
}

void SyncOnReadVariable::accumulate(const Tensor& delta) {
  if (use("accumulate").copy || !sums()) {
    assign_add(delta);
    return;
  }
  const Tensor same = guard_write_across(*this, "accumulate", {delta})[0];
  const bool is_first = owner().extended().replica_id(0) == 0;
  // The zeros depend on the compared value, so that each worker's graph keeps the comparison.
  write_copy(0, Write::AssignAdd, is_first ? same : where(Tensor(true), zeros_like(same), same));
}

void SyncOnReadVariable::restore(const Tensor& value) {
  require_aggregation("restore");
  const std::lock_guard lock(writing_all());
  write_copies(Write::Assign, std::vector<Tensor>(copies().size(), value));
}

Tensor SyncOnReadVariable::read_across() const {
  require_aggregation("read");
  const CollectivePurpose purpose(read_purpose(*this));
  const ModeScope across({&owner(), nullptr});
  if (options().aggregation == VariableAggregation::OnlyFirstReplica) {
    return owner().extended().from_first_worker(copy(0).read());
  }
  std::vector<Gradient> values;
  for (const Variable& each : copies()) values.emplace_back(each.read_value());
  const DistributedValue all(DistributedValue::Kind::PerReplica, std::move(values));
  return owner()
      .extended()
      .reduce_to(reduce_op_of(options().aggregation), all, value_device().full_name)
      .value()
      .dense();
}

size_t SyncOnReadVariable::copy_across() const {
  raise(Code::InvalidArgument,
        "[SyncOnReadVariable] '{}' has a copy to differentiate or update only inside of a replica; "
        "outside it is the {} copies together",
        name(), copies().size());
}

void SyncOnReadVariable::require_aggregation(std::string_view what) const {
  if (options().aggregation != VariableAggregation::None) return;
  raise(Code::InvalidArgument,
        "[SyncOnReadVariable] {} of '{}' outside of replicas: it has aggregation None, so nothing "
        "says how its {} copies become one; make it with Sum, Mean or OnlyFirstReplica",
        what, name(), copies().size());
}

Tensor SyncOnReadVariable::share_of(const Tensor& value, size_t index) const {
  const int64_t replicas = owner().num_replicas_in_sync();
  if (is_floating(first_copy().dtype)) {
    return cast(value, first_copy().dtype) / static_cast<double>(replicas);
  }
  // The first replicas take what does not divide, so that the copies add up to the value.
  const Tensor count = cast(Tensor(replicas), value.dtype());
  const Tensor each = floor_div(value, count);
  const Tensor rest = value - each * count;
  const Tensor id = cast(Tensor(int64_t{owner().extended().replica_id(index)}), value.dtype());
  return each + cast(id < rest, value.dtype());
}

Tensor SyncOnReadVariable::write_across(Write how, const Tensor& value) {
  return write_across_parts(how, std::vector<Tensor>(copies().size(), value));
}

Tensor SyncOnReadVariable::write_across_parts(Write how, const std::vector<Tensor>& values) {
  require_aggregation(name_of(how));
  if (sums() && how != Write::Assign) {
    raise(
        Code::InvalidArgument,
        "[SyncOnReadVariable] {} on '{}' outside of replicas: its copies are summed when read, and "
        "nothing says which copy to change; do it in a replica, or assign() the new sum",
        name_of(how), name());
  }
  {
    const std::lock_guard lock(writing_all());
    std::vector<Tensor> parts = values;
    parts[0] = guard_write_across(*this, name_of(how), {values[0]})[0];
    write_copies(how, parts);
  }
  return read_across();
}

void SyncOnReadVariable::write_copies(Write how, const std::vector<Tensor>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    write_copy(i, how, sums() ? share_of(values[i], i) : values[i]);
  }
}

Tensor SyncOnReadVariable::write_in_replica(ReplicaContext& replica, Write how,
                                            const WrittenValue& given) {
  return write_to(copy(replica.local_replica()), how, given.value);
}

Tensor SyncOnReadVariable::scatter(ScatterOp op, const IndexedSlices& slices) {
  use("scatter");
  return scatter_across(op, slices);
}

Tensor SyncOnReadVariable::scatter_across(ScatterOp, const IndexedSlices&) {
  raise(Code::Unimplemented,
        "[SyncOnReadVariable] '{}' has no scatter operations; assign the whole value, or make it "
        "with synchronization OnWrite",
        name());
}

Tensor SyncOnReadVariable::scatter_in_replica(ReplicaContext&, ScatterOp op,
                                              const IndexedSlices& slices) {
  return scatter_across(op, slices);
}

std::shared_ptr<DistributedVariable> SyncOnReadVariable::like_this(
    std::vector<Variable> copies) const {
  return std::make_shared<SyncOnReadVariable>(std::move(copies), options());
}

}  // namespace cohort::internal
