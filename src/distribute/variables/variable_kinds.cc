#include "distribute/variables/variable_kinds.h"

#include <fmt/format.h>

#include <functional>
#include <map>

#include "base/collective_purpose.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "base/thread_context.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "cohort/variable.h"
#include "distribute/contexts/context.h"
#include "distribute/reduce/variable_aggregation.h"
#include "distribute/variables/update_guards.h"
#include "graph/graph_impl.h"
#include "graph/scopes.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "variables/single_variable.h"

namespace cohort {
namespace internal {

class ReadCache;

namespace {

constinit ContextSlot<bool> sync_on_read;
constinit ContextSlot<std::shared_ptr<ReadCache>> open_cache;

std::string read_purpose(const DistributedVariable& variable) {
  return fmt::format("a read of variable {}", variable.label());
}

}  // namespace

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

DistributedValue MirroredVariable::copy_values() const {
  std::vector<Gradient> values;
  for (const Variable& each : copies()) values.emplace_back(each.read_value({}));
  return {DistributedValue::Kind::Mirrored, std::move(values)};
}

Tensor MirroredVariable::write_across(Write how, std::vector<Tensor> values) {
  const std::lock_guard lock(writing_all());  // before the workers meet, so that all see one order
  return write_all(how, compared_with_workers(how, std::move(values)));
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

template <typename Given, typename Aggregate, typename Change>
Tensor MirroredVariable::change_in_replica(ReplicaContext& replica, std::string_view what,
                                           const Given& given, const Aggregate& aggregate,
                                           const Change& change) {
  if (options().aggregation == VariableAggregation::None) {
    note_lone_write(replica, what);
    return change(given);
  }
  ReplicaTurn turn(replica, writing_all());
  const Given one = aggregate();
  turn.all_met();
  Tensor written = change(one);
  await_other_copies(replica);
  return written;
}

Tensor MirroredVariable::write_in_replica(ReplicaContext& replica, Write how,
                                          const WrittenValue& given) {
  return change_in_replica(
      replica, name_of(how), given.value, [&] { return aggregate(replica, *this, how, given); },
      [&](const Tensor& value) { return copy(replica.local_replica()).write(how, value); });
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
  return change_in_replica(
      replica, name_of(op), slices, [&] { return aggregate(replica, *this, op, slices); },
      [&](const IndexedSlices& rows) { return copy(replica.local_replica()).scatter(op, rows); });
}

void MirroredVariable::note_lone_write(const ReplicaContext& replica, std::string_view what) {
  const GuardAction action = owner().extended().guards().lone_writes;
  if (action == GuardAction::Stop || (action != GuardAction::Off && !warned_.exchange(true))) {
    const std::string text = fmt::format(
        "[MirroredVariable] {} of variable '{}' in replica {}: with aggregation None it writes "
        "this replica's copy alone; make the variable with Sum, Mean or OnlyFirstReplica",
        what, name(), replica.replica_id_in_sync_group());
    if (action == GuardAction::Stop) raise(Code::FailedPrecondition, "{}", text);
    log_warning("{}", text);
  }
  note_own_write();
}

Tensor write_parts(const Variable& target, Write write, const Variable& value, Site site) {
  const SiteScope there(site);
  const auto source = std::dynamic_pointer_cast<MirroredVariable>(VariableAccess::impl(value));
  if (source != nullptr && !source->use("read").copy) {
    return write_parts(target, write, source->copy_values(), site);
  }
  return VariableAccess::impl(target)->write(write, value);
}

Tensor SyncOnReadVariable::read() const {
  const VariableUse where = use("read");
  if (where.replica != nullptr && sync_on_read.get()) {
    raise(Code::Unimplemented,
          "[SyncOnReadVariable] '{}': read_value() is not defined inside "
          "variable_sync_on_read_context(); use the variable where a tensor is wanted",
          name());
  }
  return where.copy ? copy(*where.copy).read() : read_across();
}

Tensor SyncOnReadVariable::convert() const {
  const VariableUse where = use("read");
  if (where.replica == nullptr || !sync_on_read.get()) return DistributedVariable::convert();
  require_aggregation("read");
  const CollectivePurpose purpose(read_purpose(*this));
  return aggregate_values(*where.replica, *this, copy(*where.copy).read());
}

void SyncOnReadVariable::accumulate(const Tensor& delta) {
  if (use("accumulate").copy || !sums()) {
    write(Write::AssignAdd, delta);
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

void SyncOnReadVariable::restore_copies(const std::vector<Tensor>& values) {
  const std::lock_guard lock(writing_all());
  for (size_t i = 0; i < values.size(); ++i) write_copy(i, Write::Assign, values[i]);
}

Tensor SyncOnReadVariable::read_across() const {
  return combine_copies([](const Variable& each) { return each.read_value({}); });
}

Tensor SyncOnReadVariable::convert_across() const {
  return combine_copies([](const Variable& each) { return Tensor(each); });
}

Tensor SyncOnReadVariable::combine_copies(
    const std::function<Tensor(const Variable&)>& read) const {
  require_aggregation("read");
  const bool is_first_enough = options().aggregation == VariableAggregation::OnlyFirstReplica;
  const size_t needed = is_first_enough ? 1 : copies().size();
  std::vector<Tensor> values;
  for (size_t i = 0; i < needed; ++i) values.push_back(read(copies()[i]));
  return keep_about("all copies", values, [&] { return combine(values); });
}

Tensor SyncOnReadVariable::combine(const std::vector<Tensor>& values) const {
  const CollectivePurpose purpose(read_purpose(*this));
  const ModeScope across({&owner(), nullptr});
  if (options().aggregation == VariableAggregation::OnlyFirstReplica) {
    return owner().extended().from_first_worker(values[0]);
  }
  const DistributedValue all(DistributedValue::Kind::PerReplica,
                             std::vector<Gradient>(values.begin(), values.end()));
  return owner()
      .extended()
      .reduce_to(reduce_op_of(options().aggregation), all, value_device().full_name)
      .value()
      .dense();
}

size_t SyncOnReadVariable::copy_across() const {
  raise(Code::InvalidArgument,
        "[SyncOnReadVariable] '{}' has a copy to differentiate or update only inside a replica; "
        "outside, the variable is all {} copies together",
        name(), copies().size());
}

void SyncOnReadVariable::require_aggregation(std::string_view what) const {
  if (options().aggregation != VariableAggregation::None) return;
  raise(Code::InvalidArgument,
        "[SyncOnReadVariable] {} of '{}' outside of replicas: aggregation None does not say how to "
        "combine its {} copies; make the variable with Sum, Mean or OnlyFirstReplica",
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

Tensor SyncOnReadVariable::write_across(Write how, std::vector<Tensor> values) {
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
    write_copies(how, compared_with_workers(how, std::move(values)));
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
  return copy(replica.local_replica()).write(how, given.value);
}

Tensor SyncOnReadVariable::scatter(ScatterOp, const IndexedSlices&) {
  use("scatter");
  raise(Code::Unimplemented,
        "[SyncOnReadVariable] '{}' has no scatter operations; assign the whole value, or make it "
        "with synchronization OnWrite",
        name());
}

void AggregatingVariable::require_aggregation(std::string_view what) const {
  if (options().aggregation != VariableAggregation::None) return;
  raise(Code::InvalidArgument,
        "[AggregatingVariable] {} on '{}' in a replica: {} keeps one copy for {} replicas, and "
        "aggregation None does not say how to combine what they write; make the variable with Sum, "
        "Mean or OnlyFirstReplica",
        what, name(), owner().extended().name(), owner().num_replicas_in_sync());
}

Tensor AggregatingVariable::write_in_replica(ReplicaContext& replica, Write how,
                                             const WrittenValue& given) {
  require_aggregation(name_of(how));
  const Tensor one = aggregate(replica, *this, how, given);
  return once_for_all(replica, [&] { return write_copy(0, how, one); });
}

Tensor AggregatingVariable::scatter_across(ScatterOp op, const IndexedSlices& slices) {
  require_scatter(*this, op);
  const CopyDeviceScope there(copy(0).device());
  return copy(0).scatter(op, slices);
}

Tensor AggregatingVariable::scatter_in_replica(ReplicaContext& replica, ScatterOp op,
                                               const IndexedSlices& slices) {
  require_aggregation("scatter");
  require_scatter(*this, op);
  const IndexedSlices joined = aggregate(replica, *this, op, slices);
  return once_for_all(replica, [&] { return scatter_across(op, joined); });
}

// The values that were read inside one CacheVariableReadsScope. Thread-safe.
class ReadCache {
 public:
  // The result of the first call for this variable, and this graph if one is being built.
  Tensor get(const std::shared_ptr<VariableImpl>& variable, const std::function<Tensor()>& read) {
    const std::lock_guard one_at_a_time(reading_);
    Tensor& value = values_[{variable, thread_dispatch().builder}];
    if (!value.defined()) value = read();
    return value;
  }

 private:
  // The cache keeps its variables alive: a new variable at the address of an old one would get the
  // value of the old one.
  using Key = std::pair<std::shared_ptr<VariableImpl>, const GraphBuilder*>;

  Turn reading_;                  // of the thread that reads a variable, perhaps on another task
  std::map<Key, Tensor> values_;  // guarded by reading_
};

CachingVariable::CachingVariable(const Variable& far) : far_(far) {
  strategy = VariableAccess::impl(far)->strategy;
}

Tensor CachingVariable::read() const {
  const std::shared_ptr<ReadCache> cache = open_cache.get();
  if (cache == nullptr || RowReads::active()) return impl().read();
  const Tensor near = cache->get(VariableAccess::impl(far_), [this] {
    const RecordingPause not_recorded;  // tapes record every use below
    const DeviceScope here("CPU:0");
    return identity(impl().read());
  });
  return note_read(handle().handle, near, trainable());
}

std::shared_ptr<VariableImpl> CachingVariable::deep_copy() const {
  return std::make_shared<CachingVariable>(far_.deep_copy());
}

}  // namespace internal

VariableSyncOnReadScope::VariableSyncOnReadScope()
    : outer_(std::exchange(internal::sync_on_read.get(), true)) {}
VariableSyncOnReadScope::~VariableSyncOnReadScope() { internal::sync_on_read.get() = outer_; }

CacheVariableReadsScope::CacheVariableReadsScope() {
  if (internal::open_cache.get() != nullptr) {
    internal::raise(Code::InvalidArgument,
                    "[cache_variable_reads] reads are cached already; these scopes do not nest");
  }
  internal::open_cache.get() = std::make_shared<internal::ReadCache>();
}
CacheVariableReadsScope::~CacheVariableReadsScope() { internal::open_cache.get() = nullptr; }

}  // namespace cohort
