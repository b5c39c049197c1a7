#include "collectives/packing.h"

#include <algorithm>
#include <cstring>

#include "base/raise.h"
#include "collectives/communicator_access.h"
#include "tensor/memory.h"

namespace cohort {

namespace internal {

std::vector<int64_t> equal_packs(int64_t total, int packs) {
  std::vector<int64_t> sizes(static_cast<size_t>(packs), total / packs);
  if (!sizes.empty()) sizes.back() = total - total / packs * (packs - 1);
  return sizes;
}

std::vector<std::vector<size_t>> packs_by_bytes(std::span<const int64_t> bytes, int64_t limit) {
  const bool known = std::ranges::all_of(bytes, [](int64_t size) { return size >= 0; });
  const bool one_pack = limit == 0 || !known;
  std::vector<std::vector<size_t>> packs;
  int64_t filled = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (packs.empty() || (!one_pack && filled > limit)) {
      packs.emplace_back();
      filled = 0;
    }
    packs.back().push_back(i);
    filled += bytes[i];
  }
  return packs;
}

PackMemory::PackMemory(DType element_type, std::vector<Shape> tensors)
    : dtype(element_type), shapes(std::move(tensors)) {
  // Each tensor begins on a cache line, because aligned memory is faster to compute with.
  const int64_t line = 64 / size_of(dtype);
  int64_t at = 0;
  for (const Shape& shape : shapes) {
    offsets_.push_back(at);
    at += (shape.num_elements() + line - 1) / line * line;
  }
  offsets_.push_back(at);
}

const std::shared_ptr<PackMemory>& CollectiveAccess::memory(const Pack& pack) {
  if (pack.memory_ == nullptr) {
    raise(Code::FailedPrecondition,
          "[Pack] the pack holds nothing; make one with Communicator::make_pack");
  }
  return pack.memory_;
}

}  // namespace internal

using internal::CollectiveAccess;
using internal::PackMemory;

namespace {

const PackMemory& checked(const Pack& pack, size_t index) {
  const PackMemory& memory = *CollectiveAccess::memory(pack);
  if (index >= memory.shapes.size()) {
    internal::raise(Code::InvalidArgument,
                    "[Pack] tensor {} does not exist; the pack has {} tensors", index,
                    memory.shapes.size());
  }
  return memory;
}

}  // namespace

size_t Pack::size() const { return CollectiveAccess::memory(*this)->shapes.size(); }
DType Pack::dtype() const { return CollectiveAccess::memory(*this)->dtype; }
const Shape& Pack::shape(size_t index) const { return checked(*this, index).shapes[index]; }
bool Pack::is_shared() const { return !CollectiveAccess::memory(*this)->all.empty(); }

void* Pack::elements(DType wanted, size_t index) const {
  const PackMemory& memory = checked(*this, index);
  if (wanted != memory.dtype) {
    internal::raise(Code::InvalidArgument, "[Pack] the elements are {}, not {}",
                    to_string(memory.dtype), to_string(wanted));
  }
  return memory.data(index);
}

void Pack::write(size_t index, const Tensor& value) {
  const PackMemory& memory = checked(*this, index);
  const Shape& shape = memory.shapes[index];
  if (value.dtype() != memory.dtype || !(value.shape() == shape)) {
    internal::raise(Code::InvalidArgument, "[Pack] tensor {} is {} {}, the value is {} {}", index,
                    to_string(memory.dtype), shape.to_string(), to_string(value.dtype()),
                    value.shape().to_string());
  }
  const auto bytes = static_cast<size_t>(shape.num_elements() * size_of(memory.dtype));
  if (bytes > 0) std::memcpy(memory.data(index), internal::element_bytes(value), bytes);
}

Tensor Pack::read(size_t index) const {
  const PackMemory& memory = checked(*this, index);
  const Shape& shape = memory.shapes[index];
  const internal::WritableTensor copy = internal::allocate_tensor(memory.dtype, shape);
  const auto bytes = static_cast<size_t>(shape.num_elements() * size_of(memory.dtype));
  if (bytes > 0) std::memcpy(copy.data, memory.data(index), bytes);
  return copy.tensor;
}

Tensor Pack::view(size_t index) const {
  const PackMemory& memory = checked(*this, index);
  return Tensor::from_memory(memory.data(index), memory.dtype, memory.shapes[index],
                             [held = memory_]() mutable { held.reset(); });
}

}  // namespace cohort
