#include "data/parse_number.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

#include "tensor/visit.h"

namespace cohort::data::internal {
namespace {

constexpr std::array<double, 23> kPowers = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                            1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                            1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  return text;
}

// Plain decimals with few digits: the quotient of two exact doubles is the nearest double.
bool parse_plain(std::string_view text, double& value) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  uint64_t digits = 0;
  const char* const first = at;
  while (at != end && is_digit(*at)) digits = digits * 10 + static_cast<uint64_t>(*at++ - '0');
  auto count = at - first;
  ptrdiff_t fraction = 0;
  if (at != end && *at == '.') {
    const char* const point = ++at;
    while (at != end && is_digit(*at)) digits = digits * 10 + static_cast<uint64_t>(*at++ - '0');
    fraction = at - point;
    count += fraction;
  }
  if (at != end || count == 0 || count > 18 || digits >= uint64_t{1} << 53) return false;
  value = static_cast<double>(digits) / kPowers[static_cast<size_t>(fraction)];
  if (negative) value = -value;
  return true;
}

// Whether rounding the double to a float might differ from rounding the decimal number itself.
bool near_float_midpoint(double value) {
  constexpr uint64_t kDropped = (uint64_t{1} << 29) - 1;
  constexpr uint64_t kHalf = uint64_t{1} << 28;
  const uint64_t dropped = std::bit_cast<uint64_t>(value) & kDropped;
  return dropped - (kHalf - 1) <= 2;
}

template <typename T>
bool parse_with_library(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_float(std::string_view text, float& value) {
  double wide = 0;
  if (parse_plain(text, wide) && !near_float_midpoint(wide) &&
      (wide == 0 || std::abs(wide) >= 1e-30)) {
    value = static_cast<float>(wide);
    return true;
  }
  return parse_with_library(text, value);
}

bool parse_bool(std::string_view text, bool& value) {
  const auto is = [&](std::string_view word) {
    return std::ranges::equal(text, word, {}, [](char c) { return c | 0x20; });
  };
  const bool yes = text == "1" || is("true");
  if (!yes && text != "0" && !is("false")) return false;
  value = yes;
  return true;
}

template <typename T>
bool parse_integer(std::string_view text, T& value) {
  const bool negative = !text.empty() && text[0] == '-';
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty() || digits.size() > 18) return parse_with_library(text, value);
  int64_t number = 0;
  for (const char c : digits) {
    if (!is_digit(c)) return false;
    number = number * 10 + (c - '0');
  }
  if (negative) number = -number;
  if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max())
    return false;
  value = static_cast<T>(number);
  return true;
}

template <typename T>
bool parse_as(std::string_view text, std::byte* out) {
  T value{};
  bool good = false;
  text = trimmed(text);
  if constexpr (std::same_as<T, bool>) {
    good = parse_bool(text, value);
  } else if constexpr (std::same_as<T, float16> || std::same_as<T, bfloat16>) {
    float wide = 0;
    good = parse_float(text, wide);
    value = T(wide);
  } else if constexpr (std::same_as<T, float>) {
    good = parse_float(text, value);
  } else if constexpr (std::same_as<T, double>) {
    good = parse_plain(text, value) || parse_with_library(text, value);
  } else {
    good = parse_integer(text, value);
  }
  if (good) std::memcpy(out, &value, sizeof(T));
  return good;
}

}  // namespace

NumberParser number_parser(DType dtype) {
  return cohort::internal::visit_numeric(
      dtype, []<typename T>(T) -> NumberParser { return &parse_as<T>; });
}

}  // namespace cohort::data::internal
