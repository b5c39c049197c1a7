#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

// The number that `text` is, digits only, when it fits an int.
std::optional<int> parse_index(std::string_view text);

// `text` without white space at its ends.
std::string_view trimmed(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);

// "'a', 'b'"; "none" for an empty list.
std::string quoted_list(std::span<const std::string> words);

// "; did you mean 'worker'?" for the one of `known` that `word` looks like, else "". Nothing for a
// word that is known.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

// `text` for a message: at most 60 bytes, without control characters, "..." where it was cut.
std::string excerpt(std::string_view text);

// A variable of the environment, and the number it holds. Missing is nothing, or FailedPrecondition
// where `operation` cannot do without; not a number is InvalidArgument.
std::optional<std::string> environment_variable(const std::string& name);
std::string require_variable(const std::string& name, std::string_view operation);
int require_number(const std::string& name, std::string_view operation);

}  // namespace cohort::internal
