#include "base/joined_texts.h"

#include <charconv>

#include "base/raise.h"

namespace cohort::internal {

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
