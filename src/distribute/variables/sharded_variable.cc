#include "distribute/variables/sharded_variable.h"

#include <fmt/format.h>

#include <array>
#include <ostream>

#include "base/raise.h"
#include "cohort/sharded_variable.h"
#include "graph/graph_impl.h"
#include "graph/scopes.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "optim/optimizer.h"
#include "variables/single_variable.h"

namespace cohort {
namespace internal {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

// begin:end:step over `rows` rows, with the bounds that Python's slices have.
struct Walk {
  int64_t begin, end, step;

  Walk(const Range& range, int64_t rows) : step(range.step) {
    const bool up = step > 0;
    const int64_t lowest = up ? 0 : -1;
    const int64_t highest = up ? rows : rows - 1;
    const auto bound = [&](const std::optional<int64_t>& given, int64_t otherwise) {
      if (!given) return otherwise;
      return std::clamp(*given < 0 ? *given + rows : *given, lowest, highest);
    };
    begin = bound(range.begin, up ? 0 : rows - 1);
    end = bound(range.end, up ? rows : -1);
  }

  // What is in rows [from, to), counted from `from`; nullopt when nothing is.
  std::optional<Range> within(int64_t from, int64_t to) const {
    const int64_t skipped =
        step > 0 ? ceil_div(from - begin, step) : ceil_div(begin - (to - 1), -step);
    const int64_t first = begin + skipped * step;
    if (step > 0) {
      const int64_t stop = std::min(to, end);
      if (first >= stop) return std::nullopt;
      return Range{first - from, stop - from, step};
    }
    const int64_t stop = std::max(from - 1, end);
    if (first <= stop) return std::nullopt;
    Range local{first - from, std::nullopt, step};
    if (stop >= from) local.end = stop - from;
    return local;
  }
};

Tensor read_slice(const Variable& shard, const Range& rows, const std::vector<Range>& ranges) {
  std::vector<Range> local = ranges;
  local[0] = rows;
  return cohort::slice(shard.read_value(), local);
}

void require_row_vector(const Tensor& rows, std::string_view what, const std::string& name) {
  const bool vector = !rows.shape().has_rank() || rows.shape().rank() == 1;
  if (vector && is_integer(rows.dtype())) return;
  raise(Code::InvalidArgument,
        "[{}] the row numbers of '{}' must be a vector of integers, got {} {}", what, name,
        to_string(rows.dtype()), rows.shape().to_string());
}

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

}  // namespace

DivSharding::DivSharding(int64_t rows, int64_t parts) {
  if (rows < 0 || parts < 1) {
    raise(Code::InvalidArgument, "[DivSharding] {} rows cannot be cut into {} parts", rows, parts);
  }
  parts_ = std::max<int64_t>(1, std::min(parts, rows));
  base_ = rows / parts_;
  longer_ = rows % parts_;
}

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
  return join_shards([](const Variable& shard) { return shard.read_value({}); });
}

Tensor ShardedVariableImpl::convert() const {
  return join_shards([](const Variable& shard) { return Tensor(shard); });
}

Tensor ShardedVariableImpl::join_shards(const std::function<Tensor(const Variable&)>& read) const {
  Tensor all;
  {
    const RecordingPause not_recorded;  // tapes record the whole
    std::vector<Tensor> parts;
    for (const Variable& shard : shards_) parts.push_back(read(shard));
    all = keep_about("all rows", parts, [&] {
      return parts.size() == 1 ? identity(parts[0], {}) : concat(parts, 0, {});
    });
  }
  return note_read(handle_.handle, all, trainable());
}

Tensor ShardedVariableImpl::write(Write how, const Tensor& value) {
  constexpr std::array kNames{"Assign", "AssignAdd", "AssignSub"};
  const std::string_view what = kNames[static_cast<size_t>(how)];
  const Tensor fitted = fit_to_variable(handle_, value, what);
  if (!fitted.shape().is_compatible_with(handle_.shape)) {
    raise(Code::InvalidArgument, "[{}] variable '{}' has shape {}, got a value of shape {}", what,
          name(), handle_.shape.to_string(), value.shape().to_string());
  }
  std::vector<Tensor> written;
  for (size_t k = 0; k < shards_.size(); ++k) {
    const Tensor rows = cohort::slice(fitted, {{.begin = begin(k), .end = begin(k + 1)}});
    written.push_back(VariableAccess::impl(shards_[k])->write(how, rows));
  }
  return written.size() == 1 ? written[0] : concat(written, 0);
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
        "[{}] '{}' does not spread its {} rows evenly over its {} shards, so the shard of a row is "
        "not known",
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
  std::vector<Range> all = ranges;
  if (all.empty()) all.emplace_back();
  if (all[0].step == 0) {
    raise(Code::InvalidArgument, "[ShardedVariable] a slice of '{}' has step 0", name());
  }
  const Walk walk(all[0], begins_.back());
  std::vector<Tensor> parts;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const size_t k = walk.step > 0 ? i : shards_.size() - 1 - i;
    const auto rows = walk.within(begin(k), begin(k + 1));
    if (rows) parts.push_back(read_slice(shards_[k], *rows, all));
  }
  if (parts.empty()) return read_slice(shards_[0], {0, 0}, all);
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

Tensor ShardedVariableImpl::row(int64_t number) const {
  const int64_t rows = begins_.back();
  const int64_t found = number < 0 ? number + rows : number;
  if (found < 0 || found >= rows) {
    raise(Code::InvalidArgument, "[ShardedVariable] '{}' has {} rows, so row {} does not exist",
          name(), rows, number);
  }
  return squeeze(slice({{.begin = found, .end = found + 1}}), {0});
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
  const auto made = std::make_shared<ShardedVariableImpl>(std::move(shards), name);
  for (const Variable& shard : made->shards()) VariableAccess::impl(shard)->whole = made;
  return VariableAccess::make(made);
}

