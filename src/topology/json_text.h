#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace cohort::internal {

// Keeps the order of the keys in an object, because the jobs of a cluster have an order.
using Json = nlohmann::ordered_json;

// Where a text comes from, for messages: "[TFConfig] TF_CONFIG ...".
struct JsonSource {
  std::string_view operation;
  std::string_view name;
};

// Parses untrusted text. Throws InvalidArgument with line and column if the text is not JSON,
// repeats a key, nests deeper than 32 levels or is longer than 64 MB.
Json parse_json(std::string_view text, const JsonSource& source);
// As parse_json, but sorts the keys, which is faster for objects with very many keys.
nlohmann::json parse_sorted_json(std::string_view text, const JsonSource& source);

// The kind of a value, for messages: "a text", "a number", "null".
std::string_view kind_of(const Json& value);
std::string_view kind_of(const nlohmann::json& value);

// The member `key` of `object`, if the object has it. Throws InvalidArgument unless it is a text.
std::optional<std::string> text_member(const Json& object, const std::string& key,
                                       const JsonSource& source);

}  // namespace cohort::internal
