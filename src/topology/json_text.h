#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace cohort::internal {

// Keeps the order of an object's keys: the jobs of a cluster have one.
using Json = nlohmann::ordered_json;

// Where a text comes from, for messages: "[TFConfig] TF_CONFIG ...".
struct JsonSource {
  std::string_view operation;
  std::string_view name;
};

// Parses text that nobody vouches for. InvalidArgument with line and column when it is not JSON,
// repeats a key, nests deeper than 32 levels or is longer than 64 MB.
Json parse_json(std::string_view text, const JsonSource& source);
// The same, with the keys in order of name, for objects of very many.
nlohmann::json parse_sorted_json(std::string_view text, const JsonSource& source);

// "a text", "a number", "null": what a value is, for messages.
std::string_view kind_of(const Json& value);
std::string_view kind_of(const nlohmann::json& value);

// The member `key` of `object` when it is there; InvalidArgument when it is not a text.
std::optional<std::string> text_member(const Json& object, const std::string& key,
                                       const JsonSource& source);

}  // namespace cohort::internal
