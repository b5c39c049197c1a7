#include "distribute/reduce/tensor_reduction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <latch>
#include <thread>

#include "base/machine.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "collectives/arithmetic.h"
#include "distribute/variables/distributed_variable.h"
#include "kernels/reduce_elements.h"
#include "ops/dispatch.h"
#include "runtime/thread_pool.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

Tensor combine(ReduceOp op, const Tensor& a, const Tensor& b) {
  switch (op) {
    case ReduceOp::Min:
      return minimum(a, b);
    case ReduceOp::Max:
      return maximum(a, b);
    case ReduceOp::Product:
      return mul(a, b);
    default:
      return add(a, b);
  }
}

// Whether values must go through ops, one by one: there are symbols, or a tape listens.
bool needs_ops(std::span<const Tensor> tensors) {
  const ThreadDispatch& dispatch = thread_dispatch();
  return dispatch.builder != nullptr || dispatch.recorder != nullptr ||
         std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor& tensor) { return tensor.is_symbolic(); });
}

// Below this, waking threads takes longer than what they save.
constexpr int64_t kBytesWorthThreads = 1 << 20;

int useful_threads(const Tensor& tensor, size_t most) {
  const bool worth = tensor.size() * size_of(tensor.dtype()) >= kBytesWorthThreads;
  const auto cores = static_cast<int>(core_count());
  return worth ? std::clamp(cores, 1, static_cast<int>(most)) : 1;
}

// Calls `body` for each of `parts` slices of 0 to `count`, at the same time, this thread doing one.
// `body` must not throw.
template <typename Body>
void for_each_slice(int64_t count, int parts, const Body& body) {
  std::latch done(parts - 1);
  for (int part = 1; part < parts; ++part) {
    run_pool().submit([&, part] {
      body(slice_of(count, part, parts));
      done.count_down();
    });
  }
  body(slice_of(count, 0, parts));
  done.wait();
}

Tensor reduce_memory(ReduceOp op, std::span<const Tensor> tensors, size_t threads) {
  std::vector<const std::byte*> sources;
  for (const Tensor& tensor : tensors) sources.push_back(element_bytes(tensor));
  const DType dtype = tensors[0].dtype();
  const WritableTensor result = allocate_tensor(dtype, tensors[0].shape());
  const ElementReduction reduction{
      .op = op, .dtype = dtype, .sources = sources, .target = result.data};
  for_each_slice(result.tensor.size(), useful_threads(result.tensor, threads),
                 [&](Slice slice) { reduce_elements(reduction, slice.begin, slice.end); });
  return result.tensor;
}

}  // namespace

Tensor on_device(const Tensor& tensor, const std::string& device) {
  if (tensor.device() == device) return tensor;
  if (!needs_ops({&tensor, 1})) return on_device(tensor, find_device(device));
  const DeviceScope on(device);
  return identity(tensor);
}

std::vector<Tensor> on_devices(const Tensor& tensor, std::span<const std::string> devices) {
  std::vector<Tensor> copies;
  for (const std::string& device : devices) copies.push_back(on_device(tensor, device));
  return copies;
}

Tensor reduce_tensors(ReduceOp op, std::span<const Tensor> tensors, size_t threads) {
  if (tensors.size() == 1) return tensors[0];
  if (!needs_ops(tensors)) return reduce_memory(op, tensors, threads);
  Tensor total = tensors[0];
  for (const Tensor& next : tensors.subspan(1)) total = combine(op, total, next);
  return total;
}

std::string describe(const Gradient& value) {
  if (!value.defined()) return "nothing";
  if (value.is_sparse()) {
    const IndexedSlices& slices = value.slices();
    return fmt::format("rows of {} {}", to_string(slices.values.dtype()),
                       slices.dense_shape.to_string());
  }
  const Tensor dense = value.dense();
  return fmt::format("{} {}", to_string(dense.dtype()), dense.shape().to_string());
}

// ---- Rows

