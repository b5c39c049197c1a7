#include "topology/node_list.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/raise.h"
#include "topology/text.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxNodes = 100'000;

[[noreturn]] void raise_node_list(std::string_view text, std::string_view why) {
  raise(Code::InvalidArgument,
        "[Slurm] the host list '{}' cannot be read: {}; expected a form like a[3-5],b7",
        excerpt(text), why);
}

// The parts between commas that are not inside of brackets.
std::vector<std::string_view> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t from = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '[' && inside) || (c == ']' && !inside)) {
      raise_node_list(text, fmt::format("a '{}' too many", c));
    }
    if (c == '[' || c == ']') inside = c == '[';
    if (c != ',' || inside) continue;
    parts.push_back(text.substr(from, i - from));
    from = i + 1;
  }
  if (inside) raise_node_list(text, "a ']' is missing");
  parts.push_back(text.substr(from));
  return parts;
}

uint64_t node_number(std::string_view digits, std::string_view text) {
  uint64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const bool plain = !digits.empty() && std::all_of(digits.begin(), digits.end(),
                                                    [](char c) { return c >= '0' && c <= '9'; });
  if (!plain || digits.size() > 18) {
    raise_node_list(text, fmt::format("'{}' is not a number", excerpt(digits)));
  }
  std::from_chars(digits.data(), end, number);
  return number;
}

// "08-10" or "7", as the texts it stands for.
void expand_range(std::string_view range, std::string_view text, std::vector<std::string>& all) {
  const size_t dash = range.find('-');
  const std::string_view low_text = range.substr(0, dash);
  const std::string_view high_text =
      dash == std::string_view::npos ? low_text : range.substr(dash + 1);
  const uint64_t low = node_number(low_text, text);
  const uint64_t high = node_number(high_text, text);
  if (high < low) raise_node_list(text, fmt::format("the range {} goes down", range));
  if (high_text.size() > 1 && high_text[0] == '0' && high_text.size() != low_text.size()) {
    raise_node_list(text, fmt::format("the ends of {} have different zeros in front", range));
  }
  if (high - low >= kMaxNodes || all.size() + (high - low) >= kMaxNodes) {
    raise_node_list(text, "it means more than 100,000 hosts");
  }
  for (uint64_t i = low; i <= high; ++i) {
    all.push_back(fmt::format("{:0{}}", i, low_text.size()));
  }
}

std::vector<std::string> expand_brackets(std::string_view inside, std::string_view text) {
  std::vector<std::string> all;
  for (const std::string_view range : split(inside, ',')) expand_range(range, text, all);
  return all;
}

// Every name with every ending.
std::vector<std::string> combined(const std::vector<std::string>& names,
                                  const std::vector<std::string>& endings, std::string_view text) {
  if (names.size() * endings.size() > kMaxNodes) {
    raise_node_list(text, "it means more than 100,000 hosts");
  }
  std::vector<std::string> all;
  for (const std::string& name : names) {
    for (const std::string& ending : endings) all.push_back(name + ending);
  }
  return all;
}

void check_name(std::string_view name, std::string_view text) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (!plain) raise_node_list(text, fmt::format("'{}' is not part of a name", excerpt(name)));
}

std::vector<std::string> expand_host(std::string_view host, std::string_view text) {
  if (host.empty()) raise_node_list(text, "a name is empty");
  if (host[0] == '[') raise_node_list(text, "a name begins with a bracket");
  std::vector<std::string> names = {""};
  while (!host.empty()) {
    const size_t open = host.find('[');
    check_name(host.substr(0, open), text);
    names = combined(names, {std::string(host.substr(0, open))}, text);
    if (open == std::string_view::npos) break;
    const size_t close = host.find(']', open);
    names = combined(names, expand_brackets(host.substr(open + 1, close - open - 1), text), text);
    host = host.substr(close + 1);
  }
  return names;
}

[[noreturn]] void raise_counts(std::string_view text, std::string_view part) {
  raise(Code::InvalidArgument,
        "[Slurm] '{}' in the tasks per node '{}' cannot be read; expected a form like 2(x3),1",
        excerpt(part), excerpt(text));
}

// "2" or "2(x3)".
void expand_count(std::string_view part, std::string_view text, std::vector<int>& all) {
  const size_t open = part.find('(');
  const std::optional<int> count = parse_index(part.substr(0, open));
  std::optional<int> times = 1;
  if (open != std::string_view::npos) {
    const std::string_view repeat = part.substr(open);
    if (!repeat.starts_with("(x") || !repeat.ends_with(")")) raise_counts(text, part);
    times = parse_index(repeat.substr(2, repeat.size() - 3));
  }
  if (!count || !times || *count < 1 || *times < 1) raise_counts(text, part);
  if (all.size() + static_cast<size_t>(*times) > kMaxNodes) raise_counts(text, part);
  all.insert(all.end(), static_cast<size_t>(*times), *count);
}

}  // namespace

std::vector<std::string> parse_node_list(std::string_view text) {
  std::vector<std::string> hosts;
  for (const std::string_view part : split_outside_brackets(text)) {
    for (std::string& host : expand_host(part, text)) hosts.push_back(std::move(host));
    if (hosts.size() > kMaxNodes) raise_node_list(text, "it means more than 100,000 hosts");
  }
  return hosts;
}

std::vector<int> parse_task_counts(std::string_view text) {
  std::vector<int> counts;
  for (const std::string_view part : split(text, ',')) expand_count(part, text, counts);
  return counts;
}

}  // namespace cohort::internal
