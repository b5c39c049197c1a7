#include "distribute/sharded_variable.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "distribute/div_sharding.h"
#include "distribute/sharded_slice.h"
#include "ops/dispatch.h"
#include "ops/read_rows.h"
#include "ops/variable_ops.h"
#include "train/row_reads.h"
#include "train/update_path.h"

namespace cohort::internal {
namespace {

[[noreturn]] void refuse(const std::string& name, const Variable& shard, std::string_view why) {
  raise(Code::InvalidArgument, "[ShardedVariable] '{}': shard '{}' {}", name, shard.name(), why);
}

void check_shard(const std::string& name, const Variable& first, const Variable& shard) {
  if (!shard.shape().has_rank() || shard.shape().rank() < 1) refuse(name, shard, "has no rows");
  if (shard.dtype() != first.dtype()) refuse(name, shard, "has another dtype than the first");
  if (shard.shape().without(0) != first.shape().without(0)) {
    refuse(name, shard,
           fmt::format("has shape {}, but the first {}", shard.shape().to_string(),
                       first.shape().to_string()));
  }
  if (shard.trainable() != first.trainable()) {
    refuse(name, shard, "differs from the first in whether it is trainable");
  }
  if (VariableAccess::impl(shard)->whole.lock() != nullptr) {
    refuse(name, shard, "is part of another variable already");
  }
  if (sharded(shard) != nullptr) {
    refuse(name, shard, "has shards itself; ShardedVariable(variable), without braces, gives them");
  }
}

// The gradients and variables with shards in the place of variables that have them.
std::optional<VariableParts> expand(const Gradients& gradients,
                                    const std::vector<Variable>& variables) {
  VariableParts parts;
  bool any = false;
  for (size_t i = 0; i < variables.size(); ++i) {
    const auto whole = sharded(variables[i]);
    const size_t count = whole ? whole->shards().size() : 1;
    for (size_t k = 0; k < count; ++k) {
      parts.variables.push_back(whole ? whole->shards()[k] : variables[i]);
      parts.gradients.push_back(whole ? whole->part_of(gradients[i], k) : gradients[i]);
    }
    any = any || whole != nullptr;
  }
  if (!any) return std::nullopt;
  return parts;
}

Variable join(const std::vector<Variable>& parts, const std::string& name) {
  return VariableAccess::make(std::make_shared<ShardedVariableImpl>(parts, name));
}

constexpr ShardedVariableHooks kJointer{expand, join};

}  // namespace

ShardedVariableImpl::ShardedVariableImpl(std::vector<Variable> shards, const std::string& name)
    : shards_(std::move(shards)) {
  if (shards_.empty()) {
    raise(Code::InvalidArgument, "[ShardedVariable] '{}' needs at least one variable", name);
  }
  const Variable& first = shards_.front();
  int64_t rows = 0;
  for (const Variable& shard : shards_) {
    check_shard(name, first, shard);
    begins_.push_back(rows);
    rows += shard.shape()[0];
  }
  begins_.push_back(rows);
  options_ = VariableAccess::impl(first)->options();
  options_.name = name;
  options_.trainable = first.trainable();
  handle_ = {make_resource(std::make_shared<VariableCell>(name)), name, first.dtype(),
             first.shape().with(0, rows)};
  strategy = VariableAccess::impl(first)->strategy;
}

std::string ShardedVariableImpl::device() const { return shards_.front().device(); }

bool ShardedVariableImpl::is_initialized() const {
  return std::ranges::all_of(shards_, [](const Variable& shard) { return shard.is_initialized(); });
}

Tensor ShardedVariableImpl::read() const {
  Tensor all;
  {
    const RecordingPause unheard;  // tapes hear of the whole
    std::vector<Tensor> parts;
    for (const Variable& shard : shards_) parts.push_back(shard.read_value());
    all = parts.size() == 1 ? identity(parts[0]) : concat(parts, 0);
  }
  return note_read(handle_, all, trainable());
}

Tensor ShardedVariableImpl::write(Write how, const Tensor& value, std::string_view what) {
  const Tensor fitted = fit_to_variable(handle_, value, what);
  if (!fitted.shape().is_compatible_with(handle_.shape)) {
    raise(Code::InvalidArgument, "[{}] variable '{}' has shape {}, got a value of shape {}", what,
          name(), handle_.shape.to_string(), value.shape().to_string());
  }
  std::vector<Tensor> written;
  for (size_t k = 0; k < shards_.size(); ++k) {
    Variable shard = shards_[k];
    written.push_back(
        (shard.*how)(cohort::slice(fitted, {{.begin = begin(k), .end = begin(k + 1)}})));
  }
  return written.size() == 1 ? written[0] : concat(written, 0);
}

Tensor ShardedVariableImpl::assign(const Tensor& value) {
  return write(static_cast<Write>(&Variable::assign), value, "Assign");
}
Tensor ShardedVariableImpl::assign_add(const Tensor& delta) {
  return write(static_cast<Write>(&Variable::assign_add), delta, "AssignAdd");
}
Tensor ShardedVariableImpl::assign_sub(const Tensor& delta) {
  return write(static_cast<Write>(&Variable::assign_sub), delta, "AssignSub");
}

void ShardedVariableImpl::require_div_sizes(std::string_view what) const {
  const auto count = static_cast<int64_t>(shards_.size());
  const DivSharding div(begins_.back(), count);
  bool fits = div.parts() == count;
  for (size_t k = 0; fits && k < shards_.size(); ++k) {
    fits = begin(k) == div.begin(static_cast<int64_t>(k));
  }
  if (fits) return;
  raise(Code::Unimplemented,
        "[{}] '{}' has shards of other sizes than {} rows over {} shards give, so that a row's "
        "place is not known",
        what, name(), begins_.back(), count);
}

Tensor ShardedVariableImpl::scatter(ScatterOp op, const IndexedSlices& slices) {
  require_div_sizes("Scatter");
  require_row_vector(slices.indices, "Scatter", name());
  for (size_t k = 0; k < shards_.size(); ++k) {
    const Gradient part = part_of(slices, k);
    VariableAccess::impl(shards_[k])->scatter(op, part.slices());
  }
  return read();
}

Gradient ShardedVariableImpl::part_of(const Gradient& gradient, size_t shard) const {
  if (!gradient.defined()) return {};
  if (!gradient.is_sparse()) {
    return cohort::slice(gradient.dense(), {{.begin = begin(shard), .end = begin(shard + 1)}});
  }
  const IndexedSlices& all = gradient.slices();
  const RowsInRange own = rows_of_part(all.indices, begins_, shard);
  return IndexedSlices{gather(all.values, own.positions, 0), own.rows, shards_[shard].shape()};
}

Tensor ShardedVariableImpl::sparse_read(const Tensor& rows) const {
  require_div_sizes("sparse_read");
  require_row_vector(rows, "sparse_read", name());
  const RowReads never_cached;
  return gather(read(), rows, 0);
}

Tensor ShardedVariableImpl::slice(const std::vector<Range>& ranges) const {
  return slice_shards(*this, ranges);
}

std::shared_ptr<VariableImpl> ShardedVariableImpl::deep_copy() const {
  std::vector<Variable> copies;
  for (const Variable& shard : shards_) copies.push_back(shard.deep_copy());
  return VariableAccess::impl(make_sharded(std::move(copies), name()));
}

std::string ShardedVariableImpl::to_string() const {
  std::string text =
      fmt::format("ShardedVariable '{}' shape={}:{{", name(), handle_.shape.to_string());
  for (size_t k = 0; k < shards_.size(); ++k) {
    text +=
        fmt::format("\n  {}: {}{}", k, shards_[k].to_string(), k + 1 < shards_.size() ? "," : "\n");
  }
  return text + "}";
}

Variable make_sharded(std::vector<Variable> shards, const std::string& name) {
  set_sharded_variable_hooks(kJointer);
  const auto made = std::make_shared<ShardedVariableImpl>(std::move(shards), name);
  for (const Variable& shard : made->shards()) VariableAccess::impl(shard)->whole = made;
  return VariableAccess::make(made);
}

std::shared_ptr<ShardedVariableImpl> sharded(const Variable& variable) {
  return std::dynamic_pointer_cast<ShardedVariableImpl>(VariableAccess::impl(variable));
}

}  // namespace cohort::internal
