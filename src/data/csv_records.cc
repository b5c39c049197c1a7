#include "data/csv_records.h"

#include <algorithm>
#include <cstring>

namespace cohort::data::internal {

void CsvRecords::fail(std::string_view reason) const {
  raise(Code::DataLoss, "[Csv] '{}' line {}: {}", bytes_.name(), line_, reason);
}

// A line end inside of quotes does not end the record.
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
    // Twice as much each time: the search begins anew, so it must not do so for each byte.
    text = as_text(bytes_.window(2 * before));
    if (text.size() == before) break;
  }
  const bool ended = length != std::string_view::npos;
  if ((ended ? length : text.size()) > max_bytes_) pass_over();
  std::string_view record = text.substr(0, length);
  bytes_.consume(record.size() + (ended ? 1 : 0));
  lines_ += 1 + (quotes ? std::ranges::count(record, '\n') : 0);
  if (ended && record.ends_with('\r')) record.remove_suffix(1);
  return {record, quotes, true};
}

void CsvRecords::pass_over() {
  for (;;) {
    const std::string_view text = as_text(bytes_.window());
    if (text.empty()) break;
    const size_t end = text.find('\n');
    bytes_.consume(end == std::string_view::npos ? text.size() : end + 1);
    if (end != std::string_view::npos) break;
  }
  ++lines_;
  fail(fmt::format("the record is longer than {} bytes; is a quote missing?", max_bytes_));
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
  // Enough room that views of earlier fields stay where they are.
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

// Takes a quoted field off the front of `rest`, up to the delimiter behind it.
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

}  // namespace cohort::data::internal
