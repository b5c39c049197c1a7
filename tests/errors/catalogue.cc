#include "errors/catalogue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

#include "cohort/device.h"
#include "cohort/error.h"

namespace cohort::test {
namespace {

const std::string kTableHead = "| code | text | what to do |\n|---|---|---|\n";

std::string masked(std::string text) {
  static const std::vector<std::pair<std::regex, std::string>> kMasks = {
      {std::regex("[^ '\"(]*/cohort_(test|launch)_[A-Za-z0-9]{6}"), "/data"},
      {std::regex("(localhost|127\\.0\\.0\\.1):[0-9]{5}"), "$1:PORT"},
      {std::regex("[^ '\"(]*\\.cc:[0-9]+"), "train.cc:12"},
      {std::regex("(it has|devices:) (/job:[^ ,;]*device:[^ ,;]*)(, /job:[^ ,;]*)*"), "$1 $2, ..."},
      {std::regex("process [0-9]+ \\([^)]*\\)"), "process 4711 (train)"},
      {std::regex("process [0-9]+ on host [^ ]+, run '[^']*', since [^;]*"),
       "process 4711 on host h, run './train', since 2026-01-01 00:00:00 UTC"},
      {std::regex("port [0-9]{5}"), "port PORT"},
      {std::regex("'iterator_[0-9]+"), "'iterator_0"},  // counted in the process
      // Which worker notices a difference first is chance, and its call comes first.
      {std::regex("(rank 1 [^;]*), (rank 0 [^;]*)"), "$2, $1"},
      {std::regex("tried [0-9]+ times in [0-9.]+ s"), "tried 5 times in 0.2 s"},
      {std::regex("[0-9]{8}-[0-9]{6}-[0-9]+"), "20260101-000000-4711"},
      {std::regex("/cohort-[0-9]+\\b"), "/cohort-1000"},  // the directory of this user's runs
      {std::regex("[0-9a-f]{16}"), "0123456789abcdef"},
      {std::regex("checksum is [0-9a-f]{8}, expected [0-9a-f]{8}"),
       "checksum is 01234567, expected 89abcdef"},
  };
  for (const auto& [what, word] : kMasks) text = std::regex_replace(text, what, word);
  return text;
}

// As code in a cell of a table.
std::string cell(const std::string& text) {
  std::string line;
  for (char c : text) {
    if (c == '\n') c = ' ';
    if (c == '|') line += '\\';
    if (c != ' ' || (!line.empty() && line.back() != ' ')) line += c;
  }
  if (line.ends_with(' ')) line.pop_back();
  const bool has_quote = line.find('`') != std::string::npos;
  return has_quote ? fmt::format("`` {} ``", line) : fmt::format("`{}`", line);
}

// Whether the text says what was expected, or what to do.
bool names_remedy(const std::string& text) {
  static const std::regex kRemedy(
      "; |: |\\b(expected|must|needs?|takes?|use|give|choose|call|see)\\b");
  return std::regex_search(text, kRemedy);
}

ErrorRow thrown_by(const ErrorExample& example) {
  const Status thrown = capture_status(example.provoke);
  const Status& status = thrown.root();
  EXPECT_FALSE(status.ok()) << "an example throws nothing; its remedy: " << example.remedy;
  // What failed on another task names that task first.
  EXPECT_TRUE(status.message.starts_with('[') || status.message.starts_with("From /job:"))
      << status;
  return {to_string(status.code), status.message, example.remedy};
}

std::string line_of(const ErrorRow& row) {
  EXPECT_TRUE(!row.remedy.empty() || names_remedy(row.text))
      << "neither the text nor the example says what to do: " << row.text;
  return fmt::format("| {} | {} | {} |\n", row.code, cell(masked(row.text)), row.remedy);
}

std::string read_page() {
  std::ifstream file(ERRORS_PAGE);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Place {
  size_t begin = 0;
  size_t end = 0;
};

// The rows of the section's table.
Place rows_of(const std::string& page, const std::string& title) {
  const size_t head = page.find("\n## " + title + "\n");
  if (head == std::string::npos) return {};
  const size_t begin = page.find(kTableHead, head);
  if (begin == std::string::npos) return {};
  const size_t end = page.find("\n\n", begin);
  return {begin + kTableHead.size(), end == std::string::npos ? page.size() : end + 1};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void check_section(const std::string& title, const std::vector<ErrorExample>& examples) {
  make_cpu_devices(2);  // texts list the devices of the process
  std::vector<ErrorRow> rows;
  for (const ErrorExample& example : examples) rows.push_back(thrown_by(example));
  check_section(title, rows);
}

void check_section(const std::string& title, const std::vector<ErrorRow>& rows) {
  std::string table;
  for (const ErrorRow& row : rows) table += line_of(row);
  std::string page = read_page();
  const Place place = rows_of(page, title);
  ASSERT_NE(place.begin, 0u) << "docs/errors.md has no section '" << title << "' with a table";
  const std::string present = page.substr(place.begin, place.end - place.begin);
  if (std::getenv("COHORT_WRITE_ERRORS") != nullptr) {
    page.replace(place.begin, place.end - place.begin, table);
    std::ofstream(ERRORS_PAGE) << page;
    return;
  }
  std::vector<std::string> expected = lines_of(present), found = lines_of(table);
  expected.resize(std::max(expected.size(), found.size()));
  found.resize(expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(expected[i], found[i])
        << "docs/errors.md, section '" << title << "', row " << i + 1
        << ": if the new text is meant, run this program once with COHORT_WRITE_ERRORS=1";
  }
}

}  // namespace cohort::test