namespace {

bool is_sparse(const Gradient& value) { return value.is_sparse(); }

IndexedSlices as_slices(const Gradient& value, const Shape& dense_shape) {
  if (value.is_sparse()) return value.slices();
  return {value.dense(), range(dense_shape[0]), dense_shape};
}

}  // namespace

bool any_sparse(std::span<const Gradient> parts) {
  return std::any_of(parts.begin(), parts.end(), is_sparse);
}

IndexedSlices join_slices(ReduceOp op, std::span<const Gradient> parts) {
  const Shape dense_shape =
      std::find_if(parts.begin(), parts.end(), is_sparse)->slices().dense_shape;
  std::vector<Tensor> values;
  std::vector<Tensor> indices;
  for (const Gradient& part : parts) {
    const IndexedSlices slices = as_slices(part, dense_shape);
    values.push_back(slices.values);
    indices.push_back(cast(slices.indices, kInt64));
  }
  Tensor joined = concat(values, 0);
  if (op == ReduceOp::Mean) joined = div(joined, static_cast<int64_t>(parts.size()));
  return {joined, concat(indices, 0), dense_shape};
}

// ---- Gradients that some replicas do not have

namespace {

bool comes_as_rows(const Gradient& value) { return value.defined() && value.is_sparse(); }
bool is_missing(const Gradient& value) { return !value.defined(); }

// ", none for 'a', 'b'": the values with that property, by their names.
template <typename Name>
std::string named_where(std::string_view what, const std::vector<Gradient>& values,
                        bool (*has)(const Gradient&), const Name& name) {
  std::vector<std::string> found;
  for (size_t i = 0; i < values.size(); ++i) {
    if (has(values[i])) found.push_back(name(i));
  }
  return found.empty() ? "" : fmt::format(", {} for {}", what, fmt::join(found, ", "));
}

template <typename Name>
std::string presence_text(const std::vector<Gradient>& values, const Name& name) {
  return named_where("none", values, is_missing, name) +
         named_where("rows", values, comes_as_rows, name);
}

}  // namespace

Gradient zero_like(const Gradient& other) {
  if (!other.is_sparse()) return zeros_like(other.dense());
  const IndexedSlices& slices = other.slices();
  const std::vector<Range> none{{.begin = 0, .end = 0}};
  return IndexedSlices{slice(slices.values, none), slice(slices.indices, none), slices.dense_shape};
}

Gradient zero_gradient(DType dtype, const Shape& shape, bool has_rows) {
  if (!has_rows) return zeros(shape, dtype);
  return IndexedSlices{zeros(shape.with(0, 0), dtype), zeros({0}, kInt64), shape};
}

std::string describe_presence(const std::vector<Gradient>& values) {
  const std::string different =
      presence_text(values, [](size_t i) { return fmt::format("number {}", i); });
  if (different.empty()) return "all_reduce";
  return fmt::format("all_reduce of {} values{}", values.size(), different);
}

std::string describe_presence(const std::vector<Gradient>& gradients,
                              const std::vector<Variable>& variables) {
  uint64_t list = 0;
  for (const std::string& label : labels_of(variables)) {
    list = XXH3_64bits_withSeed(label.data(), label.size(), list);
  }
  return fmt::format(
      "the gradients of {} variables [{:x}]{}", variables.size(), list,
      presence_text(gradients, [&](size_t i) { return fmt::format("'{}'", variables[i].name()); }));
}

bool fill_undefined(ReduceOp op, std::vector<Gradient>& parts) {
  const auto known =
      std::find_if(parts.begin(), parts.end(), [](const Gradient& part) { return part.defined(); });
  if (known == parts.end()) return false;
  if (op != ReduceOp::Sum && op != ReduceOp::Mean) return true;
  const Gradient other = *known;
  for (Gradient& part : parts) {
    if (!part.defined()) part = zero_like(other);
  }
  return true;
}

}  // namespace cohort::internal
