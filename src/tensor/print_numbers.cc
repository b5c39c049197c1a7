// Words for single numbers; print.cc sets them into lines.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "kernels/dtypes.h"
#include "tensor/print.h"

namespace cohort::internal {
namespace {

// What arithmetic on T is done in.
template <typename T>
using Wide = std::conditional_t<std::same_as<T, double>, double, float>;

template <typename T>
Wide<T> widen(T value) {
  return value;
}

// The nearest number that T holds.
template <typename T>
Wide<T> rounded_to(Wide<T> value) {
  return static_cast<Wide<T>>(T(value));
}

// A finite number written out: "-12" "5" for -12.5, and with an exponent "-1" "25" 1.
struct Decimal {
  std::string whole;
  std::string fraction;
  int exponent = 0;
};

void strip_trailing(std::string& text, char unwanted) {
  text.erase(text.find_last_not_of(unwanted) + 1);
}

// Reads "-1.25e+01" or "-12.5".
Decimal parse_decimal(std::string_view text) {
  Decimal decimal;
  if (const size_t e = text.find('e'); e != std::string_view::npos) {
    const size_t digits = text[e + 1] == '+' ? e + 2 : e + 1;
    std::from_chars(text.data() + digits, text.data() + text.size(), decimal.exponent);
    text = text.substr(0, e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  decimal.whole = text.substr(0, point);
  if (point < text.size()) decimal.fraction = text.substr(point + 1);
  strip_trailing(decimal.fraction, '0');
  return decimal;
}

using std::chars_format;
using Buffer = std::array<char, 400>;  // the largest double has 309 digits before the point

// `value` correctly rounded to that many digits after the point.
Decimal rounded(double value, chars_format format, int digits) {
  Buffer buffer;
  const auto written = std::to_chars(buffer.begin(), buffer.end(), value, format, digits);
  return parse_decimal({buffer.begin(), written.ptr});
}

// The fewest digits after the point that name `value` among the numbers of its type.
template <typename T>
Decimal shortest(T value, chars_format format) {
  Buffer buffer;
  if constexpr (kIs16BitFloat<T>) {
    // The number next to it decides ties upwards: numbers lie more densely below a power of two.
    const float exact = widen(value);
    const float above = std::nextafter(exact, std::copysign(INFINITY, exact));
    for (int digits = 0;; ++digits) {
      for (const float candidate : {exact, above}) {
        const char* const end =
            std::to_chars(buffer.begin(), buffer.end(), candidate, format, digits).ptr;
        float read = 0;
        std::from_chars(buffer.begin(), end, read, format);
        if (T(read).bits == value.bits) return parse_decimal({buffer.begin(), end});
      }
    }
  } else {
    const auto written = std::to_chars(buffer.begin(), buffer.end(), value, format);
    return parse_decimal({buffer.begin(), written.ptr});
  }
}

// Limits and ratio are compared as numbers of type T: the float16 nearest to 1e-4 is not below it.
template <typename T>
bool wants_exponent(std::span<const T> values) {
  Wide<T> largest = 0;
  Wide<T> smallest = INFINITY;
  for (const T& value : values) {
    const Wide<T> size = std::abs(widen(value));
    if (size == 0 || !std::isfinite(size)) continue;
    largest = std::max(largest, size);
    smallest = std::min(smallest, size);
  }
  if (largest == 0) return false;
  return largest >= rounded_to<T>(1e8) || smallest < rounded_to<T>(1e-4) ||
         rounded_to<T>(largest / smallest) > 1000;
}

std::string_view non_finite_name(double value) {
  if (std::isnan(value)) return "nan";
  return value < 0 ? "-inf" : "inf";
}

std::string exponent_digits(int exponent) {
  const std::string digits = std::to_string(std::abs(exponent));
  return digits.size() < 2 ? "0" + digits : digits;
}

// How the words of a tensor look: format and width of each part.
struct Columns {
  chars_format format = chars_format::fixed;
  size_t whole = 0;
  size_t fraction = 0;
  size_t exponent = 0;  // digits of the exponent, if the format has one
  size_t word = 0;

  bool scientific() const { return format == chars_format::scientific; }
  size_t after_whole() const { return 1 + fraction + (scientific() ? 2 + exponent : 0); }
  void make_room_for(const Decimal& decimal) {
    whole = std::max(whole, decimal.whole.size());
    fraction = std::max(fraction, decimal.fraction.size());
    exponent = std::max(exponent, exponent_digits(decimal.exponent).size());
    word = std::max(word, whole + after_whole());
  }
};

std::string pad_left(std::string_view text, size_t width, char with = ' ') {
  return std::string(width - std::min(width, text.size()), with) + std::string(text);
}

std::string to_word(const Decimal& decimal, const Columns& columns) {
  std::string word = pad_left(decimal.whole, columns.word - columns.after_whole());
  word += "." + decimal.fraction;
  word.append(columns.fraction - decimal.fraction.size(), columns.scientific() ? '0' : ' ');
  if (!columns.scientific()) return word;
  word += decimal.exponent < 0 ? "e-" : "e+";
  return word + pad_left(exponent_digits(decimal.exponent), columns.exponent, '0');
}

template <typename T>
Decimal to_decimal(T value, chars_format format, int precision) {
  Decimal decimal = shortest(value, format);
  if (static_cast<int>(decimal.fraction.size()) <= precision) return decimal;
  return rounded(widen(value), format, precision);
}

// Numbers with exponents show all digits of the column, not only those that are needed.
template <typename T>
void use_all_digits(Decimal& decimal, T value, const Columns& columns) {
  if (!columns.scientific() || decimal.fraction.size() == columns.fraction) return;
  decimal = rounded(widen(value), columns.format, static_cast<int>(columns.fraction));
}

}  // namespace

template <typename T>
std::vector<std::string> format_floats(std::span<const T> values, int precision) {
  Columns columns;
  if (wants_exponent(values)) columns.format = chars_format::scientific;
  std::vector<Decimal> decimals(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(widen(values[i]))) continue;
    decimals[i] = to_decimal(values[i], columns.format, precision);
    columns.make_room_for(decimals[i]);
  }
  for (const T& value : values) {
    if (std::isfinite(widen(value))) continue;
    columns.word = std::max(columns.word, non_finite_name(widen(value)).size());
  }
  std::vector<std::string> words;
  words.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(widen(values[i]))) {
      use_all_digits(decimals[i], values[i], columns);
      words.push_back(to_word(decimals[i], columns));
    } else {
      words.push_back(pad_left(non_finite_name(widen(values[i])), columns.word));
    }
  }
  return words;
}

