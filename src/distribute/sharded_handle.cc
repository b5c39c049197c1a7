#include <ostream>

#include "base/raise.h"
#include "cohort/sharded_variable.h"
#include "distribute/sharded_slice.h"

namespace cohort {

using internal::ScatterOp;
using internal::VariableAccess;

Tensor PartInitializer::part(const Shape& shape, const std::vector<int64_t>& offset) const {
  Tensor made = make_(shape, offset);
  if (made.shape() == shape && made.dtype() == dtype_) return made;
  internal::raise(Code::InvalidArgument,
                  "[PartInitializer] the part is to be {} {}, but what was made is {} {}",
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
Tensor ShardedVariable::read_value() const { return impl_->read(); }
std::string ShardedVariable::name() const { return impl_->name(); }
DType ShardedVariable::dtype() const { return impl_->handle().dtype; }
Shape ShardedVariable::shape() const { return impl_->handle().shape; }
bool ShardedVariable::trainable() const { return impl_->trainable(); }
const std::vector<Variable>& ShardedVariable::variables() const { return impl_->shards(); }

ShardedVariable& ShardedVariable::assign(const Tensor& value) {
  impl_->assign(value);
  return *this;
}
ShardedVariable& ShardedVariable::assign_add(const Tensor& delta) {
  impl_->assign_add(delta);
  return *this;
}
ShardedVariable& ShardedVariable::assign_sub(const Tensor& delta) {
  impl_->assign_sub(delta);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_update(const IndexedSlices& slices) {
  impl_->scatter(ScatterOp::Update, slices);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_add(const IndexedSlices& slices) {
  impl_->scatter(ScatterOp::Add, slices);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_sub(const IndexedSlices& slices) {
  impl_->scatter(ScatterOp::Sub, slices);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_mul(const IndexedSlices& slices) {
  impl_->scatter(ScatterOp::Mul, slices);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_div(const IndexedSlices& slices) {
  impl_->scatter(ScatterOp::Div, slices);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_min(const IndexedSlices& slices) {
  impl_->scatter(ScatterOp::Min, slices);
  return *this;
}
ShardedVariable& ShardedVariable::scatter_max(const IndexedSlices& slices) {
  impl_->scatter(ScatterOp::Max, slices);
  return *this;
}

Tensor ShardedVariable::sparse_read(const Tensor& rows) const { return impl_->sparse_read(rows); }
Tensor ShardedVariable::operator[](int64_t row) const {
  return internal::row_of_shards(*impl_, row);
}
Tensor ShardedVariable::slice(const std::vector<Range>& ranges) const {
  return impl_->slice(ranges);
}

std::string ShardedVariable::to_string() const { return impl_->to_string(); }
std::ostream& operator<<(std::ostream& out, const ShardedVariable& variable) {
  return out << variable.to_string();
}

}  // namespace cohort
