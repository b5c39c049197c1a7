#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cohort/element.h"
#include "data/byte_source.h"
#include "data/element_access.h"

namespace cohort::data::internal {

// Returns the elements of a numeric tensor as row-major bytes.
std::span<const std::byte> raw_bytes(const Tensor& tensor);
// Returns the number of elements in one row of the first dimension; 1 for a vector.
int64_t row_elements(const Shape& shape);

// Returns the batch with its numbers in row-major memory. A stage that takes one row after the
// other calls it once, so that a view is not put in order again for each row.
Element in_row_order(const Element& batch);
// Return row `index` of the first dimension, and rows [begin, end). They copy strings, and rows of
// a few bytes.
Tensor row_of(const Tensor& tensor, int64_t index);
Tensor rows_of(const Tensor& tensor, int64_t begin, int64_t end);
// Returns the rows with these numbers in one copy.
Tensor gather_rows(const Tensor& tensor, std::span<const int64_t> rows);

// Returns an element whose tensors are combine(column, place). A column is the tensors in one place
// of all elements. Throws InvalidArgument, "[stage] ...", if the elements differ in structure.
template <typename Combine>
Element combine_columns(std::string_view stage, std::span<const Element> elements,
                        const Combine& combine) {
  const StructurePtr& structure = structure_of(elements[0]);
  for (const Element& element : elements) {
    check_same_structure(stage, *structure, *structure_of(element));
  }
  std::vector<Tensor> combined;
  std::vector<const Tensor*> column(elements.size());
  for (size_t place = 0; place < structure->leaves; ++place) {
    for (size_t i = 0; i < elements.size(); ++i) column[i] = &tensors_of(elements[i])[place];
    combined.push_back(combine(column, place));
  }
  return ElementAccess::make(structure, std::move(combined));
}

// Returns a batch of the elements: each tensor is stacked along a new first dimension. Throws
// InvalidArgument, "[stage] ...", if the elements differ in structure, dtype or shape.
Element stack_elements(std::string_view stage, std::span<const Element> elements);
// Returns one batch with the rows of all batches.
Element join_batches(std::string_view stage, std::span<const Element> batches);
// Returns the number of rows that all tensors of a batch have. Throws InvalidArgument if one is a
// scalar, or if the numbers differ.
int64_t batch_rows(std::string_view stage, const Element& batch);
// Throws InvalidArgument if the spec says that a tensor is a scalar.
void check_has_rows(std::string_view stage, const std::optional<ElementSpec>& batches);
// Return one row of a batch as an element, and rows [begin, end) as a batch.
Element batch_row(const Element& batch, int64_t index);
Element batch_slice(const Element& batch, int64_t begin, int64_t end);

}  // namespace cohort::data::internal
