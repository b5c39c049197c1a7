#include "distribute/variables/update_guards.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/collective_purpose.h"
#include "base/log.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "distribute/reduce/worker_collectives.h"
#include "distribute/strategies/worker_strategies.h"
#include "distribute/variables/distributed_variable.h"
#include "ops/dispatch.h"
#include "ops/infer.h"

namespace cohort::internal {
namespace {

// A sum is finite only if all its terms are; where it is not, it may have grown too large.
bool is_finite_gradient(const Gradient& gradient) {
  if (!gradient.defined()) return true;
  const Tensor values = gradient.is_sparse() ? gradient.slices().values : gradient.dense();
  return std::isfinite(sum(values).to<double>()) || all(is_finite(values)).to<bool>();
}

// For each gradient, 1 where it is not finite.
std::vector<int> non_finite(const Gradients& gradients) {
  std::vector<int> found;
  for (const Gradient& gradient : gradients) found.push_back(is_finite_gradient(gradient) ? 0 : 1);
  return found;
}

// One row for each replica of the group, one column for each variable.
template <typename T>
class Table {
 public:
  // Gathers the rows of all replicas, which are in a merge.
  Table(Strategy& strategy, const PerReplica<Tensor>& rows) {
    const Tensor all = strategy.gather(rows, 0);
    columns_ = static_cast<size_t>(all.shape()[1]);
    cells_ = all.to_vector<T>();
  }
  size_t replicas() const { return columns_ == 0 ? 0 : cells_.size() / columns_; }
  T at(size_t replica, size_t variable) const { return cells_[replica * columns_ + variable]; }

 private:
  size_t columns_;
  std::vector<T> cells_;
};

template <typename T>
Tensor row_of(std::vector<T> values) {
  const auto columns = static_cast<int64_t>(values.size());
  return Tensor::from(std::move(values), Shape{1, columns});
}

// "replica 3", with the task that it is on where there are several.
std::string name_of_replica(const Strategy& strategy, size_t replica) {
  const JointWorkers* workers = joint_workers(strategy.extended());
  if (workers == nullptr) return fmt::format("replica {}", replica);
  const size_t worker = replica / strategy.extended().num_local_replicas();
  return fmt::format("replica {} ({})", replica,
                     workers->communicator().member(static_cast<int>(worker)));
}

std::vector<std::string> replicas_with(const Strategy& strategy, const Table<int>& found,
                                       size_t variable) {
  std::vector<std::string> replicas;
  for (size_t r = 0; r < found.replicas(); ++r) {
    if (found.at(r, variable) != 0) replicas.push_back(name_of_replica(strategy, r));
  }
  return replicas;
}

std::string describe(const Strategy& strategy, const Table<int>& findings,
                     const std::vector<int>& sums, const std::vector<Variable>& variables) {
  std::string text;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (sums[i] == 0) continue;
    const std::vector<std::string> replicas = replicas_with(strategy, findings, i);
    text += fmt::format("{}the gradient of variable '{}' is not finite in {}",
                        text.empty() ? "" : "; ", variables[i].name(),
                        replicas.empty() ? "the sum over replicas, though it is in each"
                                         : fmt::format("{}", fmt::join(replicas, ", ")));
  }
  return text;
}

void report(GuardAction action, int64_t step, const std::string& text) {
  if (action == GuardAction::Stop)
    raise(Code::InvalidArgument, "[NanGuard] step {}: {}", step, text);
  log_warning("[NanGuard] step {}: {}{}", step, text,
              action == GuardAction::Skip ? "; this update is left out" : "");
}

int64_t hash_of(const Tensor& value) {
  const auto bytes = static_cast<size_t>(value.size() * size_of(value.dtype()));
  if (bytes == 0) return 0;
  return static_cast<int64_t>(XXH3_64bits(element_data(value, value.dtype()), bytes));
}

// The hash of each variable's copy; then, for each, whether this worker knows that copies may
// differ, which another one need not know.
std::vector<int64_t> own_hashes(const ReplicaContext& replica,
                                const std::vector<Variable>& variables) {
  std::vector<int64_t> row(2 * variables.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    const auto copies = distributed(variables[i]);
    const bool may_differ = copies == nullptr || copies->may_differ();
    row[i] = may_differ ? 0 : hash_of(copies->copies()[replica.local_replica()]);
    row[i + variables.size()] = may_differ ? 1 : 0;
  }
  return row;
}

std::string describe(const Strategy& strategy, const Table<int64_t>& hashes,
                     const std::vector<Variable>& variables) {
  std::string text;
  for (size_t i = 0; i < variables.size(); ++i) {
    bool may_differ = false;
    for (size_t r = 0; r < hashes.replicas(); ++r) {
      may_differ |= hashes.at(r, i + variables.size()) != 0;
    }
    for (size_t r = 1; r < hashes.replicas() && !may_differ; ++r) {
      if (hashes.at(r, i) == hashes.at(0, i)) continue;
      text +=
          fmt::format("{}variable '{}' of {} differs from replica 0's", text.empty() ? "" : "; ",
                      variables[i].name(), name_of_replica(strategy, r));
    }
  }
  return text;
}

// "float32 (2,) with hash 1f", after the value of a scalar.
std::string describe_written(const Tensor& value) {
  if (value.dtype() == kString) return value.to_string();
  const std::string number = value.rank() == 0 ? fmt::format("{} ", value.to<double>()) : "";
  return fmt::format("{}{} {} with hash {:x}", number, to_string(value.dtype()),
                     value.shape().to_string(), static_cast<uint64_t>(hash_of(value)));
}

// "assign of variable 'w' (number 3) = 1 float32 () with hash 1f".
std::string describe_write(const std::string& call, const std::vector<Tensor>& values) {
  std::vector<std::string> written;
  for (const Tensor& value : values) written.push_back(describe_written(value));
  return fmt::format("{} = {}", call, fmt::join(written, " at "));
}

constexpr std::string_view kSameValue =
    "write inside run() to a variable with an aggregation, or give all workers one value with "
    "strategy.reduce()";

// Workers exchange a digest. They send the texts only if the writes differ, which is rare.
void compare_written(const JointWorkers& workers, std::string_view what, const std::string& call,
                     const std::vector<Tensor>& values) {
  const CollectivePurpose purpose("a write outside of run()");
  Communicator group = workers.communicator();
  const std::string own = describe_write(call, values);
  const XXH128_hash_t digest = XXH3_128bits(own.data(), own.size());
  const std::vector<int64_t> halves{static_cast<int64_t>(digest.low64),
                                    static_cast<int64_t>(digest.high64)};
  const auto digests = group.all_gather(Tensor::from(halves)).to_vector<int64_t>();
  bool is_same = true;
  for (size_t i = 2; i < digests.size(); ++i) is_same &= digests[i] == digests[i % 2];
  if (is_same) return;
  const std::vector<std::string> all = texts_of_workers(group, own);
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i] == all[0]) continue;
    raise(Code::FailedPrecondition,
          "[{}] outside of run() the workers must write the same value, but {} calls {}, and {} "
          "calls {}; {}",
          what, group.member(0), all[0], group.member(static_cast<int>(i)), all[i], kSameValue);
  }
}

