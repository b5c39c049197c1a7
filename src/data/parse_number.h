#pragma once

#include <cstddef>
#include <string_view>

#include "cohort/dtype.h"

namespace cohort::data::internal {

// Writes the number that `text` spells to `out`, which has the size of one element. False when it
// spells none, or one that does not fit. Spaces around and a leading '+' are allowed; for Bool: 0,
// 1, true and false in any case.
using NumberParser = bool (*)(std::string_view text, std::byte* out);

// The parser for a numeric dtype.
NumberParser number_parser(DType dtype);

}  // namespace cohort::data::internal
