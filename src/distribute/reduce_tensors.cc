#include "distribute/reduce_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "cohort/device.h"
#include "cohort/ops.h"
#include "distribute/parallel_slices.h"
#include "ops/dispatch.h"
#include "tensor/memory.h"
#include "tensor/on_device.h"
#include "tensor/reduce_elements.h"

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

size_t useful_threads(const Tensor& tensor, size_t most) {
  const bool worth = tensor.size() * size_of(tensor.dtype()) >= kBytesWorthThreads;
  return worth ? std::clamp<size_t>(std::thread::hardware_concurrency(), 1, most) : 1;
}

Tensor reduce_memory(ReduceOp op, std::span<const Tensor> tensors, size_t threads) {
  std::vector<const std::byte*> sources;
  for (const Tensor& tensor : tensors) sources.push_back(element_bytes(tensor));
  const DType dtype = tensors[0].dtype();
  const WritableTensor result = allocate_tensor(dtype, tensors[0].shape());
  const ElementReduction reduction{
      .op = op, .dtype = dtype, .sources = sources, .target = result.data};
  for_each_slice(result.tensor.size(), useful_threads(result.tensor, threads),
                 [&](ElementRange slice) { reduce_elements(reduction, slice.begin, slice.end); });
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

}  // namespace cohort::internal
