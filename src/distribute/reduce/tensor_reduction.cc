#include "distribute/reduce/tensor_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <latch>

#include "base/machine.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "collectives/arithmetic.h"
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
         std::ranges::any_of(tensors, &Tensor::is_symbolic);
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

IndexedSlices as_slices(const Gradient& value, const Shape& dense_shape) {
  if (value.is_sparse()) return value.slices();
  return {value.dense(), range(dense_shape[0]), dense_shape};
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

bool any_sparse(std::span<const Gradient> parts) {
  return std::ranges::any_of(parts, &Gradient::is_sparse);
}

IndexedSlices join_slices(ReduceOp op, std::span<const Gradient> parts) {
  const Shape dense_shape = std::ranges::find_if(parts, &Gradient::is_sparse)->slices().dense_shape;
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

}  // namespace cohort::internal
