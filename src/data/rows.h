#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cohort/element.h"
#include "data/byte_source.h"
#include "data/structure.h"

namespace cohort::data::internal {

// The elements of a numeric tensor as row-major bytes.
std::span<const std::byte> raw_bytes(const Tensor& tensor);
// Elements of one row of the first dimension; 1 for a vector.
int64_t row_elements(const Shape& shape);

// The batch with its numbers in row-major memory: who takes many of its rows, one after the other,
// puts views in order once and not for each row.
Element in_row_order(const Element& batch);
// Row `index` of the first dimension, and rows [begin, end); without a copy for numbers, unless
// a row has only a few bytes.
Tensor row_of(const Tensor& tensor, int64_t index);
Tensor rows_of(const Tensor& tensor, int64_t begin, int64_t end);
// The rows of those numbers, copied once.
Tensor gather_rows(const Tensor& tensor, std::span<const int64_t> rows);

// Tensors of one shape and dtype, stacked along a new first dimension. Throws InvalidArgument that
// begins with [stage] and names both shapes or dtypes.
Tensor stack_tensors(std::string_view stage, std::span<const Tensor* const> parts);
// Tensors that agree in all but the first dimension, one behind the other.
Tensor join_tensors(std::string_view stage, std::span<const Tensor> parts);

// Many elements as one: each tensor stacked with its peers.
Element stack_elements(std::string_view stage, std::span<const Element> elements);
// Many batches as one.
Element join_batches(std::string_view stage, std::span<const Element> batches);
// The common size of the first dimension of an element's tensors. Throws InvalidArgument for
// scalars and for sizes that differ.
int64_t batch_rows(std::string_view stage, const Element& batch);
// Throws InvalidArgument when it is known of the elements that one of their tensors is a scalar.
void check_has_rows(std::string_view stage, const std::optional<ElementSpec>& batches);
Element batch_slice(const Element& batch, int64_t begin, int64_t end);

}  // namespace cohort::data::internal
