#include "collectives/pack_memory.h"

namespace cohort::internal {

PackMemory::PackMemory(DType element_type, std::vector<Shape> tensors)
    : dtype(element_type), shapes(std::move(tensors)) {
  // Each begins on a cache line, so that whoever computes into it has aligned memory.
  const int64_t line = 64 / size_of(dtype);
  int64_t at = 0;
  for (const Shape& shape : shapes) {
    offsets_.push_back(at);
    at += (shape.num_elements() + line - 1) / line * line;
  }
  offsets_.push_back(at);
}

}  // namespace cohort::internal
