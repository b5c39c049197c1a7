#include <cstring>
#include <map>

#include "collectives/dense.h"
#include "collectives/packing.h"
#include "tensor/memory.h"
#include "tensor/reduce_elements.h"

namespace cohort::internal {
namespace {

// Tensors travel together until so many bytes are.
constexpr int64_t kPackBytes = int64_t{4} << 20;

int64_t bytes_of(const Tensor& value) { return value.size() * size_of(value.dtype()); }

std::string describe(const std::vector<Tensor>& values, const std::vector<size_t>& pack) {
  std::vector<Shape> shapes;
  for (const size_t i : pack) shapes.push_back(values[i].shape());
  return describe_tensors(values[pack[0]].dtype(), shapes);
}

// All tensors of a pack behind each other.
Tensor joined(const std::vector<Tensor>& values, const std::vector<size_t>& pack) {
  int64_t count = 0;
  for (const size_t i : pack) count += values[i].size();
  const WritableTensor whole = allocate_tensor(values[pack[0]].dtype(), {count});
  std::byte* at = whole.data;
  for (const size_t i : pack) {
    const auto bytes = static_cast<size_t>(bytes_of(values[i]));
    if (bytes > 0) std::memcpy(at, element_bytes(values[i]), bytes);
    at += bytes;
  }
  return whole.tensor;
}

}  // namespace

std::vector<Tensor> all_reduce_list(CollectiveGroup& group, const std::vector<Tensor>& values,
                                    ReduceOp op, Deadline deadline) {
  std::map<DType, std::vector<size_t>> by_dtype;
  for (size_t i = 0; i < values.size(); ++i) {
    // Checks all before anything happens.
    or_refuse(group, [&] { return dense_call(CallKind::AllReduce, op, values[i]); });
    by_dtype[values[i].dtype()].push_back(i);
  }
  std::vector<Tensor> results(values.size());
  for (const auto& [dtype, places] : by_dtype) {
    std::vector<int64_t> bytes;
    for (const size_t place : places) bytes.push_back(bytes_of(values[place]));
    for (std::vector<size_t> pack : packs_by_bytes(bytes, kPackBytes)) {
      for (size_t& position : pack) position = places[position];
      const bool is_alone = pack.size() == 1;
      const Tensor whole = is_alone ? values[pack[0]] : joined(values, pack);
      Call call = dense_call(CallKind::AllReduce, op, whole);
      if (!is_alone) call.detail = describe(values, pack);
      call.number = group.next_number();
      call.deadline = deadline;
      const Tensor reduced = all_reduce_dense(group, call, whole);
      int64_t at = 0;
      for (const size_t i : pack) {
        results[i] = is_alone ? reduced : view_elements(reduced, at, values[i].shape());
        at += values[i].size();
      }
    }
  }
  return results;
}

}  // namespace cohort::internal
