#include "data/csv_parse.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

#include "kernels/dtypes.h"

namespace cohort::data::internal {

void CsvRecords::fail(std::string_view reason) const {
  raise(Code::DataLoss, "[Csv] '{}' line {}: {}", bytes_.name(), line_, reason);
}

// A line end inside quotes does not end the record.
size_t CsvRecords::record_length(std::string_view text, bool& quotes) const {
  size_t end = text.find('\n');
  const size_t quote = text.substr(0, end).find('"');
  quotes = quote != std::string_view::npos;
  if (!quotes) return end;
  bool inside = false;
  for (size_t at = quote; at < text.size(); ++at) {
    if (text[at] == '"') inside = !inside;
    if (text[at] == '\n' && !inside) return at;
  }
  return std::string_view::npos;
}

CsvRecords::Record CsvRecords::next_record() {
  std::string_view text = as_text(bytes_.window());
  line_ = lines_ + 1;
  if (text.empty()) return {};
  bool quotes = false;
  size_t length = 0;
  for (;;) {
    length = record_length(text, quotes);
    if (length != std::string_view::npos || text.size() > max_bytes_) break;
    const size_t before = text.size();
    // Reads twice as much each time, because the search starts again at the front.
    text = as_text(bytes_.window(2 * before));
    if (text.size() == before) break;
  }
  const bool ended = length != std::string_view::npos;
  if ((ended ? length : text.size()) > max_bytes_) {
    bytes_.consume_line();
    ++lines_;
    fail(fmt::format("the record is longer than {} bytes; is a quote missing?", max_bytes_));
  }
  std::string_view record = text.substr(0, length);
  bytes_.consume(record.size() + (ended ? 1 : 0));
  lines_ += 1 + (quotes ? std::ranges::count(record, '\n') : 0);
  if (ended && record.ends_with('\r')) record.remove_suffix(1);
  return {record, quotes, true};
}

bool CsvRecords::next(std::vector<std::string_view>& fields) {
  Record record;
  do {
    record = next_record();
    if (!record.found) return false;
  } while (record.text.empty());
  fields.clear();
  if (record.quotes) {
    split_quoted(record.text, fields);
    return true;
  }
  const char* at = record.text.data();
  const char* const end = at + record.text.size();
  for (;;) {
    const auto* stop =
        static_cast<const char*>(std::memchr(at, delimiter_, static_cast<size_t>(end - at)));
    if (stop == nullptr) stop = end;
    fields.emplace_back(at, static_cast<size_t>(stop - at));
    if (stop == end) return true;
    at = stop + 1;
  }
}

void CsvRecords::split_quoted(std::string_view text, std::vector<std::string_view>& fields) {
  // Reserves enough, because `fields` has views of the strings in unescaped_.
  unescaped_.clear();
  unescaped_.reserve(static_cast<size_t>(std::ranges::count(text, '"')) / 2 + 1);
  for (;;) {
    if (text.starts_with('"')) {
      fields.push_back(quoted_field(text));
    } else {
      const size_t end = std::min(text.size(), text.find(delimiter_));
      fields.push_back(text.substr(0, end));
      if (fields.back().find('"') != std::string_view::npos) {
        fail(fmt::format("field {} has a quote inside but does not begin with one", fields.size()));
      }
      text.remove_prefix(end);
    }
    if (text.empty()) return;
    text.remove_prefix(1);
  }
}

// Removes a quoted field from the front of `rest`, up to the delimiter after it.
std::string_view CsvRecords::quoted_field(std::string_view& rest) {
  std::string value;
  std::string_view plain;
  bool escaped = false;
  rest.remove_prefix(1);
  for (;;) {
    const size_t quote = rest.find('"');
    if (quote == std::string_view::npos) fail("a quoted field does not end");
    plain = rest.substr(0, quote);
    rest.remove_prefix(quote + 1);
    const bool doubled = rest.starts_with('"');
    if (doubled || escaped) value += plain;
    if (!doubled) break;
    escaped = true;
    value += '"';
    rest.remove_prefix(1);
  }
  if (!rest.empty() && rest[0] != delimiter_) fail("text follows the closing quote of a field");
  if (!escaped) return plain;
  unescaped_.push_back(std::move(value));
  return unescaped_.back();
}

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

// Parses plain decimals with few digits: the quotient of two exact doubles is the nearest double.
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

// Whether the double rounded to a float may differ from the decimal number rounded to a float.
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
