#include "distribute/replica_part.h"

#include <bit>
#include <optional>

#include "ops/variable_cell.h"
#include "tensor/memory.h"
#include "tensor/reduce_elements.h"

namespace cohort::internal {
namespace {

class Hash {
 public:
  void add(uint64_t number) { state_ = (std::rotl(state_, 23) ^ number) * 0x9e3779b97f4a7c15u; }
  uint64_t value() const { return state_ | 1; }

 private:
  uint64_t state_ = 0x2545f4914f6cdd1du;
};

Spec result_of(ReduceOp op, const TensorBody& value) {
  return {reduced_dtype(op, value.dtype), value.shape};
}

// A value at `place`; nullopt when it is not a dense number.
std::optional<Source> source_of(const Gradient& value, size_t place) {
  if (value.is_sparse()) return std::nullopt;
  const Tensor dense = value.dense();
  const TensorBody& held = body(dense);
  if (held.kind != TensorBody::Kind::Numeric || held.dtype == kBool) return std::nullopt;
  return Source{place, element_bytes(dense), &held};
}

void add_to(Hash& hash, const Source& source) {
  const TensorBody& held = *source.body;
  for (const uint64_t number : {uint64_t{source.place}, static_cast<uint64_t>(held.dtype),
                                static_cast<uint64_t>(held.shape.rank())}) {
    hash.add(number);
  }
  for (const int64_t size : held.shape) hash.add(static_cast<uint64_t>(size));
}

}  // namespace

int64_t padded_bytes(DType dtype, const Shape& shape) {
  const int64_t bytes = shape.num_elements() * size_of(dtype);
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

ReplicaPart::ReplicaPart(const ReplicaCall& call) : ReplicaCall(call) {
  Hash hash;
  hash.add(static_cast<uint64_t>(op));
  sources.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined()) continue;
    const std::optional<Source> source = source_of(values[i], i);
    if (!source) return;
    add_to(hash, *source);
    const Spec result = result_of(op, *source->body);
    bytes += padded_bytes(source->body->dtype, source->body->shape);
    result_bytes += padded_bytes(result.dtype, result.shape);
    sources.push_back(*source);
  }
  hash.add(values.size());
  if (reason() != what) hash.add(std::hash<std::string_view>()(reason()));
  // One file may have its name at two addresses. Signatures that differ for that reason only lead
  // to check_same(), which compares the names.
  hash.add(static_cast<uint64_t>(site().line));
  hash.add(reinterpret_cast<uintptr_t>(site().file));
  if (variables != nullptr) {
    for (const Variable& variable : *variables) {
      hash.add(reinterpret_cast<uintptr_t>(VariableAccess::impl(variable).get()));
    }
  }
  signature = hash.value();
}

Specs ReplicaPart::specs() const {
  Specs all;
  for (const Source& source : sources) all.push_back(result_of(op, *source.body));
  return all;
}

}  // namespace cohort::internal
