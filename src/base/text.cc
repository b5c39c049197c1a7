#include "base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "base/raise.h"

namespace cohort::internal {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// How many letters must be inserted, deleted, changed or swapped with their neighbour to turn `a`
// into `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  std::iota(rows[0].begin(), rows[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::optional<int> parse_non_negative(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || text[0] == '-' || error != std::errc() || stop != end) return std::nullopt;
  return number;
}

bool has_only_alnum_and(std::string_view others, std::string_view text) {
  return std::ranges::all_of(text, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           others.find(c) != std::string_view::npos;
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t from = 0;;) {
    const size_t at = text.find(separator, from);
    parts.push_back(text.substr(from, at == std::string_view::npos ? at : at - from));
    if (at == std::string_view::npos) return parts;
    from = at + 1;
  }
}

std::string quoted_list(std::span<const std::string> words) {
  return words.empty() ? "none" : fmt::format("'{}'", fmt::join(words, "', '"));
}

const std::string* closest_word(std::string_view word, std::span<const std::string> known,
                                size_t max_edits) {
  constexpr size_t kMaxWord = 40;  // bounds the time of the comparison
  for (const std::string& candidate : known) {
    const bool close =
        word.size() <= kMaxWord && edit_distance(lower(word), lower(candidate)) <= max_edits;
    if (close) return &candidate;
  }
  return nullptr;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  if (word.size() < 3 || std::ranges::find(known, word) != known.end()) return "";
  const std::string* const meant = closest_word(word, known, word.size() > 4 ? 2 : 1);
  return meant == nullptr ? "" : fmt::format("; did you mean '{}'?", *meant);
}

std::string excerpt(std::string_view text, size_t max_bytes) {
  std::string result(text.substr(0, max_bytes));
  std::ranges::replace_if(
      result, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return text.size() > max_bytes ? result + "..." : result;
}

std::string escape_quotes(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') escaped += '\\';
    escaped += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
  }
  return escaped;
}

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string require_variable(const std::string& name, std::string_view operation) {
  if (std::optional<std::string> value = environment_variable(name)) return *value;
  raise(Code::FailedPrecondition,
        "[{}] the variable {} is not set; is this process started by the launcher that sets it?",
        operation, name);
}

int require_number(const std::string& name, std::string_view operation) {
  const std::string value = require_variable(name, operation);
  if (const std::optional<int> number = parse_non_negative(value)) return *number;
  raise(Code::InvalidArgument, "[{}] the variable {} is '{}', expected a number", operation, name,
        excerpt(value));
}

std::string join_texts(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += fmt::format("{} {}", text.size(), text);
  return all;
}

std::vector<std::string> split_texts(const std::string& joined) {
  std::vector<std::string> texts;
  const char* at = joined.data();
  const char* const end = at + joined.size();
  while (at != end) {
    size_t size = 0;
    const auto [after, failed] = std::from_chars(at, end, size);
    if (failed != std::errc() || after == end || *after != ' ' ||
        size > static_cast<size_t>(end - after - 1)) {
      raise(Code::DataLoss, "[Workers] a list of texts is damaged at byte {} of {}",
            at - joined.data(), joined.size());
    }
    texts.emplace_back(after + 1, size);
    at = after + 1 + size;
  }
  return texts;
}

}  // namespace cohort::internal
