#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cohort/tensor.h"

namespace cohort::internal {

// A tensor's values as Python shows them: a single number as "1.0", "3", "True" or "1e-05", a
// single string in quotes, and everything with dimensions as format_values does.
std::string format_like_python(const Tensor& tensor);

// One word per number, all equally wide, as numpy shows the elements of an array: the shortest
// digits that name the number in its dtype, at most `precision` of them after the point, points
// aligned. Exponents are used for all when the largest is 1e8 or more, the smallest that is not
// zero below 1e-4, or the one more than a thousand times the other. Defined for the four floating
// types.
template <typename T>
std::vector<std::string> format_floats(std::span<const T> values, int precision);
std::vector<std::string> format_integers(std::span<const int64_t> values);

// A single number as Python's repr: "1.0", "1e-05", "nan". Defined for the four floating types.
template <typename T>
std::string format_float(T value);

// The text in single quotes. Bytes other than printable ASCII are escaped as in a C++ literal: a
// backslash, then n, t, r, a backslash, a quote, or x with two digits for all others.
std::string quote(std::string_view text);

}  // namespace cohort::internal
