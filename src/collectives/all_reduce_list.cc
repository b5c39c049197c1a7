#include <fmt/ranges.h>

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

// Shows the first few, and stands for all.
std::string describe(const std::vector<Tensor>& values, const std::vector<size_t>& pack) {
  constexpr size_t kShown = 3;
  std::vector<std::string> shapes;
  uint64_t all = 0;
  for (const size_t i : pack) {
    if (shapes.size() < kShown) shapes.push_back(values[i].shape().to_string());
    for (const int64_t size : values[i].shape()) all = mix(all, static_cast<uint64_t>(size));
    all = mix(all, static_cast<uint64_t>(values[i].rank()));
  }
  return fmt::format("{} tensors of {}: {}{} [{:x}]", pack.size(),
                     to_string(values[pack[0]].dtype()), fmt::join(shapes, ", "),
                     pack.size() > kShown ? ", ..." : "", all & 0xffffff);
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
    dense_call(CallKind::AllReduce, op, values[i]);  // checks all before anything happens
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
