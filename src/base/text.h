#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

// The number that the digits of `text` mean, if it is one and fits an int.
std::optional<int> parse_non_negative(std::string_view text);

// Whether the text has only letters, digits and the `others`.
bool has_only_alnum_and(std::string_view others, std::string_view text);

// `text` without white space at its ends.
std::string_view trimmed(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);

// What follows the last '/' of a path or a name.
inline std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// "'a', 'b'"; "none" for an empty list.
std::string quoted_list(std::span<const std::string> words);

// The first of the known words that differs from `word` in at most `max_edits` letters; null if
// none does. Capitals count as small letters.
const std::string* closest_word(std::string_view word, std::span<const std::string> known,
                                size_t max_edits);
// "; did you mean 'worker'?" for the known word that `word` looks like, else "". Nothing for a word
// that is known.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

// `text` for a message: at most `max_bytes`, without control characters. "..." marks a cut.
std::string excerpt(std::string_view text, size_t max_bytes = 60);

// `text` for a place between double quotes, in JSON or in a graph for dot: with \ before quotes and
// backslashes, and with blanks for control characters.
std::string escape_quotes(std::string_view text);

// A variable of the environment. The functions that require one throw FailedPrecondition, in the
// name of `operation`, if it is not set, and InvalidArgument if it is not a number.
std::optional<std::string> environment_variable(const std::string& name);
std::string require_variable(const std::string& name, std::string_view operation);
int require_number(const std::string& name, std::string_view operation);

// Several texts as one, each after its length.
std::string join_texts(const std::vector<std::string>& texts);
// The texts again. Throws DataLoss unless join_texts() made `joined`.
std::vector<std::string> split_texts(const std::string& joined);

}  // namespace cohort::internal