// Whether all workers have the value of the first one, as a boolean scalar. NaN equals NaN here.
Tensor is_same_on_workers(StrategyExtended& extended, const Tensor& value) {
  const RecordingPause not_recorded;
  const Tensor own = value.dtype() == kBool ? cast(value, kUInt8) : value;
  const Tensor first = extended.from_first_worker(own);
  const Tensor neither = logical_and(not_equal(own, own), not_equal(first, first));
  return joint_workers(extended)->on_all_workers(all(logical_or(equal(own, first), neither)));
}

std::vector<Tensor> compared_when_run(StrategyExtended& extended, const std::string& call,
                                      std::vector<Tensor> values) {
  const CollectivePurpose purpose(call);
  for (Tensor& value : values) {
    if (value.dtype() == kString) continue;
    value = require_true(value, is_same_on_workers(extended, value),
                         fmt::format("[function] outside of run() the workers must write the same "
                                     "value, but they call {} with different ones; {}",
                                     call, kSameValue));
  }
  return values;
}

}  // namespace

bool passes_finite_guard(ReplicaContext& replica, const Gradients& own, const Gradients& sums,
                         const std::vector<Variable>& variables, const Variable& steps) {
  const GuardAction action = replica.strategy().extended().guards().non_finite;
  const std::vector<int> found = non_finite(sums);  // the same in all replicas
  if (std::find(found.begin(), found.end(), 1) == found.end()) return true;
  const int64_t step = steps.read_value().to<int64_t>() + 1;
  replica.merge_call(
      [&](Strategy& strategy, const PerReplica<Tensor>& findings) {
        const Table<int> table(strategy, findings);
        report(action, step, describe(strategy, table, found, variables));
      },
      row_of(non_finite(own)));
  return action != GuardAction::Skip;
}

std::vector<Tensor> guard_write_across(const DistributedVariable& variable, std::string_view what,
                                       std::vector<Tensor> values) {
  StrategyExtended& extended = variable.owner().extended();
  const JointWorkers* workers = joint_workers(extended);
  if (workers == nullptr) return values;
  const std::string call = fmt::format("{} of variable {}", what, variable.label());
  if (thread_dispatch().builder != nullptr) return compared_when_run(extended, call, values);
  if (workers->meets_others()) compare_written(*workers, what, call, values);
  return values;
}

void guard_against_divergence(ReplicaContext& replica, const GuardOptions& options,
                              const std::vector<Variable>& variables, int64_t step) {
  if (replica.num_replicas_in_sync() == 1) return;
  replica.merge_call(
      [&](Strategy& strategy, const PerReplica<Tensor>& hashes) {
        const std::string found = describe(strategy, Table<int64_t>(strategy, hashes), variables);
        if (found.empty()) return;
        if (options.divergence == GuardAction::Warn) {
          log_warning("[DivergenceGuard] after step {}: {}", step, found);
          return;
        }
        raise(
            Code::DataLoss,
            "[DivergenceGuard] the copies that {} keeps are no longer equal after step {}: {}; "
            "something wrote one copy alone, a worker restored other values, or a replica computed "
            "something else",
            strategy.extended().name(), step, found);
      },
      row_of(own_hashes(replica, variables)));
}

}  // namespace cohort::internal
