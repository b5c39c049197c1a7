#pragma once

#include <string_view>

#include "ops/op.h"

// Checks that the ops on shapes share. `op` is the op's name, for the message; each throws
// InvalidArgument.
namespace cohort::internal {

// Every size is known, and a tensor of that shape has no more bytes than a tensor may.
void require_creatable(std::string_view op, const Shape& shape, DType dtype);
// The shapes may be equal; unknown sizes may be anything.
void require_compatible(std::string_view op, const Shape& found, const Shape& expected,
                        std::string_view what);
// Input `i` has an integer dtype.
void require_integers(const OpInputs& inputs, size_t i, std::string_view what);
// A tensor of `rank` dimensions exists.
void require_possible_rank(std::string_view op, int rank);
// `dtype` holds `value`: integers hold whole numbers in their range, bool holds 0 and 1.
void require_representable(std::string_view op, double value, DType dtype);
// `size` is not negative.
void require_size(std::string_view op, int64_t size, std::string_view what);

// Number of elements of a fully known shape.
int64_t checked_count(std::string_view op, const Shape& shape);
// a + b and a * b of sizes.
int64_t checked_add(std::string_view op, int64_t a, int64_t b);
int64_t checked_multiply(std::string_view op, int64_t a, int64_t b);

}  // namespace cohort::internal
