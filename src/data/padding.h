#pragma once

#include "data/node.h"

namespace cohort::data::internal {

// How elements of different shapes become one batch.
struct Padding {
  // One per tensor, or empty: every size is padded to the largest of the batch.
  std::vector<Shape> shapes = {};
  // One scalar per tensor, or empty: zeros and empty strings.
  std::vector<Tensor> values = {};
};

// Throws InvalidArgument for values that are not scalars.
void check_padding(std::string_view stage, const Padding& padding);

// The elements as one batch. Throws InvalidArgument naming what does not fit: ranks that differ, a
// size above the one that is asked for, dtypes.
Element pad_elements(std::string_view stage, std::span<const Element> elements,
                     const Padding& padding);

}  // namespace cohort::data::internal