std::shared_ptr<ShardedVariableImpl> sharded(const Variable& variable) {
  return std::dynamic_pointer_cast<ShardedVariableImpl>(VariableAccess::impl(variable));
}

std::optional<VariableParts> expand_variables(const Gradients& gradients,
                                              const std::vector<Variable>& variables) {
  const auto is_whole = [](const Variable& each) {
    return VariableAccess::impl(each)->shards().empty();
  };
  if (std::ranges::all_of(variables, is_whole)) return std::nullopt;
  VariableParts parts;
  for (size_t i = 0; i < variables.size(); ++i) {
    const auto whole = sharded(variables[i]);
    const size_t count = whole ? whole->shards().size() : 1;
    for (size_t k = 0; k < count; ++k) {
      parts.variables.push_back(whole ? whole->shards()[k] : variables[i]);
      parts.gradients.push_back(whole ? whole->part_of(gradients[i], k) : gradients[i]);
    }
  }
  return parts;
}

Variable join_variables(const std::vector<Variable>& parts, const std::string& name) {
  return VariableAccess::make(std::make_shared<ShardedVariableImpl>(parts, name));
}

}  // namespace internal

using internal::VariableAccess;

Tensor PartInitializer::part(const Shape& shape, const std::vector<int64_t>& offset) const {
  Tensor made = make_(shape, offset);
  if (made.shape() == shape && made.dtype() == dtype_) return made;
  internal::raise(Code::InvalidArgument,
                  "[PartInitializer] the part must be {} {}, but the initializer made {} {}",
                  to_string(dtype_), shape.to_string(), to_string(made.dtype()),
                  made.shape().to_string());
}

Tensor PartInitializer::operator()() const {
  return part(shape_, std::vector<int64_t>(static_cast<size_t>(shape_.rank())));
}

ShardedVariable::ShardedVariable(const std::vector<Variable>& shards, const std::string& name)
    : impl_(internal::sharded(internal::make_sharded(shards, name))) {}

std::shared_ptr<internal::ShardedVariableImpl> ShardedVariable::existing(const Variable& variable) {
  if (auto found = internal::sharded(variable)) return found;
  internal::raise(Code::InvalidArgument, "[ShardedVariable] variable '{}' is not cut into shards",
                  variable.name());
}

bool ShardedVariable::is_sharded(const Variable& variable) {
  return internal::sharded(variable) != nullptr;
}

ShardedVariable::operator Variable() const { return VariableAccess::make(impl_); }
ShardedVariable::operator Tensor() const { return impl_->convert(); }
Tensor ShardedVariable::read_value(Site site) const {
  const internal::SiteScope there(site);
  return impl_->read();
}
std::string ShardedVariable::name() const { return impl_->name(); }
DType ShardedVariable::dtype() const { return impl_->handle().dtype; }
Shape ShardedVariable::shape() const { return impl_->handle().shape; }
bool ShardedVariable::trainable() const { return impl_->trainable(); }
const std::vector<Variable>& ShardedVariable::variables() const { return impl_->list(); }

ShardedVariable& ShardedVariable::assign(const Tensor& value, Site site) {
  VariableAccess::make(impl_).assign(value, site);
  return *this;
}
ShardedVariable& ShardedVariable::assign_add(const Tensor& delta, Site site) {
  VariableAccess::make(impl_).assign_add(delta, site);
  return *this;
}
ShardedVariable& ShardedVariable::assign_sub(const Tensor& delta, Site site) {
  VariableAccess::make(impl_).assign_sub(delta, site);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_update(const IndexedSlices& slices, Site site) {
  VariableAccess::make(impl_).scatter_update(slices, site);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_add(const IndexedSlices& slices, Site site) {
  VariableAccess::make(impl_).scatter_add(slices, site);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_sub(const IndexedSlices& slices, Site site) {
  VariableAccess::make(impl_).scatter_sub(slices, site);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_mul(const IndexedSlices& slices, Site site) {
  VariableAccess::make(impl_).scatter_mul(slices, site);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_div(const IndexedSlices& slices, Site site) {
  VariableAccess::make(impl_).scatter_div(slices, site);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_min(const IndexedSlices& slices, Site site) {
  VariableAccess::make(impl_).scatter_min(slices, site);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_max(const IndexedSlices& slices, Site site) {
  VariableAccess::make(impl_).scatter_max(slices, site);
  return *this;
}

Tensor ShardedVariable::sparse_read(const Tensor& rows, Site site) const {
  const internal::SiteScope there(site);
  return impl_->sparse_read(rows);
}
Tensor ShardedVariable::operator[](internal::Subscript row) const {
  const internal::SiteScope there(row.site());
  return impl_->row(row.position());
}
Tensor ShardedVariable::slice(const std::vector<Range>& ranges, Site site) const {
  const internal::SiteScope there(site);
  return impl_->slice(ranges);
}

std::string ShardedVariable::to_string() const { return impl_->to_string(); }
std::ostream& operator<<(std::ostream& out, const ShardedVariable& variable) {
  return out << variable.to_string();
}

Tensor nn::embedding_lookup(const ShardedVariable& table, const Tensor& ids, Site site) {
  const Variable whole = table;
  return embedding_lookup(whole, ids, site);
}

}  // namespace cohort