std::vector<std::string> format_integers(std::span<const int64_t> values) {
  std::vector<std::string> words;
  words.reserve(values.size());
  size_t widest = 0;
  for (const int64_t value : values) {
    words.push_back(std::to_string(value));
    widest = std::max(widest, words.back().size());
  }
  for (std::string& word : words) word = pad_left(word, widest);
  return words;
}

template <typename T>
std::string format_float(T value) {
  if (!std::isfinite(widen(value))) return std::string(non_finite_name(widen(value)));
  const Decimal decimal = shortest(value, chars_format::scientific);
  if (decimal.exponent >= -4 && decimal.exponent < 16) {
    const Decimal plain = shortest(value, chars_format::fixed);
    return plain.whole + "." + (plain.fraction.empty() ? "0" : plain.fraction);
  }
  return decimal.whole + (decimal.fraction.empty() ? "" : ".") + decimal.fraction +
         (decimal.exponent < 0 ? "e-" : "e+") + exponent_digits(decimal.exponent);
}

template std::vector<std::string> format_floats(std::span<const float16>, int);
template std::vector<std::string> format_floats(std::span<const bfloat16>, int);
template std::vector<std::string> format_floats(std::span<const float>, int);
template std::vector<std::string> format_floats(std::span<const double>, int);
template std::string format_float(float16);
template std::string format_float(bfloat16);
template std::string format_float(float);
template std::string format_float(double);

}  // namespace cohort::internal
