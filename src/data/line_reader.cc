#include "data/line_reader.h"

#include <algorithm>
#include <cstring>

namespace cohort::data::internal {

bool LineReader::next(std::string_view& line) {
  std::string_view text = as_text(bytes_.window());
  if (text.empty()) return false;
  ++number_;
  size_t searched = 0;
  size_t end = 0;
  for (;;) {
    end = text.find('\n', searched);
    if (end != std::string_view::npos || text.size() > max_bytes_) break;
    searched = text.size();
    text = as_text(bytes_.window(searched + 1));
    if (text.size() == searched) break;
  }
  const bool ended = end != std::string_view::npos;
  const size_t length = ended ? end : text.size();
  if (length > max_bytes_) pass_over();
  line = text.substr(0, length);
  if (ended && line.ends_with('\r')) line.remove_suffix(1);
  bytes_.consume(length + (ended ? 1 : 0));
  return true;
}

void LineReader::pass_over() {
  for (;;) {
    const std::string_view text = as_text(bytes_.window());
    const size_t end = text.find('\n');
    if (text.empty()) break;
    bytes_.consume(end == std::string_view::npos ? text.size() : end + 1);
    if (end != std::string_view::npos) break;
  }
  raise(Code::DataLoss, "[{}] '{}' line {}: longer than {} bytes", stage_, bytes_.name(), number_,
        max_bytes_);
}

}  // namespace cohort::data::internal
